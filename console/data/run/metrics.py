"""The table of metrics: everything that is told of a figure of a device, of a rank's processes or of a host.

A sampled figure is one row here. Columns, details, sums, charts, alerts and the filters of the cluster screen
read the row; none of them knows a metric that it does not treat in a way of its own. Pure.
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
    """Whose figure it is, and by that the kind of sample that has it."""

    DEVICE = "DeviceSample"
    PROCESSES = "RankSample"
    HOST = "HostSample"
    STEPS = "the steps that ranks report"


class Aggregate(Enum):
    """What several values come to."""

    MEAN = "mean"
    SUM = "sum"
    MAX = "peak"

    def of(self, values: Sequence[float]) -> float | None:
        """Of no values it is None."""
        if not values:
            return None
        if self is _MAX:
            return max(values)
        total = sum(values)
        return total if self is _SUM else total / len(values)


_MEAN, _SUM, _MAX = Aggregate.MEAN, Aggregate.SUM, Aggregate.MAX


@dataclass(frozen=True, slots=True)
class Rule:
    """When a figure is alarming. Between the two thresholds all stays as it was.

    Attributes:
        what: the alert's words.
        bad, good: whether the figure raises the alert, or ends it.
        hold_s: how long it must have been so.
        figure: the name of the reported figure that it is about, if it is about one.
        end_s: how long it must have been good, where that differs from `hold_s`.
        median_from: it holds only while the median of all ranks is at least this.
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
        name: what it is called where devices and hosts are shown.
        key: its short name, before the sign in a filter (``temp>75``) and above a column of GPUs.
        label, head: what it is called on the run screen, and above a column of ranks.
        source, field: which samples have it, and there under which name.
        whole: the field with how much there can be of it. Its scale is then per cent of that.
        unit: of its amounts; ``%`` if those are on a scale of per cent.
        together: what the amounts of a rank's devices come to, of a host's ranks, and of all ranks.
        life: what the amounts over a rank's whole life come to; None: nothing.
        written: an amount as text, in at most `width` characters.
        top: the end of its scale. Metrics without one are not charted.
        follows: whether greater figures widen the scale; otherwise they are shown as `top`.
        wished: whether the greatest figure is the best one rather than the worst.
        keep: the importance of its column. One without has a column only while it is charted.
        plot: the title of its chart over all ranks; it has none without.
        sought_by_share: whether filters compare the figure rather than the amount.
        rules: when its figure is alarming.
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
    follows: bool = False
    wished: bool = False
    keep: int = 0
    plot: str = ""
    sought_by_share: bool = False
    rules: tuple[Rule, ...] = ()

    def __post_init__(self) -> None:
        for name, usual in (("key", self.name), ("label", self.name), ("head", self.label or self.name)):
            if not getattr(self, name):
                object.__setattr__(self, name, usual)

    def __repr__(self) -> str:
        return f"<metric {self.key} of {self.source.value}>"

    @property
    def title(self) -> str:
        """What is charted, with the unit of its scale where that is no percentage."""
        return self.label if self.is_share or not self.unit else f"{self.label} {self.unit}"

    @property
    def is_share(self) -> bool:
        """Whether its scale is per cent."""
        return bool(self.whole) or self.unit == "%"

    @property
    def is_charted(self) -> bool:
        """Whether the course of a rank's or of a device's figures can be drawn."""
        return self.top > 0 and self.source is not Source.HOST

    def amount(self, samples: Sequence[object]) -> float | None:
        """What samples of its source come to; None if it is unknown in all of them."""
        return come_to(samples, self.field, self.together)

    def total(self, samples: Sequence[object]) -> float | None:
        """How much there can be of it by these samples."""
        return come_to(samples, self.whole, self.together) if self.whole else None

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
        """An amount as text, and of how much."""
        return f"{self.written(amount)} of {self.written(total)}" if self.whole else self.written(amount)

    def life_label(self, width: int) -> str:
        """What the amount over a whole life is called, in at most `width` characters if that can be."""
        kind = "" if self.life is None else f" {self.life.value}"
        labels = [f"{text}{kind}" for text in (self.label, self.head, self.unit)]
        return next((label for label in labels if len(label) <= width), labels[-1])

    def scale_of(self, figures: Iterable[float | None]) -> float:
        """The end of a scale on which these figures are drawn."""
        if not self.follows:
            return self.top
        return max([self.top, *filter(is_known, figures)])

    def badness(self, figure: float | None) -> float:
        """How far a figure is from what one wishes for, unknown last: busy is good, hot and late are bad."""
        if figure is None:
            return -1000.0
        return -figure if self.wished else figure


