"""What differs between recorded runs: options, request, code, outcome, metrics; as values and as text."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from typing import Any

from launcher.runs.reader import read_spec, read_state, status_of
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec
from launcher.state.events import OriginFound
from launcher.state.run_state import Phase, RunState

from ...formatting import is_finite, metric, one_line, table
from ...sanitize import printable
from ..options.guessed import guessed

_CELL, _DIGITS = 48, 6
_UNKNOWN = "–"
MOST_RUNS = 8
"""So many runs can be compared at once."""

_MEASURED = frozenset({"outcome", "metrics"})  # sections whose numbers are measured, not typed by a person
_NAMES = frozenset({"exit_code"})  # numbers that only name something: their difference means nothing


@dataclass(frozen=True, slots=True)
class Record:
    """A run to be compared: its request and its outcome.

    `state` is folded from the facts; `phase`, `exit_code` and `why` are those of its judged status, so that a
    run without a verdict is lost.
    """

    spec: JobSpec
    state: RunState
    phase: Phase
    exit_code: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs: one for each run, None where a run has none.

    `delta` is the second minus the first, of two numbers.
    """

    name: str
    values: tuple[Any, ...]
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the comparison: the values that differ, and those that are equal, by name."""

    name: str
    differences: tuple[Difference, ...]
    same: Mapping[str, Any] = field(default_factory=dict)

    @property
    def equal(self) -> int:
        """How many values are equal."""
        return len(self.same)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and notes on what they may hide."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def compared(folders: Sequence[Path]) -> Comparison:
    """Compare runs.

    Raises:
        RecordError: a folder holds no readable run.
    """
    return compare(*map(_record, folders))


def _record(folder: Path) -> Record:
    status = status_of(folder)
    return Record(read_spec(folder), read_state(folder), status.state, status.exit_code, status.why)


def compare(*runs: Record) -> Comparison:
    """The differences of two or more runs, with secrets redacted."""
    parts: dict[str, Callable[[Record], dict[str, Any]]] = {
        "options": lambda run: _options(run.spec),
        "spec": lambda run: _request(run.spec),
        "code": lambda run: _code(run.state.origin),
        "packages": lambda run: _packages(run.state.origin),
        "outcome": _outcome,
        "metrics": lambda run: _metrics(run.state),
    }
    sections = (section(name, *map(part, runs)) for name, part in parts.items())
    return Comparison(tuple(sections), tuple(_notes(runs)))


def section(name: str, *sides: Mapping[str, Any]) -> Section:
    """Compare flat mappings, in the order of the first, then of the second, and so on."""
    names = dict.fromkeys(name for side in sides for name in side)
    values = {n: tuple(side.get(n) for side in sides) for n in names}
    differing = [n for n, each in values.items() if not _all_same(each)]
    differences = tuple(d for n in differing for d in _differences(n, values[n]))
    return Section(name, differences, {n: values[n][0] for n in names if n not in differing})


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted paths. Lists stay whole, and empty values are left out."""
    if not isinstance(value, Mapping):
        return {} if value in ("", None) or value == [] else {path: value}
    items: dict[str, Any] = {}
    for key, item in value.items():
        items.update(flat(item, f"{path}.{key}" if path else str(key)))
    return items


def _differences(name: str, values: tuple[Any, ...]) -> Iterator[Difference]:
    """Lists of the same length are compared by item, other values as a whole."""
    if all(isinstance(value, list) for value in values) and len({len(value) for value in values}) == 1:
        for i, items in enumerate(zip(*values, strict=True)):
            if not _all_same(items):
                yield Difference(f"{name}[{i}]", items)
    else:
        paired = len(values) == 2 and name not in _NAMES
        yield Difference(name, values, _delta(*values) if paired else None)


def _all_same(values: Sequence[Any]) -> bool:
    return all(_same(values[0], other) for other in values[1:])


def _same(left: Any, right: Any) -> bool:
    nan = isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right)
    return nan or bool(left == right and isinstance(left, bool) == isinstance(right, bool))


def _delta(left: Any, right: Any) -> float | None:
    if not (_is_number(left) and _is_number(right)):
        return None
    try:
        delta = right - left
        return delta if math.isfinite(delta) else None
    except OverflowError:  # an integer too large for a float
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _request(spec: JobSpec) -> dict[str, Any]:
    shown = spec.redacted()
    document = to_plain(shown)
    document.pop("withheld")
    for options in ("args", "kwargs"):
        document["target"].pop(options, None)
    return flat(document)


def _options(spec: JobSpec) -> dict[str, Any]:
    """The options of the target: its arguments by their names, or the keywords of its function."""
    target = spec.redacted().target
    return {**options_of(target.args), **dict(target.kwargs)}


