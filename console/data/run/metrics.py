"""The table of metrics: the names, units, scales and rules of the figures of devices, processes and hosts.

Each sampled figure is one row. Columns, details, sums, charts, alerts and the cluster screen's filters are
made from the rows, and name a metric only if they treat it specially. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum
from sys import float_info
from typing import TypeGuard

from ... import formatting as fig

_MOST = float_info.max


class Source(Enum):
    """The source of a metric; its value names the kind of sample that contains it."""

    DEVICE = "DeviceSample"
    PROCESSES = "RankSample"
    HOST = "HostSample"
    STEPS = "the steps that ranks report"


class Aggregate(Enum):
    """How several values are combined."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "peak"

    def of(self, values: Sequence[float]) -> float | None:
        """Combine the values; None if there are none."""
        if not values:
            return None
        if self is _MAX:
            return max(values)
        total = sum(values)
        return total if self is _SUM else total / len(values)


_MEAN, _SUM, _MAX = Aggregate.MEAN, Aggregate.SUM, Aggregate.MAX


@dataclass(frozen=True, slots=True)
class Rule:
    """When a figure raises an alert. Between the two thresholds the alert stays as it is.

    Attributes:
        what: the alert's text.
        bad, good: whether the figure raises the alert, or ends it.
        hold_s: how many seconds the figure must have been bad, or good.
        figure: the name of the reported figure that the rule is about, if any.
        end_s: how many seconds the figure must have been good, if not `hold_s`.
        median_from: the rule applies only while the median of all ranks is at least this.
    """

    what: str
    bad: Callable[[float], bool]
    good: Callable[[float], bool]
    hold_s: float
    figure: str = ""
    end_s: float | None = None
    median_from: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Metric:
    """One row. An amount is in the unit of the sensor; a figure is on the metric's scale.

    Attributes:
        name: its name where devices and hosts are shown.
        key: its short name, in a filter (``temp>75``) and above a column of GPUs.
        label, head: its name on the run screen, and above a column of ranks.
        source, field: the samples that contain it, and their field.
        whole: the field with its total, if any. The scale is then per cent of the total.
        unit: of its amounts; ``%`` if they are percentages.
        together: how the amounts of a rank's devices, of a host's ranks and of all ranks are combined.
        life: how the amounts over a rank's life are combined; None if they are not.
        written: an amount as text, in at most `width` characters.
        top: the end of its scale. Metrics without one are not charted.
        scale_grows: whether greater figures widen the scale; otherwise they are shown as `top`.
        more_is_better: whether the greatest figure is the best one rather than the worst.
        keep: the importance of its column. A metric without it has a column only while it is charted.
        plot: the title of its chart over all ranks; empty if it has no such chart.
        filters_by_figure: whether filters compare the figure rather than the amount.
        rules: when its figure raises an alert.
    """

    name: str
    key: str = ""
    label: str = ""
    head: str = ""
    source: Source
    field: str
    whole: str = ""
    unit: str = ""
    together: Aggregate
    life: Aggregate | None
    written: Callable[[float | None], str]
    width: int = 6
    top: float = 0.0
    scale_grows: bool = False
    more_is_better: bool = False
    keep: int = 0
    plot: str = ""
    filters_by_figure: bool = False
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        for name, usual in (("key", self.name), ("label", self.name), ("head", self.label or self.name)):
            if not getattr(self, name):
                object.__setattr__(self, name, usual)

    def __repr__(self) -> str:
        return f"<metric {self.key} of {self.source.value}>"

    @property
    def title(self) -> str:
        """The chart's title: the label, with the unit unless the scale is per cent."""
        return self.label if self.is_share or not self.unit else f"{self.label} {self.unit}"

    @property
    def is_share(self) -> bool:
        """Whether its scale is per cent."""
        return bool(self.whole) or self.unit == "%"

    @property
    def is_charted(self) -> bool:
        """Whether a rank's or a device's figures can be drawn as a curve."""
        return self.top > 0 and self.source is not Source.HOST

    def amount(self, samples: Sequence[object]) -> float | None:
        """The combined amount in samples of its source; None if it is unknown in all of them."""
        return combined(samples, self.field, self.together)

    def total(self, samples: Sequence[object]) -> float | None:
        """The combined total in these samples; None if the metric has none."""
        return combined(samples, self.whole, self.together) if self.whole else None

    def figure(self, amount: float | None, total: float | None) -> float | None:
        """An amount on the scale."""
        if not self.whole or amount is None:
            return amount
        share = amount / total * 100 if total else None
        return share if is_known(share) else None

    def figure_text(self, figure: float | None) -> str:
        """A figure as text."""
        return fig.percent(figure) if self.is_share else self.written(figure)

    def amount_text(self, amount: float | None, total: float | None) -> str:
        """An amount as text, with its total if it has one."""
        return f"{self.written(amount)} of {self.written(total)}" if self.whole else self.written(amount)

    def life_label(self, width: int) -> str:
        """The label of the amount over a rank's life, in at most `width` characters if possible."""
        kind = "" if self.life is None else f" {self.life.value}"
        labels = [f"{text}{kind}" for text in (self.label, self.head, self.unit)]
        return next((label for label in labels if len(label) <= width), labels[-1])

    def scale_of(self, figures: Iterable[float | None]) -> float:
        """The end of a scale on which these figures are drawn."""
        if not self.scale_grows:
            return self.top
        return max([self.top, *filter(is_known, figures)])

    def badness(self, figure: float | None) -> float:
        """A sort key, greater for worse figures; unknown ones are least."""
        if figure is None:
            return -1000.0
        return -figure if self.more_is_better else figure


