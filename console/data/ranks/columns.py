"""The columns of the table of ranks by name: what each shows of a rank, and by what it sorts.

A column is one of the table here, a metric of `console.data.run.metrics`, or a figure that ranks report.
Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import cache, lru_cache
from typing import TypeAlias

from ... import formatting as fig
from ...sanitize import printable
from ..run.health import Condition
from ..run.metrics import LAG, TABLE, Metric, Source
from ..run.model import RankView

Value: TypeAlias = float | str | tuple[object, ...] | None
"""What a column sorts by; None is unknown, and comes last."""

AGES = frozenset({"step_age", "log_age", "tele_age"})
RANK, STATE, CHART, HOST = "rank", "state", "chart", "host"
REPORTED = "metric."
"""Before the name of a reported figure that is also the name of a column, as in ``metric.step``."""

_FIGURE, _HOST, _REPORTED, _LONGEST = 5, 12, 9, 64
_NOISE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class RankColumn:
    """One column.

    Attributes:
        name: its name in the settings, in filters and in titles.
        title: its head.
        width: in cells; the chart takes what is left.
        text: its cell for a rank.
        value: what it sorts by.
        keep: where room is short, columns with the least value are left out first.
        style, left: of its cells.
        rising: whether the least value comes first; otherwise the greatest.
        noise, share: a change of at most this, absolute and as a share of the figure, moves no rank.
        drifts: whether the figures of all ranks rise together, so that only their differences count.
        number: reads the number of a comparison in a filter, if it is no plain one.
        figure: what filters compare; None if the column is no figure.
    """

    name: str
    title: str
    width: int
    text: Callable[[RankView], str]
    value: Callable[[RankView], Value]
    keep: int = 1
    style: str = ""
    left: bool = False
    rising: bool = False
    noise: float = 0.0
    share: float = 0.0
    drifts: bool = False
    number: Callable[[str], float] | None = None
    figure: Callable[[RankView], float | None] | None = None

    @property
    def jitters(self) -> bool:
        """Whether its values change all the time."""
        return self.noise > 0 or self.share > 0


def _measured(
    name: str, title: str, figure: Callable[[RankView], float | None], **rest: object
) -> RankColumn:
    """A column of a figure, which sorts by the figure and can be compared in a filter."""
    usual = {"width": 8, "noise": 1.0, "share": _NOISE, "value": figure, "figure": figure}
    return RankColumn(name, title, **{**usual, **rest})  # type: ignore[arg-type]


_SEVERITY = {condition: number for number, condition in enumerate(Condition)}


def severity(view: RankView) -> int:
    """How bad a rank's condition is: 0 is the best."""
    return _SEVERITY[view.condition]


def _age_column(name: str, title: str, age: Callable[[RankView], int | None], keep: int) -> RankColumn:
    return _measured(
        name, title, age, text=lambda v: fig.age(age(v)), keep=keep, style="muted", noise=5.0,
        number=lambda text: fig.seconds_of(text, bare="s"),
    )  # fmt: skip


@lru_cache(16384)
def natural(name: str) -> tuple[object, ...]:
    """A sort key that puts gpu-9 before gpu-10."""
    return tuple((int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,12})", name[:256]))


def _pid(view: RankView) -> str:
    return fig.UNKNOWN if view.rank.pid is None else str(view.rank.pid)


OWN: Mapping[str, RankColumn] = {
    column.name: column
    for column in (
        RankColumn(
            RANK, "rank", 4, lambda v: str(v.rank.rank), lambda v: v.rank.rank, 99, "bold", rising=True,
            figure=lambda v: v.rank.rank,
        ),
        RankColumn(STATE, "state", 8, lambda v: v.condition, severity, 98, left=True),
        RankColumn(CHART, "chart", 8, lambda _: "", lambda _: None, 97),
        RankColumn(
            HOST, "host", _HOST, lambda v: printable(v.rank.host), lambda v: natural(v.rank.host), 6,
            left=True, rising=True,
        ),
        _measured("step", "step", lambda v: v.rank.step, text=lambda v: fig.count(v.rank.step), keep=8,
                  noise=2.0, share=0.0, drifts=True),
        _measured("rows", "rows", lambda v: v.rank.rows, text=lambda v: fig.count(v.rank.rows), keep=8,
                  drifts=True),
        RankColumn("pid", "pid", 8, _pid, lambda v: v.rank.pid, 3, "muted", rising=True,
                   figure=lambda v: v.rank.pid),
        RankColumn("device", "device", 18, lambda v: printable(v.device), lambda v: v.device or None, 2,
                   "muted", left=True, rising=True),
        _age_column("step_age", "step age", lambda v: v.step_age, 1),
        _age_column("log_age", "log age", lambda v: v.log_age, 0),
        _age_column("tele_age", "tele age", lambda v: v.sample_age, -1),
    )
}  # fmt: skip
"""The columns that are no sampled metrics, by name, in their usual order."""


def metric_name(metric: Metric) -> str:
    """The name of a metric's column."""
    return metric.head.lower()


def _names_of(metric: Metric) -> tuple[str, ...]:
    return metric_name(metric), metric.key.lower(), metric.name.lower()


