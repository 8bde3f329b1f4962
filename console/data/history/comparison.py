"""Comparing two recorded runs, and the differences as rows of text."""

from __future__ import annotations

import json
from itertools import takewhile
from pathlib import Path
from typing import Any

from launcher.runs.reader import read_spec, read_state, status_of
from launcher.state.compare import Comparison, Difference, Record, compare

from ...formatting import is_finite, metric, one_line
from ...sanitize import printable


def compared(left: Path, right: Path) -> Comparison:
    """Compare two runs.

    Raises:
        RecordError: a folder holds no readable run.
    """
    return compare(_record(left), _record(right))


def _record(folder: Path) -> Record:
    status = status_of(folder)
    return Record(read_spec(folder), read_state(folder), status.state, status.exit_code, status.why)


def difference_row(section: str, difference: Difference) -> tuple[str, ...]:
    """The section, the name, both values and their difference (second minus first), as short texts."""
    delta = "" if difference.delta is None else f"{_signed(difference.delta)}{_share(difference)}"
    figures = section in _MEASURED
    values = (_cell(value, figures=figures) for value in (difference.left, difference.right))
    return (section, printable(difference.name), *values, delta)


def shortened_ids(left: str, right: str, room: int) -> tuple[str, str]:
    """Two ids: whole if both fit into `room` cells, else from the first part in which they differ."""
    if max(len(left), len(right)) <= room or left == right:
        return left, right
    parts, others = left.split("-"), right.split("-")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))
    return ("…" + "-".join(parts[same:]), "…" + "-".join(others[same:])) if same else (left, right)


def _signed(delta: float) -> str:
    return f"{'+' if delta > 0 else ''}{metric(delta, _DIGITS)}"


def _share(difference: Difference) -> str:
    """The difference in per cent of the first value."""
    if not difference.left or difference.delta is None:
        return ""
    share = difference.delta / abs(difference.left)
    return f" ({share:+.1%})" if is_finite(share) else ""


def _cell(value: Any, *, figures: bool) -> str:
    """A value as a short text; `figures` means that numbers are measured, not typed by the user."""
    if value is None:
        return _UNKNOWN
    if isinstance(value, float):
        return metric(value, _DIGITS) if figures else f"{value:.6g}"
    if figures and isinstance(value, int) and not isinstance(value, bool):
        return metric(value, _DIGITS)
    return one_line(value if isinstance(value, str) else json.dumps(value), _CELL)


_CELL, _DIGITS = 48, 6


_MEASURED = frozenset({"outcome", "metrics"})


_UNKNOWN = "–"
