"""What differs between two recorded runs: request, code, packages, outcome, metrics; as values and text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from launcher.runs.reader import read_spec, read_state, status_of
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec
from launcher.state.events import OriginFound
from launcher.state.run_state import Phase, RunState

from ...formatting import is_finite, metric, one_line
from ...sanitize import printable

_CELL, _DIGITS = 48, 6
_UNKNOWN = "–"
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
    """A value that differs; None where a run has none. `delta` is `right` minus `left`, of numbers."""

    name: str
    left: Any
    right: Any
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the comparison: the values that differ, and how many are equal."""

    name: str
    differences: tuple[Difference, ...]
    equal: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All differences, and notes on what they may hide."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def compared(left: Path, right: Path) -> Comparison:
    """Compare two runs.

    Raises:
        RecordError: a folder holds no readable run.
    """
    return compare(_record(left), _record(right))


def _record(folder: Path) -> Record:
    status = status_of(folder)
    return Record(read_spec(folder), read_state(folder), status.state, status.exit_code, status.why)


def compare(left: Record, right: Record) -> Comparison:
    """The differences of two runs, with secrets redacted."""
    parts = {
        "spec": (_request(left.spec), _request(right.spec)),
        "code": (_code(left.state.origin), _code(right.state.origin)),
        "packages": (_packages(left.state.origin), _packages(right.state.origin)),
        "outcome": (_outcome(left), _outcome(right)),
        "metrics": (_metrics(left.state), _metrics(right.state)),
    }
    sections = (section(name, *sides) for name, sides in parts.items())
    return Comparison(tuple(sections), tuple(_notes(left, right)))


def section(name: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Section:
    """Compare two flat mappings, in the order of the first and then of the second."""
    names = dict.fromkeys([*left, *right])
    differing = [n for n in names if not _same(left.get(n), right.get(n))]
    differences = (d for n in differing for d in _differences(n, left.get(n), right.get(n)))
    return Section(name, tuple(differences), len(names) - len(differing))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted paths. Lists stay whole, and empty values are left out."""
    if not isinstance(value, Mapping):
        return {} if value in ("", None) or value == [] else {path: value}
    items: dict[str, Any] = {}
    for key, item in value.items():
        items.update(flat(item, f"{path}.{key}" if path else str(key)))
    return items


def _differences(name: str, left: Any, right: Any) -> Iterator[Difference]:
    """Lists of the same length are compared by item, other values as a whole."""
    if isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            if not _same(one, other):
                yield Difference(f"{name}[{i}]", one, other)
    else:
        yield Difference(name, left, right, None if name in _NAMES else _delta(left, right))


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
    document["target"]["kwargs"] = dict(shown.target.kwargs)
    return flat(document)


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


def _notes(left: Record, right: Record) -> Iterator[str]:
    """What the lists of differences do not show: unknown origins, and changes that were not committed."""
    origins = left.state.origin, right.state.origin
    unknown = [side for side, origin in zip("AB", origins, strict=True) if origin is None]
    if unknown:
        yield f"the code and the packages of {' and '.join(unknown)} are not known"
    revisions = {o.revision for o in origins if o}
    dirty = [side for side, origin in zip("AB", origins, strict=True) if origin and origin.dirty]
    if len(revisions) == 1 and "" not in revisions and dirty and not unknown:
        yield f"the revision is the same, but {' and '.join(dirty)} had changes that were not committed"


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
