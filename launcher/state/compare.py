"""What differs between two runs: what was asked, code, packages, outcome, last figures. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..serialization import to_plain
from ..spec.job import JobSpec
from .events import OriginFound
from .run_state import Phase, RunState

_NAMES = frozenset({"exit_code"})  # numbers between which there is no difference in size


@dataclass(frozen=True, slots=True)
class Record:
    """A run to be compared: what was asked, and what came of it.

    `state` is folded from the facts, `phase`, `exit_code` and `why` are as they are judged now.
    """

    spec: JobSpec
    state: RunState
    phase: Phase
    exit_code: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A value that differs; None where one has none. `delta` is by how much the second is greater."""

    name: str
    left: Any
    right: Any
    delta: float | None = None


@dataclass(frozen=True, slots=True)
class Section:
    """A part of two runs: what differs there, and of how many values it was found that they are equal."""

    name: str
    differences: tuple[Difference, ...]
    equal: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that differs, and what is to be known of that."""

    sections: tuple[Section, ...]
    notes: tuple[str, ...] = ()


def compare(left: Record, right: Record) -> Comparison:
    """The differences of two runs, with secrets redacted."""
    parts = {
        "spec": (_asked(left.spec), _asked(right.spec)),
        "code": (_code(left.state.origin), _code(right.state.origin)),
        "packages": (_packages(left.state.origin), _packages(right.state.origin)),
        "outcome": (_outcome(left), _outcome(right)),
        "metrics": (_metrics(left.state), _metrics(right.state)),
    }
    sections = (section(name, *sides) for name, sides in parts.items())
    return Comparison(tuple(sections), tuple(_notes(left, right)))


def section(name: str, left: Mapping[str, Any], right: Mapping[str, Any]) -> Section:
    """Two flat mappings beside each other, in the order of the first and then of the second."""
    names = dict.fromkeys([*left, *right])
    differing = [n for n in names if not _same(left.get(n), right.get(n))]
    found = (d for n in differing for d in _differences(n, left.get(n), right.get(n)))
    return Section(name, tuple(found), len(names) - len(differing))


def flat(value: Any, path: str = "") -> dict[str, Any]:
    """Nested mappings as one, by dotted paths. Lists stay whole, and what is empty is left out."""
    if not isinstance(value, Mapping):
        return {} if value in ("", None) or value == [] else {path: value}
    found: dict[str, Any] = {}
    for key, item in value.items():
        found.update(flat(item, f"{path}.{key}" if path else str(key)))
    return found


def _differences(name: str, left: Any, right: Any) -> Iterator[Difference]:
    """Lists of one length by item, all else as a whole."""
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
    except OverflowError:  # a whole number beyond all floats
        return None


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _asked(spec: JobSpec) -> dict[str, Any]:
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
    """What equal values do not say."""
    origins = left.state.origin, right.state.origin
    unknown = [side for side, origin in zip("AB", origins, strict=True) if origin is None]
    if unknown:
        yield f"the code and the packages of {' and '.join(unknown)} are not known"
    revisions = {o.revision for o in origins if o}
    dirty = [side for side, origin in zip("AB", origins, strict=True) if origin and origin.dirty]
    if len(revisions) == 1 and "" not in revisions and dirty and not unknown:
        yield f"the revision is the same, but {' and '.join(dirty)} had changes that were not committed"
