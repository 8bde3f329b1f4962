"""`compare`: two runs beside each other, for people and for programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from console.listing import printable, shorten, table
from launcher.codec import to_plain
from launcher.comparing import Comparison, Difference, Record, compare
from launcher.runs.reader import read_spec, read_state, status_of

_CELL = 48
_UNKNOWN = "–"


def print_comparison(left: Path, right: Path, *, as_json: bool) -> int:
    """What differs between two runs, and in one line what does not.

    Raises:
        RecordError: a folder holds no readable run.
    """
    found = compared(left, right)
    if as_json:
        click.echo(json.dumps(_document(left.name, right.name, found)))
        return 0
    rows = [difference_row(s.name, d) for s in found.sections for d in s.differences]
    if rows:
        click.echo(table(("", "", f"A {left.name}", f"B {right.name}", "B - A"), rows))
    equal = [f"{s.name} {s.equal}" for s in found.sections if s.equal]
    click.echo(f"equal: {', '.join(equal) or 'nothing'}")
    for note in found.notes:
        click.echo(f"note: {note}")
    return 0


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
    delta = "" if found.delta is None else f"{found.delta:+.6g}{_share(found)}"
    return (section, printable(found.name), _cell(found.left), _cell(found.right), delta)


def _share(found: Difference) -> str:
    """How much that is of the first value."""
    if not found.left or found.delta is None:
        return ""
    return f" ({found.delta / abs(found.left):+.1%})"


def _cell(value: Any) -> str:
    if value is None:
        return _UNKNOWN
    text = (
        f"{value:.6g}" if isinstance(value, float) else value if isinstance(value, str) else json.dumps(value)
    )
    return shorten(text, _CELL)


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
        "a": to_plain(found.left),
        "b": to_plain(found.right),
        "delta": found.delta,
    }
