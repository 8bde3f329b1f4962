"""`compare`: two runs beside each other, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from launcher.state.compare import Comparison, Difference

from ..data.history.comparison import compared, difference_row
from ..echo import tell, tell_json
from ..formatting import table


def print_comparison(left: Path, right: Path, *, as_json: bool) -> int:
    """What differs between two runs, and in one line what does not.

    Raises:
        RecordError: a folder holds no readable run.
    """
    found = compared(left, right)
    if as_json:
        tell_json(_document(left.name, right.name, found))
        return 0
    rows = [difference_row(s.name, d) for s in found.sections for d in s.differences]
    if rows:
        tell(table(("", "", f"A {left.name}", f"B {right.name}", "B - A"), rows))
    equal = [f"{s.name} {s.equal}" for s in found.sections if s.equal]
    tell(f"equal: {', '.join(equal) or 'nothing'}")
    for note in found.notes:
        tell(f"note: {note}")
    return 0


def _document(left: str, right: str, found: Comparison) -> dict[str, Any]:
    return {
        "a": left,
        "b": right,
        **{s.name: [_entry(d) for d in s.differences] for s in found.sections},
        "equal": {s.name: s.equal for s in found.sections},
        "notes": list(found.notes),
    }


def _entry(found: Difference) -> dict[str, Any]:
    return {
        "name": found.name,
        "a": found.left,
        "b": found.right,
        "delta": found.delta,
    }
