"""Output of `compare`: two runs side by side, as a table or as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..data.history.comparison import Comparison, Difference, compared, difference_row
from ..echo import print_json, print_text
from ..formatting import table


def print_comparison(left: Path, right: Path, *, as_json: bool) -> int:
    """Print what differs between two runs, and in one line what is equal.

    Raises:
        RecordError: a folder holds no readable run.
    """
    comparison = compared(left, right)
    if as_json:
        print_json(_document(left.name, right.name, comparison))
        return 0
    rows = [difference_row(s.name, d) for s in comparison.sections for d in s.differences]
    if rows:
        print_text(table(("", "", f"A {left.name}", f"B {right.name}", "B - A"), rows))
    equal = [f"{s.name} {s.equal}" for s in comparison.sections if s.equal]
    print_text(f"equal: {', '.join(equal) or 'nothing'}")
    for note in comparison.notes:
        print_text(f"note: {note}")
    return 0


def _document(left: str, right: str, comparison: Comparison) -> dict[str, Any]:
    return {
        "a": left,
        "b": right,
        **{s.name: [_entry(d) for d in s.differences] for s in comparison.sections},
        "equal": {s.name: s.equal for s in comparison.sections},
        "notes": list(comparison.notes),
    }


def _entry(difference: Difference) -> dict[str, Any]:
    return {
        "name": difference.name,
        "a": difference.left,
        "b": difference.right,
        "delta": difference.delta,
    }
