"""The list of runs and the record of the chosen one, kept up to date in threads.

A run that has ended changes no more, so a look costs a listing of names and the status of the live ones.
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
from .query import all_runs, arranged, current

LOOK_S = 2.0


@dataclass(frozen=True, slots=True)
class Listing:
    """The runs that are asked for, in order; of how many; and why they cannot be read, if so."""

    runs: tuple[Status, ...] = ()
    total: int = 0
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """Which runs, and in which order."""

    wanted: Filter[Status] = field(default_factory=Filter)
    order: str = "started"
    reverse: bool = False


class RunListPoller:
    """Publishes a `Listing` whenever it differs."""

    def __init__(self, root: Path, publish: Callable[[Listing], None]) -> None:
        self._ledger = RunCache(root)
        self._anew = threading.Event()
        self._question = self._answered = Question()
        self._runs: tuple[Status, ...] | None = None
        self.poller = Poller(self.read, publish, LOOK_S, name="rankdeck-history")

    def ask(self, question: Question) -> None:
        """Ask for other runs, or another order."""
        self._question = question
        self.poller.nudge()

    def reread(self) -> None:
        """Forget what is known: folders were changed."""
        self._anew.set()
        self.poller.nudge()

    def read(self) -> Iterator[Listing]:
        """What is seen now of the runs; nothing where neither they nor the question have changed."""
        if self._anew.is_set():
            self._anew.clear()
            self._ledger.forget()
        try:
            for runs in self._ledger.look():
                question = self._question
                if runs != self._runs or question != self._answered:
                    self._runs, self._answered = runs, question
                    yield _answer(runs, question)
        except (OSError, ValueError, LauncherError) as error:
            self._runs = None
            yield Listing(problem=str(error))


def _answer(runs: tuple[Status, ...], question: Question) -> Listing:
    shown = arranged(runs, question.wanted, question.order, reverse=question.reverse)
    return Listing(shown, len(runs))


_SCREENFUL = 128


class RunCache:
    """The runs, newest first. For one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, Status] | None = None

    def forget(self) -> None:
        """Read everything anew at the next look."""
        self._runs = None

    def look(self) -> Iterator[tuple[Status, ...]]:
        """The runs as they are now; the first time, those of a first screen come before all of them.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        if self._runs is None:
            yield from self._read_all()
        else:
            self._runs = self._renewed(self._runs)
            yield tuple(self._runs.values())

    def live(self) -> tuple[Status, ...]:
        """The runs that go on, as they are now.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        for runs in self.look():
            found = tuple(run for run in runs if not run.state.final)
        return found

    def _read_all(self) -> Iterator[tuple[Status, ...]]:
        found: list[Status] = []
        for run in all_runs(self._root):
            found.append(current(run, self._root))
            if len(found) == _SCREENFUL:
                yield tuple(found)
        self._runs = {run.id: run for run in found}
        yield tuple(found)

    def _renewed(self, known: dict[str, Status]) -> dict[str, Status]:
        renewed = {}
        for run in run_ids(self._root):
            status = known.get(run)
            renewed[run] = status if status is not None and status.state.final else self._read(run)
        return renewed

    def _read(self, run: str) -> Status:
        status = read_status(self._root / run) or known_status(self._root / run)
        return current(replace(status, id=run), self._root)


_KEPT = 64
_AHEAD_BYTES = 1 << 20
_NEAR = ev.LimitNear.tag.encode()


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One run, folded from all its facts.

    Attributes:
        state: what it is now, or was at its end.
        limits: the limits that were near, in the order in which they were warned of.
        problem: why the facts cannot be read, if so.
    """

    state: RunState
    limits: tuple[ev.LimitNear, ...] = ()
    problem: str = ""


def read_record(run: Path) -> RunRecord:
    """The record of a run; of a folder that cannot be read, why not."""
    try:
        return RunRecord(read_state(run), tuple(_limits(run)))
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
    except files.NotPlain:  # the state says so
        return


class RunRecordPoller:
    """Reads the record of the run that was asked for last, again whenever it has grown."""

    def __init__(self, root: Path, publish: Callable[[RunRecord], None]) -> None:
        self._root = root
        self._wanted = ""
        self._near: tuple[str, ...] = ()
        self._read: dict[str, tuple[int, RunRecord]] = {}
        self.poller = Poller(self.read, publish, LOOK_S, name="rankdeck-records")

    def ask(self, run: str, near: Sequence[str] = ()) -> RunRecord | None:
        """Ask for a run by its id, with an empty one for none; its record, if it was read before.

        Those that are `near`, which may be asked for next, are read ahead unless their records are long.
        """
        if run != self._wanted:
            self._wanted, self._near = run, tuple(near)
            self.poller.forget()
            self.poller.nudge()
        known = self._read.get(run)
        return None if known is None else known[1]

    def read(self) -> Iterator[RunRecord]:
        """The record that is wanted, unless another is wanted meanwhile; it is read only if it has grown."""
        run = self._wanted
        if not run:
            return
        record = self._record(run)
        if run == self._wanted:
            yield record
        for other in self._near:
            if run == self._wanted and other not in self._read and 0 <= self._size(other) < _AHEAD_BYTES:
                self._record(other)

    def _record(self, run: str) -> RunRecord:
        size = self._size(run)
        known = self._read.pop(run, None)
        if known is None or known[0] != size:
            known = size, read_record(self._root / run)
        self._read[run] = known  # the newest last, so that the first is the one to be forgotten
        if len(self._read) > _KEPT:
            del self._read[next(iter(self._read))]
        return known[1]

    def _size(self, run: str) -> int:
        try:
            return files.stat_file(self._root / run, self._root / run / paths.EVENTS).st_size
        except OSError:
            return -1