def combined(samples: Sequence[object], field: str, how: Aggregate) -> float | None:
    """One field of several samples, combined; None if it is unknown or not a number in all of them."""
    values = [value for sample in samples if is_known(value := getattr(sample, field))]
    value = values[0] if len(values) == 1 else how.of(values)
    return value if is_known(value) else None


def is_known(value: float | None) -> TypeGuard[float]:
    """Whether a sampled value is a number that can be drawn."""
    return value is not None and -_MOST <= value <= _MOST


def _load(value: float | None) -> str:
    return fig.UNKNOWN if value is None else f"{value:.1f}"


def _megahertz(value: float | None) -> str:
    return fig.UNKNOWN if value is None else f"{value:.0f}MHz"


BEHIND = Rule("behind", lambda v: v >= 3, lambda v: v < 2, 5.0)
IDLE = Rule("GPU idle while others work", lambda v: v <= 5, lambda v: v >= 20, 10.0, median_from=50.0)
FULL = Rule("GPU memory nearly full", lambda v: v >= 97, lambda v: v < 94, 3.0)
HOT = Rule("GPU above 87 °C", lambda v: v > 87, lambda v: v < 83, 5.0)

UTIL = Metric(
    name="util", label="GPU", source=Source.DEVICE, field="util", unit="%", together=_MEAN, life=_MEAN,
    written=fig.percent, width=4, top=100.0, more_is_better=True, keep=9, plot="GPU % of all ranks",
    rules=(IDLE,),
)  # fmt: skip
MEMORY = Metric(
    name="memory", key="mem", head="mem", source=Source.DEVICE, field="memory_used", whole="memory_total",
    unit="B", together=_SUM, life=_MAX, written=fig.memory, top=100.0, keep=7, plot="GPU memory %",
    filters_by_figure=True, rules=(FULL,),
)  # fmt: skip
POWER = Metric(
    name="power", source=Source.DEVICE, field="power_w", whole="power_limit_w", unit="W", together=_SUM,
    life=_MEAN, written=fig.watts, top=100.0, more_is_better=True, keep=4, plot="power %",
)  # fmt: skip
TEMPERATURE = Metric(
    name="temp", source=Source.DEVICE, field="temperature_c", unit="°C", together=_MAX, life=_MAX,
    written=fig.celsius, width=4, top=100.0, keep=5, rules=(HOT,),
)  # fmt: skip
CLOCK = Metric(
    name="clock", source=Source.DEVICE, field="sm_clock_mhz", unit="MHz", together=_MEAN, life=_MEAN,
    written=_megahertz, width=7, top=2000.0, more_is_better=True,
)  # fmt: skip
LAG = Metric(
    name="lag", source=Source.STEPS, field="lag", unit="steps", together=_MAX, life=None,
    written=fig.count, width=4, top=8.0, keep=2, rules=(BEHIND,),
)  # fmt: skip
CPU = Metric(
    name="CPU", key="cpu", source=Source.PROCESSES, field="cpu", unit="%", together=_MEAN, life=_MEAN,
    written=fig.percent, top=100.0, scale_grows=True, more_is_better=True, keep=9,
)  # fmt: skip
RSS = Metric(
    name="RSS", key="rss", source=Source.PROCESSES, field="rss", unit="B", together=_SUM, life=_MAX,
    written=fig.memory, keep=7,
)  # fmt: skip
HOST_CPU = Metric(
    name="CPU", key="cpu", source=Source.HOST, field="cpu", unit="%", together=_MEAN, life=None,
    written=fig.percent, width=4, keep=9,
)  # fmt: skip
HOST_MEMORY = Metric(
    name="memory", key="mem", label="RAM", source=Source.HOST, field="memory_used", whole="memory_total",
    unit="B", together=_SUM, life=None, written=fig.memory, keep=7,
)  # fmt: skip
LOAD = Metric(
    name="load", source=Source.HOST, field="load1", together=_MEAN, life=None, written=_load, keep=4,
)  # fmt: skip