def come_to(samples: Sequence[object], field: str, how: Aggregate) -> float | None:
    """What one field of several samples comes to; None if it is unknown, or no number, in all of them."""
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
    written=fig.percent, width=4, top=100.0, wished=True, keep=9, plot="GPU % of all ranks", rules=(IDLE,),
)  # fmt: skip
MEMORY = Metric(
    name="memory", key="mem", head="mem", source=Source.DEVICE, field="memory_used", whole="memory_total",
    unit="B", together=_SUM, life=_MAX, written=fig.memory, top=100.0, keep=7, plot="GPU memory %",
    sought_by_share=True, rules=(FULL,),
)  # fmt: skip
POWER = Metric(
    name="power", source=Source.DEVICE, field="power_w", whole="power_limit_w", unit="W", together=_SUM,
    life=_MEAN, written=fig.watts, top=100.0, wished=True, keep=4, plot="power %",
)  # fmt: skip
TEMPERATURE = Metric(
    name="temp", source=Source.DEVICE, field="temperature_c", unit="°C", together=_MAX, life=_MAX,
    written=fig.celsius, width=4, top=100.0, keep=5, rules=(HOT,),
)  # fmt: skip
CLOCK = Metric(
    name="clock", source=Source.DEVICE, field="sm_clock_mhz", unit="MHz", together=_MEAN, life=_MEAN,
    written=_megahertz, width=7, top=2000.0, wished=True,
)  # fmt: skip
LAG = Metric(
    name="lag", source=Source.STEPS, field="lag", unit="steps", together=_MAX, life=None,
    written=fig.count, width=4, top=8.0, keep=2, rules=(BEHIND,),
)  # fmt: skip
CPU = Metric(
    name="CPU", key="cpu", source=Source.PROCESSES, field="cpu", unit="%", together=_MEAN, life=_MEAN,
    written=fig.percent, top=100.0, follows=True, wished=True, keep=9,
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
    """The rows, in the order in which they are offered and shown. What is asked for often is ready."""

    def __init__(self, *rows: Metric) -> None:
        self.rows = rows

    @property
    def rows(self) -> tuple[Metric, ...]:
        """All of them. Others can be put in their place before anything is sampled."""
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
        """Those that are sampled there."""
        return self._of[source]

    def fields(self, source: Source) -> tuple[tuple[Metric, str, str], ...]:
        """The same with their fields and with those of how much there can be."""
        return self._fields[source]

    def shown(self, source: Source) -> tuple[Metric, ...]:
        """Those of them that tables, sums and details show without being asked."""
        return self._shown[source]

    def choices(self, *, devices: bool) -> tuple[Metric, ...]:
        """What can be charted of ranks with or without devices."""
        return tuple(m for m in self.charted if devices or m.source is not Source.DEVICE)

    def first(self, *, devices: bool) -> Metric:
        """What is charted at first."""
        source = Source.DEVICE if devices else Source.PROCESSES
        return next(metric for metric in self.charted if metric.source is source)

    def after(self, metric: Metric, *, devices: bool) -> Metric:
        """The choice after this one, all the way round."""
        choices = self.choices(devices=devices)
        return choices[(choices.index(metric) + 1) % len(choices)] if metric in choices else choices[0]


TABLE = MetricTable(
    UTIL, MEMORY, POWER, TEMPERATURE, CLOCK, LAG, CPU, RSS, HOST_CPU, HOST_MEMORY, LOAD
)  # fmt: skip
