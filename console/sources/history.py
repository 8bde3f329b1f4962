"""The runs there have been, newest first, and those among them that a person asks for."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from launcher import events as ev
from launcher.errors import RecordError, SpecError
from launcher.runs.catalog import list_runs
from launcher.runs.samples import newest
from launcher.runs.status import Status

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
