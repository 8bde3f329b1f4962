"""The filter of ranks: ``state:failed gpu<50 host:node-3 rank:0-7 loss>3``. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection
from fnmatch import fnmatchcase

from launcher.errors import SpecError
from launcher.spec.source import suggestion
from launcher.state.ranks import RankPhase

from ...formatting import metric as metric_text
from ...formatting import shorten
from ..filtering import Figure, Filter, NamedField, Test, help_line, parse_filter
from ..run.health import Condition
from ..run.model import RankView
from .columns import OWN, REPORTED, RankColumn, metric_column, metrics, reported_column

_UNITS = "%cw"
"""Letters that may follow a number: per cent, degrees Celsius, watts."""
_SHOWN_NAMES, _NAME = 24, 40


def parse_rank_filter(text: str, reported: Collection[str] = ()) -> Filter[RankView]:
    """Parse the filter as it is typed; `reported` are the names of the figures that ranks report.

    Raises:
        SpecError: a value is invalid, or nothing has such a name; the message names what there is.
    """
    names = sorted(reported)

    def unnamed(name: str, sign: str, value: str) -> Test[RankView]:
        own = name.removeprefix(REPORTED)
        known = own if own in reported else next((n for n in names if n.lower() == own.lower()), None)
        if known is None:
            raise _unknown(name, sign, names)
        column = reported_column(known)
        return _told(known, value) if sign == ":" else _figure(column, column.name).compared(sign, value)

    return parse_filter(text, _texts, FIELDS, figures(), unnamed)


def compares(wanted: Filter[RankView]) -> bool:
    """Whether a filter compares figures, which change all the time."""
    return "<" in wanted.text or ">" in wanted.text


def _told(metric: str, value: str) -> Test[RankView]:
    """Whether a figure was reported as this text, such as ``nan``."""
    lower = value.lower()
    return lambda v: metric in v.rank.metrics and metric_text(v.rank.metrics[metric]).lower() == lower


def _unknown(name: str, sign: str, reported: list[str]) -> SpecError:
    if sign == ":":
        known = [field.name for field in FIELDS]
        there = f"there are {', '.join(known)}"
    else:
        known = list(dict.fromkeys([*reported[:_SHOWN_NAMES], *_own_figures()]))
        shown = ", ".join(shorten(each, _NAME) for each in known[:_SHOWN_NAMES])
        there = f"there are {shown}{', …' if len(known) > _SHOWN_NAMES else ''}"
    name = shorten(name, _NAME)
    near = suggestion(name, [each for each in known if len(each) <= _NAME])
    what = "field" if sign == ":" else "figure"
    return SpecError(f"no rank has a {what} {name!r}: {f'{near} ' if near else ''}{there}")


def figures() -> tuple[Figure[RankView], ...]:
    """The figures that a comparison can name: those of the columns, and all names of metrics."""
    own = [_figure(column, column.name) for column in OWN.values() if column.figure is not None]
    more = [
        _figure(metric_column(metric), name)
        for metric in metrics()
        for name in dict.fromkeys((metric.head.lower(), metric.key.lower(), metric.name.lower()))
    ]
    return (*own, *more)


def _own_figures() -> list[str]:
    own = [column.name for column in OWN.values() if column.figure is not None]
    return [*own, *(metric_column(metric).name for metric in metrics())]


def _figure(column: RankColumn, name: str) -> Figure[RankView]:
    assert column.figure is not None
    return Figure(name, column.figure, _UNITS, column.number)


def _in_state(value: str) -> Test[RankView]:
    """A test for conditions or phases: names or their first letters, separated by commas."""
    parts = [part for part in value.lower().split(",") if part]
    conditions = {c for part in parts for c in Condition if c.lower().startswith(part)}
    phases = {p for part in parts for p in RankPhase if p.startswith(part)}
    known = [*(c.lower() for c in Condition), *RankPhase]
    if not parts or not all(any(name.startswith(part) for name in known) for part in parts):
        raise ValueError(value)
    shared = {p for p in phases if any(c.lower() == p for c in Condition)}
    return lambda v: v.condition in conditions or v.rank.phase in phases - shared


def _on_host(value: str) -> Test[RankView]:
    lower = value.lower()
    pattern = lower if any(c in value for c in "*?[") else f"*{lower}*"
    return lambda v: fnmatchcase(v.rank.host.lower(), pattern)


def _numbered(value: str) -> Test[RankView]:
    """A test for ranks such as ``0-7,12``; a range that is still typed ends at its first number."""
    spans: list[tuple[int, int]] = []
    for part in filter(None, value.split(",")):
        match = re.fullmatch(r"(\d{1,9})(?:-(\d{0,9}))?", part, re.ASCII)
        if match is None:
            raise ValueError(value)
        spans.append((int(match[1]), int(match[2] or match[1])))
    if not spans:
        raise ValueError(value)
    return lambda v: any(low <= v.rank.rank <= high for low, high in spans)


def _on_device(value: str) -> Test[RankView]:
    lower = value.lower()
    return lambda v: lower in v.device.lower() or any(lower in d.uuid.lower() for d in v.rank.devices)


def _states() -> str:
    return ", ".join(dict.fromkeys([*(c.lower() for c in Condition), *RankPhase]))


FIELDS: tuple[NamedField[RankView], ...] = (
    NamedField("state", _states(), _in_state, ("state:failed", "gpu<50")),
    NamedField("host", "a part of a host's name, or a pattern for all of it", _on_host, ("host:node-3",)),
    NamedField("rank", "ranks such as 0-7,12", _numbered, ("rank:0-7",)),
    NamedField("device", "a part of a device's name or UUID", _on_device),
)
HELP = help_line(FIELDS)


def _texts(view: RankView) -> str:
    rank = view.rank
    words = (rank.host, view.condition, rank.phase, view.device, str(rank.pid), rank.role, rank.paused or "")
    return "\n".join(words).lower()