def metrics() -> tuple[Metric, ...]:
    """The metrics that a rank can have."""
    return tuple(m for m in TABLE.rows if m.source is not Source.HOST)


@cache
def metric_column(metric: Metric) -> RankColumn:
    """The column of a metric."""
    is_share = metric.is_share
    return _measured(
        metric_name(metric),
        metric.head,
        (lambda v: v.figure(metric)) if metric.filters_by_figure else (lambda v: v.amount(metric)),
        width=max(metric.width, _FIGURE) if metric is not LAG else metric.width,
        text=lambda v: metric.written(v.amount(metric)),
        value=lambda v: v.amount(metric),
        keep=metric.keep or 6,
        noise=metric.top / 50 if is_share and not metric.whole else 0.0,
        number=size_of if metric.unit == "B" and not metric.filters_by_figure else None,
    )


def size_of(text: str) -> float:
    """The bytes of a size, whose units are powers of 1024 as in the column.

    Raises:
        SpecError: the text is no size.
    """
    from launcher.spec.options import bytes_of

    lower = text.lower().removesuffix("b").removesuffix("i")
    return bytes_of(f"{lower}i" if lower[-1:] in ("k", "m", "g", "t") else lower)


@cache
def reported_column(metric: str) -> RankColumn:
    """The column of a figure that ranks report, by its name there."""

    def figure(view: RankView) -> float | None:
        value = view.rank.metrics.get(metric)
        return value if fig.is_finite(value) else None

    def text(view: RankView) -> str:
        return fig.metric(view.rank.metrics[metric]) if metric in view.rank.metrics else fig.UNKNOWN

    title = " ".join(printable(metric).split()) or "?"
    return _measured(metric, title, figure, text=text, width=min(max(_REPORTED, len(title)), 16), noise=0.0,
                     keep=5)  # fmt: skip


def known_names() -> list[str]:
    """The names of all columns but the reported figures."""
    return [*OWN, *(metric_name(metric) for metric in metrics())]


def column_of(name: str) -> RankColumn:
    """The column of a name; a name that is not in the table is that of a reported figure."""
    return _known_column(name.lower()) or reported_column(name.removeprefix(REPORTED))


def _known_column(name: str) -> RankColumn | None:
    if name in OWN:
        return OWN[name]
    return next((metric_column(m) for m in metrics() if name in _names_of(m)), None)


def names_problem(names: object, known: Iterable[str], what: str) -> str | None:
    """Why a list of columns is invalid, as the rest of a sentence; None if it is valid.

    A name that is nearly that of a column is taken for a mistake, any other one for a reported figure.
    """
    known = list(known)
    columns = f"there are {', '.join(known)}, and every figure that {what} report"
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return f"must be a list of names in quotes, not {names!r}; {columns}"
    if not names:
        return f"must name a column; {columns}"
    for name in names:
        if not name or len(name) > _LONGEST or not name.isprintable():
            return f"has a column without a usable name, {name[:_LONGEST]!r}; {columns}"
        if names.count(name) > 1:
            return f"has {name} twice"
        near = get_close_matches(name.lower(), known, 1, 0.75)
        if near and name.lower() not in known and not name.startswith(REPORTED):
            reported = f"as {REPORTED}{name} if it is reported"
            return f"has no column {name!r}; did you mean {near[0]}? {columns}, {reported}"
    return None


def rank_columns_problem(names: object) -> str | None:
    """Why a list of columns of ranks is invalid, as the rest of a sentence; None if it is valid."""
    aliases = [name for metric in metrics() for name in _names_of(metric)]
    return names_problem(names, dict.fromkeys((*known_names(), *aliases)), "ranks")


USUAL = ("rank", "state", "chart", "step", "lag", "gpu", "mem", "power", "temp", "pid",
         "step_age", "log_age", "tele_age")  # fmt: skip
"""The usual columns of a run with GPUs; beside them the host, where ranks do not stand below their hosts."""


def usual_columns(*, devices: bool, charted: Metric, hosts: bool, predicts: bool = False) -> list[RankColumn]:
    """The columns of ranks with or without GPUs, or of workers that predict; `hosts` adds those names."""
    shown = TABLE.shown(Source.DEVICE if devices else Source.PROCESSES)
    more = () if charted in (*shown, LAG) else (charted,)
    names = [STATE, CHART, *([HOST] if hosts else []), *(["rows"] if predicts else ["step"])]
    measured = [*([] if predicts else [LAG]), *shown, *more]
    ages = [replace(OWN["step_age"], title="rows age") if predicts else OWN["step_age"]]
    rest = [OWN["pid"], *ages, OWN["log_age"], OWN["tele_age"]]
    return [*(OWN[name] for name in names), *map(metric_column, measured), *rest]


def chosen_columns(names: Sequence[str], *, devices: bool) -> list[RankColumn]:
    """The columns that a person chose, without the rank, which is always first.

    Those of GPUs are left out of a run without any. Where room is short, columns are left out from the end.
    """
    gpus = {metric_name(metric) for metric in TABLE.of(Source.DEVICE)}
    columns = [column_of(name) for name in names if name.lower() != RANK]
    kept = [column for column in columns if devices or column.name not in gpus]
    return [replace(column, keep=len(kept) - at) for at, column in enumerate(kept)]
