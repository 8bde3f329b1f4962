"""The runs there have been, newest first, and those among them that a person asks for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from launcher.errors import RecordError, SpecError
from launcher.runs.catalog import list_runs
from launcher.runs.samples import newest
from launcher.runs.status import Status
from launcher.spec.modes import Mode
from launcher.state import events as ev
from launcher.state.run_state import Phase

from ...formatting import duration, seconds_of, whole_minutes
from ..filtering import Filter, NamedField, Test, parse_filter

MOST = 100
_NEWEST = 64 << 10
_REPORT = ev.RankReported.tag.encode()


def submitted_at(run: Status) -> float:
    """When a run was submitted; where only its id is left, the id says it."""
    return _time_of(run.id) if run.started is None else run.started


def _time_of(run: str) -> float:
    try:
        return datetime.strptime(f"{run[:15]}+0000", "%Y%m%d-%H%M%S%z").timestamp()
    except ValueError:  # no calendar has that day
        return 0.0


def all_runs(root: Path) -> Iterator[Status]:
    """Every run, newest first, from the index where Python has the library for it.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    try:
        from launcher.runs.index import indexed_runs
    except ImportError:
        return list_runs(root)
    return indexed_runs(root)


def chosen_runs(root: Path, wanted: Filter[Status], limit: int | None = None) -> Iterable[Status]:
    """The newest runs that are wanted.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    return (current(run, root) for run in islice(filter(wanted.accepts, all_runs(root)), limit))


def recent_runs(root: Path, limit: int = MOST) -> tuple[Status, ...]:
    """The newest runs; none where there is no folder of runs yet, or it cannot be read."""
    try:
        return tuple(chosen_runs(root, Filter(), limit))
    except RecordError:
        return ()


def current(run: Status, root: Path) -> Status:
    """A run that goes on, with the step and the figures that are newest in its samples."""
    if run.state.final:
        return run
    leading: list[ev.RankReported] = []
    for fact in _reports(root / run.id):
        if fact.attempt == run.attempt and (not leading or fact.rank <= leading[0].rank):
            leading = [*leading, fact] if leading and fact.rank == leading[0].rank else [fact]
    metrics = {k: v for fact in leading for k, v in fact.metrics.items() if k != "total_steps"}
    steps = [fact.step for fact in leading if fact.step is not None]
    return replace(run, step=steps[-1] if steps else run.step, metrics={**run.metrics, **metrics})


def _reports(folder: Path) -> Iterator[ev.RankReported]:
    try:
        lines = newest(folder, _NEWEST)
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            if _REPORT in line and isinstance(fact := ev.decode(line), ev.RankReported):
                yield fact


def took(run: Status, now: float | None = None) -> float | None:
    """How many seconds a run took, or has taken so far; None where that is not known.

    A clock that was set back makes no time negative.
    """
    end = run.ended if run.state.final else run.ended or (time.time() if now is None else now)
    return None if run.started is None or end is None else max(0.0, end - run.started)


def took_text(run: Status, now: float | None = None) -> str:
    """How long a run took; of one that goes on, the whole minutes so far, which seldom change."""
    seconds = took(run, now)
    return duration(seconds) if run.state.final or seconds is None else whole_minutes(seconds)


_LIVE = tuple(phase for phase in Phase if not phase.final)
_GROUPS = {"live": _LIVE, "ended": tuple(phase for phase in Phase if phase.final)}


def fields(now: float) -> tuple[NamedField[Status], ...]:
    """What can be asked of a run by name; `now` is what ages are counted from."""
    times = "90m, 12h, 2d, 1w or a date such as 2026-11-20"
    return (
        NamedField("state", f"live, ended or {', '.join(Phase)}", _in_state, ("state:failed", "state:live")),
        NamedField("name", "a part of the name, or a pattern for all of it", _named, ("name:",)),
        NamedField("target", "a part of the target or of its arguments", _with_target, ("target:",)),
        NamedField("user", "who submitted it", _by_user, ("user:",)),
        NamedField("mode", ", ".join(Mode), _in_mode, ("mode:",)),
        NamedField("since", times, lambda value: _since(since(value, now)), ("since:2d",)),
    )


def parse_run_filter(text: str, now: float) -> Filter[Status]:
    """What a text, as it is typed, asks for of runs.

    Raises:
        SpecError: a value means nothing; the sentence says what would.
    """
    return parse_filter(text, _texts, fields(now))


def flags_filter(values: Mapping[str, str | None], now: float) -> Filter[Status]:
    """What the flags of a command ask for, by the names of fields; None is a flag that is not given.

    The flag ``--name`` takes a pattern for the whole name, as a shell has it.

    Raises:
        SpecError: a value means nothing; the sentence says what would.
    """
    known = {field.name: field for field in fields(now)}
    known["name"] = replace(known["name"], test=_matching)
    given = {name: value for name, value in values.items() if value is not None}
    return Filter(tests=tuple(known[name].means(v, option=f"--{name}") for name, v in given.items()))


def since(text: str, now: float) -> float:
    """The time that ``90m``, ``2d`` or ``2026-11-20`` mean, in seconds since the epoch.

    Raises:
        ValueError: none of these.
    """
    try:
        return now - seconds_of(text, bare="")
    except SpecError:  # no age
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(text) from error


def _since(time: float) -> Test[Status]:
    return lambda run: submitted_at(run) >= time


def _in_state(value: str) -> Test[Status]:
    """In the states that are named, if only by their first letters, or ``live`` and ``ended``."""
    parts = [part for part in value.lower().split(",") if part]
    asked = [_GROUPS.get(part, tuple(p for p in Phase if p.startswith(part))) for part in parts]
    if not asked or not all(asked):
        raise ValueError(value)
    found = frozenset(phase for group in asked for phase in group)
    return lambda run: run.state in found


def _in_mode(value: str) -> Test[Status]:
    found = [mode for mode in Mode if mode.startswith(value.lower())]
    if len(found) != 1:
        raise ValueError(value)
    return lambda run: run.mode == found[0]


def _named(value: str) -> Test[Status]:
    small = value.lower()
    pattern = small if any(c in value for c in "*?[") else f"*{small}*"
    return lambda run: fnmatchcase(run.name.lower(), pattern)


def _matching(pattern: str) -> Test[Status]:
    return lambda run: fnmatchcase(run.name, pattern)


def _with_target(value: str) -> Test[Status]:
    return lambda run: value in f"{run.target} {run.args}"


def _by_user(value: str) -> Test[Status]:
    return lambda run: run.user == value


def _texts(run: Status) -> str:
    return f"{run.id}\n{run.name}\n{run.target}\n{run.args}\n{run.user}\n{run.why}\n{run.state}".lower()


ORDERS: dict[str, Callable[[Status], Any]] = {
    "started": lambda run: -submitted_at(run),
    "took": lambda run: -(took(run) or 0.0),
    "ranks": lambda run: -run.num_processes,
    "name": lambda run: run.name.lower(),
    "state": lambda run: run.state,
    "user": lambda run: run.user,
}
"""By what the list may be sorted, and how the first of each is found: the newest, the longest, the widest."""


def arranged(
    runs: Iterable[Status], wanted: Filter[Status], order: str, *, reverse: bool
) -> tuple[Status, ...]:
    """The runs that are shown, in an order of `ORDERS`; those that go on stand above the others."""
    shown = sorted(filter(wanted.accepts, runs), key=ORDERS[order], reverse=reverse)
    return tuple(sorted(shown, key=lambda run: run.state.final))
