"""What a run's folder tells beyond its summary, read in a thread: of the run that was asked for last."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.sources.watch import Watch
from launcher import events as ev
from launcher.runs import opening, paths
from launcher.runs.reader import LineTail, read_state
from launcher.state import RunState

LOOK_S = 2.0
_KEPT = 64
_AHEAD_BYTES = 1 << 20
_NEAR = ev.LimitNear.tag.encode()


@dataclass(frozen=True, slots=True)
class Record:
    """One run, folded from all its facts.

    Attributes:
        state: what it is now, or was at its end.
        limits: the limits that were near, in the order in which they were warned of.
        problem: why the facts cannot be read, if so.
    """

    state: RunState
    limits: tuple[ev.LimitNear, ...] = ()
    problem: str = ""


def read_record(run: Path) -> Record:
    """The record of a run; of a folder that cannot be read, why not."""
    try:
        return Record(read_state(run), tuple(_limits(run)))
    except OSError as error:
        return Record(RunState(id=run.name), problem=f"its facts cannot be read: {error.strerror or error}")


def _limits(run: Path) -> Iterator[ev.LimitNear]:
    try:
        for line in LineTail(run / paths.EVENTS).poll():
            with contextlib.suppress(ValueError):
                if _NEAR in line and isinstance(fact := ev.decode(line), ev.LimitNear):
                    yield fact
    except opening.NotPlain:  # the state says so
        return


class Records:
    """Reads the record of the run that was asked for last, again whenever it has grown, until closed."""

    def __init__(self, root: Path, publish: Callable[[Record], None]) -> None:
        self._root, self._publish = root, publish
        self._wanted = ""
        self._near: tuple[str, ...] = ()
        self._read: dict[str, tuple[int, Record]] = {}
        self._told: Record | None = None
        self.watch = Watch(self.look, LOOK_S, name="rankdeck-records")

    def ask(self, run: str, near: Sequence[str] = ()) -> Record | None:
        """Ask for a run by its id, with an empty one for none; its record, if it was read before.

        Those that are `near`, which may be asked for next, are read ahead unless their records are long.
        """
        if run != self._wanted:
            self._told = None
            self._wanted, self._near = run, tuple(near)
            self.watch.nudge()
        known = self._read.get(run)
        return None if known is None else known[1]

    def look(self) -> None:
        """Read what is wanted, unless it was read and has not grown, and publish it if it is news."""
        run = self._wanted
        if not run:
            return
        record = self._record(run)
        if record is not self._told and run == self._wanted and not self.watch.closed:
            self._told = record
            self._publish(record)
        for other in self._near:
            if run == self._wanted and other not in self._read and 0 <= self._size(other) < _AHEAD_BYTES:
                self._record(other)

    def _record(self, run: str) -> Record:
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
            return opening.stat_file(self._root / run, self._root / run / paths.EVENTS).st_size
        except OSError:
            return -1