class MetricTable:
    """The rows, in the order in which they are shown. Frequent selections are computed in advance."""

    def __init__(self, *rows: Metric) -> None:
        self.rows = rows

    @property
    def rows(self) -> tuple[Metric, ...]:
        """All rows. They can be replaced before the first sample."""
        return self._rows

    @rows.setter
    def rows(self, rows: tuple[Metric, ...]) -> None:
        self._rows = rows
        self._of = {source: tuple(m for m in rows if m.source is source) for source in Source}
        self._shown = {source: tuple(m for m in self._of[source] if m.keep) for source in Source}
        self._fields = {source: tuple((m, m.field, m.whole) for m in self._of[source]) for source in Source}
        self.charted = tuple(metric for metric in rows if metric.is_charted)
        self.plotted = tuple(metric for metric in self.charted if metric.plot)
        self.rules = tuple((metric, rule) for metric in rows for rule in metric.rules)

    def of(self, source: Source) -> tuple[Metric, ...]:
        """The metrics of a source."""
        return self._of[source]

    def fields(self, source: Source) -> tuple[tuple[Metric, str, str], ...]:
        """The metrics of a source, with the fields of their amounts and totals."""
        return self._fields[source]

    def shown(self, source: Source) -> tuple[Metric, ...]:
        """The metrics of a source that tables, sums and details show by default."""
        return self._shown[source]

    def choices(self, *, devices: bool) -> tuple[Metric, ...]:
        """The metrics that can be charted for ranks with or without devices."""
        return tuple(m for m in self.charted if devices or m.source is not Source.DEVICE)

    def first(self, *, devices: bool) -> Metric:
        """The metric that is charted at first."""
        source = Source.DEVICE if devices else Source.PROCESSES
        return next(metric for metric in self.charted if metric.source is source)

    def after(self, metric: Metric, *, devices: bool) -> Metric:
        """The choice after this one; after the last comes the first."""
        choices = self.choices(devices=devices)
        return choices[(choices.index(metric) + 1) % len(choices)] if metric in choices else choices[0]


TABLE = MetricTable(
    UTIL, MEMORY, POWER, TEMPERATURE, CLOCK, LAG, CPU, RSS, HOST_CPU, HOST_MEMORY, LOAD
)  # fmt: skip