def options_of(args: Sequence[str]) -> dict[str, Any]:
    """Arguments as a person reads them: the value of each option, and those without a name by their number.

    An option that is given several times has all its values.
    """
    found: dict[str, list[str]] = {}
    free = 0
    for each in guessed(args):
        free += not each.name
        found.setdefault(each.name or f"argument {free}", []).extend(each.values)
    return {name: " ".join(words) if any(words) else True for name, words in found.items()}


def _code(origin: OriginFound | None) -> dict[str, Any]:
    if origin is None:
        return {}
    checkout = {name: getattr(origin, name) for name in ("revision", "branch", "dirty", "root")}
    return flat({**checkout, "python": origin.python, "beside": to_plain(origin.beside)})


def _packages(origin: OriginFound | None) -> dict[str, Any]:
    return {} if origin is None else dict(origin.packages)


def _outcome(run: Record) -> dict[str, Any]:
    state = run.state
    by = state.submitted
    known = {
        "state": run.phase.value,
        "exit_code": run.exit_code,
        "why": run.why,
        "duration_s": _between(state.started, state.ended),
        "waited_s": _between(state.started, min((r.entered for r in state.ranks if r.entered), default=None)),
        "ranks": len(state.ranks),
        "hosts": len({r.host for r in state.ranks}),
        "restarts": len(state.restarts),
        "user": by.user if by else "",
        "submitted_on": by.host if by else "",
    }
    return flat(known)


def _between(start: float | None, end: float | None) -> float | None:
    return None if start is None or end is None else round(max(0.0, end - start), 3)


def _metrics(state: RunState) -> dict[str, Any]:
    leader = state.leader
    if leader is None:
        return {}
    step = {} if leader.step is None else {"step": leader.step}
    return {**step, **leader.metrics}


def letter(number: int) -> str:
    """The name of a run in a comparison: A, B, and so on."""
    return chr(ord("A") + number)


def _notes(runs: Sequence[Record]) -> Iterator[str]:
    """What the lists of differences do not show: unknown origins, and changes that were not committed."""
    origins = {letter(number): run.state.origin for number, run in enumerate(runs)}
    unknown = [side for side, origin in origins.items() if origin is None]
    if unknown:
        yield f"the code and the packages of {_listed(unknown)} are not known"
    revisions = {o.revision for o in origins.values() if o}
    dirty = [side for side, origin in origins.items() if origin and origin.dirty]
    if len(revisions) == 1 and "" not in revisions and dirty and not unknown:
        yield f"the revision is the same, but {_listed(dirty)} had changes that were not committed"


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def difference_row(section: str, difference: Difference) -> tuple[str, ...]:
    """The section, the name, all values, and of two their difference (second minus first), as short texts."""
    delta = "" if difference.delta is None else f"{_signed(difference.delta)}{_share(difference)}"
    values = (value_cell(section, value) for value in difference.values)
    last = (delta,) if len(difference.values) == 2 else ()
    return (section, printable(difference.name), *values, *last)


def differences_text(names: Sequence[str], found: Comparison) -> str:
    """All differences of runs as a table for people and for other programs."""
    rows = [difference_row(s.name, d) for s in found.sections for d in s.differences]
    runs = (f"{letter(number)} {name}" for number, name in enumerate(names))
    return table(("", "", *runs, *(("B - A",) if len(names) == 2 else ())), rows)


def value_cell(section: str, value: Any) -> str:
    """A value of a section as a short text."""
    return _cell(value, figures=section in _MEASURED)


def shortened_ids(ids: Sequence[str], room: int) -> tuple[str, ...]:
    """Ids: whole if all fit into `room` cells, else from the first part that differs, else their ends."""
    if max(map(len, ids)) <= room or len(set(ids)) == 1:
        return tuple(ids)
    parts = [each.split("-") for each in ids]
    same = sum(1 for _ in takewhile(lambda some: len(set(some)) == 1, zip(*parts, strict=False)))
    shown = tuple(f"…{'-'.join(each[same:])}" for each in parts) if same else tuple(ids)
    ends = tuple(f"…{each[1 - room :]}" for each in ids) if room > 1 else shown
    return ends if max(map(len, shown)) > room and len(set(ends)) == len(set(ids)) else shown


def _signed(delta: float) -> str:
    return f"{'+' if delta > 0 else ''}{metric(delta, _DIGITS)}"


def _share(difference: Difference) -> str:
    """The difference in per cent of the first value."""
    first = difference.values[0]
    if not first or difference.delta is None:
        return ""
    share = difference.delta / abs(first)
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
