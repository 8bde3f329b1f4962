"""The runs there have been, newest first, and those among them that a person asks for.

``llama state:failed !user:ada since:2d`` wants all of these at once; a bare word may stand anywhere in a
run's texts, and what follows ``!`` must not be so.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
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

MOST = 100
_NEWEST = 64 << 10
_REPORT = ev.RankReported.tag.encode()
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


@dataclass(frozen=True, slots=True)
class Query:
    """Which runs are wanted; what is empty asks for nothing.

    Attributes:
        states: in one of these states.
        name: a pattern as a shell has it, for the whole name.
        target: a part of the target or of its arguments.
        user: who submitted it.
        mode: local, cluster or connect.
        since: submitted at this time or later, in seconds since the epoch.
    """

    states: tuple[str, ...] = ()
    name: str = ""
    target: str = ""
    user: str = ""
    mode: str = ""
    since: float | None = None

    def accepts(self, run: Status) -> bool:
        """Whether a run is wanted."""
        return (
            (not self.states or run.state in self.states)
            and (not self.name or fnmatchcase(run.name, self.name))
            and self.target in f"{run.target} {run.args}"
            and self.user in ("", run.user)
            and self.mode in ("", run.mode)
            and (self.since is None or submitted_at(run) >= self.since)
        )


def submitted_at(run: Status) -> float:
    """When a run was submitted; where only its id is left, the id says it."""
    return _time_of(run.id) if run.started is None else run.started


def _time_of(run: str) -> float:
    try:
        return datetime.strptime(f"{run[:15]}+0000", "%Y%m%d-%H%M%S%z").timestamp()
    except ValueError:  # no calendar has that day
        return 0.0


def since(text: str, now: float) -> float:
    """The time that ``90m``, ``2d`` or ``2026-11-20`` mean, in seconds since the epoch.

    Raises:
        SpecError: none of these.
    """
    if match := re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip()):
        return now - float(match[1]) * _UNITS[match[2]]
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (ValueError, OverflowError, OSError):
        raise SpecError(
            f"--since takes 90m, 12h, 2d, 1w or a date such as 2026-11-20, not {text!r}"
        ) from None


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


def chosen_runs(root: Path, query: Query, limit: int | None = None) -> Iterable[Status]:
    """The newest runs that are wanted.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    return (current(run, root) for run in islice(filter(query.accepts, all_runs(root)), limit))


def recent_runs(root: Path, limit: int = MOST) -> tuple[Status, ...]:
    """The newest runs; none where there is no folder of runs yet, or it cannot be read."""
    try:
        return tuple(chosen_runs(root, Query(), limit))
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


KEYS = ("state", "name", "target", "user", "mode", "since")
_LIVE = tuple(phase for phase in Phase if not phase.final)
_GROUPS = {"live": _LIVE, "ended": tuple(phase for phase in Phase if phase.final)}

Test = Callable[[Status], bool]


@dataclass(frozen=True, slots=True)
class RunFilter:
    """Which runs are shown: those that pass every test."""

    text: str = ""
    tests: tuple[Test, ...] = ()

    def accepts(self, run: Status) -> bool:
        """Whether a run is shown."""
        return all(test(run) for test in self.tests)


def parse_run_filter(text: str, now: float) -> RunFilter:
    """What the text asks for; a key without a value, as one types it, asks for nothing yet.

    Raises:
        SpecError: a value means nothing; the sentence says what would.
    """
    return RunFilter(text.strip(), tuple(_test(word, now) for word in _words(text) if not _unfinished(word)))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that is still open
        return text.replace('"', " ").replace("'", " ").split()


def _unfinished(word: str) -> bool:
    key, colon, value = word.removeprefix("!").partition(":")
    return not key or bool(colon and key in KEYS and not value)


def _test(word: str, now: float) -> Test:
    if word.startswith("!"):
        test = _test(word[1:], now)
        return lambda run: not test(run)
    key, colon, value = word.partition(":")
    if not colon or key not in KEYS:
        return _anywhere(word.lower())
    if key == "name":
        pattern = value.lower() if any(c in value for c in "*?[") else f"*{value.lower()}*"
        return lambda run: fnmatchcase(run.name.lower(), pattern)
    return _query(key, value, now).accepts


def _query(key: str, value: str, now: float) -> Query:
    if key == "state":
        return Query(states=_states(value.lower()))
    if key == "mode":
        return Query(mode=_mode(value.lower()))
    if key == "since":
        try:
            return Query(since=since(value, now))
        except SpecError:
            raise SpecError(f"since: takes 90m, 12h, 2d, 1w or 2026-11-20, not {value!r}") from None
    return Query(target=value) if key == "target" else Query(user=value)


def _states(value: str) -> tuple[str, ...]:
    """The states that are named, if only by their first letters, or ``live`` and ``ended``."""
    parts = filter(None, value.split(","))
    asked = [_GROUPS.get(part, tuple(p for p in Phase if p.startswith(part))) for part in parts]
    found = tuple(phase for group in asked for phase in group)
    if not found or not all(asked):
        raise SpecError(f"state: takes live, ended or {', '.join(Phase)}, not {value!r}")
    return found


def _mode(value: str) -> str:
    found = [mode for mode in Mode if mode.startswith(value)]
    if len(found) != 1:
        raise SpecError(f"mode: takes {', '.join(Mode)}, not {value!r}")
    return found[0]


def _anywhere(word: str) -> Test:
    return lambda run: word in _texts(run)


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


def arranged(runs: Iterable[Status], wanted: RunFilter, order: str, *, reverse: bool) -> tuple[Status, ...]:
    """The runs that are shown, in an order of `ORDERS`; those that go on stand above the others."""
    shown = sorted(filter(wanted.accepts, runs), key=ORDERS[order], reverse=reverse)
    return tuple(sorted(shown, key=lambda run: run.state.final))
