"""The list of runs and the record of the selected one, polled in threads.

A run that has ended does not change, so each poll lists the names and reads only the status of live runs.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runs import files, paths
from launcher.runs.catalog import run_ids
from launcher.runs.reader import LineTail, known_status, read_state
from launcher.runs.status import Status, read_status
from launcher.state import events as ev
from launcher.state.run_state import RunState

from ..filtering import Filter
from ..polling import Poller
from ..run.usage import TotalUse, recorded_use
from .arguments import Differences
from .columns import arranged
from .query import all_runs, current

LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs that pass the filter, in order; the number of all runs; and why they cannot be read, if so.

    `differences` is in which arguments the listed runs differ.
    """

    runs: tuple[Status, ...] = ()
    total: int = 0
    problem: str = ""
    differences: Differences = field(default_factory=Differences, compare=False)


@dataclass(frozen=True, slots=True)
class RunQuery:
    """The filter and the order of the list."""

    filter: Filter[Status] = field(default_factory=Filter)
    order: str = "started"
    reverse: bool = False


class RunListPoller:
    """Publishes a `Listing` whenever it has changed."""

    def __init__(self, root: Path, publish: Callable[[Listing], None]) -> None:
        self._cache = RunCache(root)
        self._must_reread = threading.Event()
        self._query = self._published_query = RunQuery()
        self._runs: tuple[Status, ...] | None = None
        self.poller = Poller(self.read, publish, LOOK_S, name="rankdeck-history")

    def ask(self, query: RunQuery) -> None:
        """Set the filter and the order."""
        self._query = query
        self.poller.nudge()

    def reread(self) -> None:
        """Read all runs again, because folders were changed."""
        self._must_reread.set()
        self.poller.nudge()

    def read(self) -> Iterator[Listing]:
        """The current listing; none if neither the runs nor the query have changed."""
        if self._must_reread.is_set():
            self._must_reread.clear()
            self._cache.forget()
        try:
            for runs in self._cache.look():
                query = self._query
                if runs != self._runs or query != self._published_query:
                    self._runs, self._published_query = runs, query
                    yield _listing(runs, query)
        except (OSError, ValueError, LauncherError) as error:
            self._runs = None
            yield Listing(problem=str(error))


def _listing(runs: tuple[Status, ...], query: RunQuery) -> Listing:
    shown = arranged(runs, query.filter, query.order, reverse=query.reverse)
    return Listing(shown, len(runs), differences=Differences(shown))


_SCREENFUL = 128


class RunCache:
    """The runs, newest first. Used by one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, Status] | None = None

    def forget(self) -> None:
        """Read everything again at the next look."""
        self._runs = None

    def look(self) -> Iterator[tuple[Status, ...]]:
        """The current runs; at the first call, those of a first screen are yielded before all runs.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        if self._runs is None:
            yield from self._read_all()
        else:
            self._runs = self._updated(self._runs)
            yield tuple(self._runs.values())

    def live(self) -> tuple[Status, ...]:
        """The current status of the runs that go on.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        for runs in self.look():
            live = tuple(run for run in runs if not run.state.final)
        return live

    def _read_all(self) -> Iterator[tuple[Status, ...]]:
        runs: list[Status] = []
        for run in all_runs(self._root):
            runs.append(current(run, self._root))
            if len(runs) == _SCREENFUL:
                yield tuple(runs)
        self._runs = {run.id: run for run in runs}
        yield tuple(runs)

    def _updated(self, known: dict[str, Status]) -> dict[str, Status]:
        updated = {}
        for run in run_ids(self._root):
            status = known.get(run)
            updated[run] = status if status is not None and status.state.final else self._read(run)
        return updated

    def _read(self, run: str) -> Status:
        status = read_status(self._root / run) or known_status(self._root / run)
        return current(replace(status, id=run), self._root)


_MAX_RECORDS = 64
_AHEAD_BYTES = 1 << 20
_NEAR = ev.LimitNear.tag.encode()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run, folded from all its facts.

    Attributes:
        state: its current or final state.
        limits: the warnings that a limit was near, in their order.
        problem: why the facts cannot be read; empty if they can.
        use: what it used over all its time.
    """

    state: RunState
    limits: tuple[ev.LimitNear, ...] = ()
    problem: str = ""
    use: TotalUse = field(default_factory=TotalUse)


def read_record(run: Path) -> RunRecord:
    """The record of a run; if its folder cannot be read, with `problem`."""
    try:
        return RunRecord(read_state(run), tuple(_limits(run)), use=recorded_use(run)[0])
    except OSError as error:
        return RunRecord(
            RunState(id=run.name), problem=f"its facts cannot be read: {error.strerror or error}"
        )


def _limits(run: Path) -> Iterator[ev.LimitNear]:
    try:
        for line in LineTail(run / paths.EVENTS).poll():
            with contextlib.suppress(ValueError):
                if _NEAR in line and isinstance(fact := ev.decode(line), ev.LimitNear):
                    yield fact
    except files.NotPlain:  # `read_state` reports it
        return


class RunRecordPoller:
    """Publishes the record of the requested run, and again whenever it has grown."""

    def __init__(self, root: Path, publish: Callable[[RunRecord], None]) -> None:
        self._root = root
        self._requested = ""
        self._near: tuple[str, ...] = ()
        self._read: dict[str, tuple[int, RunRecord]] = {}
        self.poller = Poller(self.read, publish, LOOK_S, name="rankdeck-records")

    def ask(self, run: str, near: Sequence[str] = ()) -> RunRecord | None:
        """Request a run's record by id, an empty id for none; return the record if it was read before.

        The `near` runs, which may be requested next, are read ahead unless their records are long.
        """
        if run != self._requested:
            self._requested, self._near = run, tuple(near)
            self.poller.forget()
            self.poller.nudge()
        cached = self._read.get(run)
        return None if cached is None else cached[1]

    def read(self) -> Iterator[RunRecord]:
        """The requested record, unless another was requested meanwhile; read again only if it has grown."""
        run = self._requested
        if not run:
            return
        record = self._record(run)
        if run == self._requested:
            yield record
        for other in self._near:
            if run == self._requested and other not in self._read and 0 <= self._size(other) < _AHEAD_BYTES:
                self._record(other)

    def _record(self, run: str) -> RunRecord:
        size = self._size(run)
        cached = self._read.pop(run, None)
        if cached is None or cached[0] != size:
            cached = size, read_record(self._root / run)
        self._read[run] = cached  # the newest last: the first is removed
        if len(self._read) > _MAX_RECORDS:
            del self._read[next(iter(self._read))]
        return cached[1]

    def _size(self, run: str) -> int:
        try:
            return files.stat_file(self._root / run, self._root / run / paths.EVENTS).st_size
        except OSError:
            return -1
