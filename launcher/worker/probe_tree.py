"""A rank's process tree: who belongs to it, and what its processes use together.

It reads processes only through a `Census`, and knows nothing of devices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from launcher.events import RankSample
from launcher.worker.probe_census import Census, Entry, Reading

Readings = Mapping[tuple[int, float], Reading]


class Tree:
    """One rank's main process and all that descends from it.

    Who once belonged stays a member until it is gone, also when its parent dies before it.
    """

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._readings: Readings = {}
        self._main: tuple[int, float] | None = None
        self._clock = 0.0
        self._io: tuple[int, int] | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that the last sample found."""
        return tuple(pid for pid, _ in self._readings)

    def sample(self, rank: int, census: Census, clock: float) -> RankSample:
        """What the tree uses now, and its CPU since the sample before."""
        before, elapsed = self._readings, clock - self._clock
        self._readings, self._clock = self._read(census), clock
        readings = self._readings.values()
        if not any(reading.alive for reading in readings):  # a zombie's memory is not 0 bytes: it has none
            return RankSample(rank=rank)
        io = self._accumulate(readings)
        spent = cpu_seconds(before, self._readings, census.looks) if before and elapsed > 0 else None
        return RankSample(
            rank=rank,
            cpu=None if spent is None else 100 * spent / elapsed,
            rss=total(reading.rss for reading in readings),
            processes=sum(reading.alive for reading in readings),
            read_bytes=io[0] if io else None,
            write_bytes=io[1] if io else None,
        )

    def _read(self, census: Census) -> Readings:
        pending = self._members(census)
        readings: dict[tuple[int, float], Reading] = {}
        while pending:
            entry = pending.pop()
            reading = None if entry.key in readings else census.read(entry)
            if reading is not None:
                readings[entry.key] = reading
                pending += census.children(entry)
        return readings

    def _members(self, census: Census) -> list[Entry]:
        """The main process and those that were there before, as far as they live."""
        main = census.find(self.pid)
        if main is not None and self._main is None:
            self._main = main.key
        found = [main, *(census.find(pid) for pid in self.pids)]
        return [
            entry for entry in found if entry and (entry.key == self._main or entry.key in self._readings)
        ]

    def _accumulate(self, readings: Iterable[Reading]) -> tuple[int, int] | None:
        """I/O of the tree's whole life: what a dead process had done passes to whoever waited for it."""
        known = [reading.io for reading in readings if reading.io is not None]
        if any(reading.io is None for reading in readings):
            return None
        done, past = tuple(map(sum, zip(*known, strict=True))), self._io or (0, 0)
        self._io = max(done[0], past[0]), max(done[1], past[1])
        return self._io


def total(values: Iterable[int | None]) -> int | None:
    """The sum; unknown if a part of it is, or if there is nothing to add."""
    parts = list(values)
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def cpu_seconds(before: Readings, after: Readings, look: int) -> float:
    """The CPU time that a tree used between two readings of it.

    Two counts, neither of which can exceed the truth. One adds what each living process has used, and
    misses those that died; the other adds what parents have collected from dead children, and misses
    children that nobody waited for. The larger is the better. A process that existed before but belongs
    to the tree only now counts from now on.
    """
    new = [r for key, r in after.items() if key not in before and r.entry.since == look]
    kept = [(before[key], r) for key, r in after.items() if key in before]
    born = sum(reading.own + reading.reaped for reading in new)
    living = sum(now.own - then.own for then, now in kept)
    passed_on = sum(now.reaped - then.reaped for then, now in kept)
    lost = sum(reading.own + reading.reaped for key, reading in before.items() if key not in after)
    return max(living + born, living + born + passed_on - lost)
