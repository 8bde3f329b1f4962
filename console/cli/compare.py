"""Output of `compare`: runs side by side, as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from launcher.errors import SpecError

from ..data.history.comparison import MOST_RUNS, Comparison, Difference, compared, differences_text
from ..echo import print_json, print_text


def print_comparison(folders: Sequence[Path], *, as_json: bool) -> int:
    """Print what differs between runs, and in one line what is equal.

    Raises:
        SpecError: there are too few runs, or too many.
        RecordError: a folder holds no readable run.
    """
    if not 2 <= len(folders) <= MOST_RUNS:
        raise SpecError(f"2 to {MOST_RUNS} runs can be compared, not {len(folders)}")
    comparison = compared(folders)
    names = [folder.name for folder in folders]
    if as_json:
        print_json(_document(names, comparison))
        return 0
    if any(section.differences for section in comparison.sections):
        print_text(differences_text(names, comparison))
    equal = [f"{s.name} {s.equal}" for s in comparison.sections if s.equal]
    print_text(f"equal: {', '.join(equal) or 'nothing'}")
    for note in comparison.notes:
        print_text(f"note: {note}")
    return 0


def _document(names: Sequence[str], comparison: Comparison) -> dict[str, Any]:
    runs = {"a": names[0], "b": names[1]} if len(names) == 2 else {"runs": list(names)}
    return {
        **runs,
        **{s.name: [_entry(d) for d in s.differences] for s in comparison.sections},
        "equal": {s.name: s.equal for s in comparison.sections},
        "notes": list(comparison.notes),
    }


def _entry(difference: Difference) -> dict[str, Any]:
    values = difference.values
    if len(values) == 2:
        return {"name": difference.name, "a": values[0], "b": values[1], "delta": difference.delta}
    return {"name": difference.name, "values": list(values)}
