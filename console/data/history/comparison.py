"""TODO."""

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
    """What differs between two runs.

    Raises:
        RecordError: a folder holds no readable run.
    """
    return compare(_record(left), _record(right))


def _record(folder: Path) -> Record:
    status = status_of(folder)
    return Record(read_spec(folder), read_state(folder), status.state, status.exit_code, status.why)


def difference_row(section: str, found: Difference) -> tuple[str, ...]:
    """The section, the name, both values and by how much the second is greater; as short texts."""
    delta = "" if found.delta is None else f"{_signed(found.delta)}{_share(found)}"
    figures = section in _MEASURED
    values = (_cell(value, figures=figures) for value in (found.left, found.right))
    return (section, printable(found.name), *values, delta)


def told_apart(left: str, right: str, room: int) -> tuple[str, str]:
    """Two ids in at most `room` cells each: whole, or from the part on in which they differ."""
    if max(len(left), len(right)) <= room or left == right:
        return left, right
    parts, others = left.split("-"), right.split("-")
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(parts, others, strict=False)))
    return ("…" + "-".join(parts[same:]), "…" + "-".join(others[same:])) if same else (left, right)


def _signed(delta: float) -> str:
    return f"{'+' if delta > 0 else ''}{metric(delta, _DIGITS)}"


def _share(found: Difference) -> str:
    """How much that is of the first value."""
    if not found.left or found.delta is None:
        return ""
    share = found.delta / abs(found.left)
    return f" ({share:+.1%})" if is_finite(share) else ""


def _cell(value: Any, *, figures: bool) -> str:
    """A value as a short text; `figures` says that numbers are sizes, not what somebody wrote."""
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
