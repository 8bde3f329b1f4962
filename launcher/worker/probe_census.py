"""The processes of a host: who is there, whose child each is, and what one of them uses.

psutil comes in as an argument, because an executor may lack it. One census serves all ranks of an agent,
so that a host with thousands of processes is looked through once a sample, and mostly from memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

_REVIEW_EVERY = 30
_CLOCK_SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class Entry:
    """A process as the census knows it; `since` is the look at which it was first seen."""

    process: Any
    parent: int
    created: float
    since: int

    @property
    def key(self) -> tuple[int, float]:
        """What tells it from a later process with the same pid."""
        return self.process.pid, self.created


@dataclass(frozen=True, slots=True)
class Reading:
    """One process at one moment. CPU in seconds; `reaped` is what its dead children had used."""

    entry: Entry
    own: float
    reaped: float = 0.0
    alive: bool = True
    rss: int | None = None
    io: tuple[int, int] | None = None


class Census:
    """Every process of the host by pid.

    What is known of a pid is looked at again once in 30 looks, a few at a time: parents rarely change,
    and asking each process costs more than everything else in a sample.
    """

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._entries: dict[int, Entry] = {}
        self._children: Mapping[int, list[int]] = {}
        self._confirmed: set[int] = set()
        self.looks = 0

    def look(self) -> None:
        """Learn who is there now."""
        self.looks += 1
        self._confirmed.clear()
        due = self.looks % _REVIEW_EVERY
        entries = {}
        for pid in self._psutil.pids():
            entry = self._entries.get(pid)
            if entry is None or pid % _REVIEW_EVERY == due:
                entry = self._meet(pid, entry)
            if entry is not None:
                entries[pid] = entry
        self._entries = entries
        self._children = _by_parent(entries)

    def find(self, pid: int) -> Entry | None:
        """The process that has this pid now."""
        entry = self._entries.get(pid)
        if entry is None or entry.since == self.looks or pid in self._confirmed:
            return entry
        if not entry.process.is_running():
            entry = self._meet(pid, None)
        if entry is None:
            del self._entries[pid]
            return None
        self._entries[pid] = entry
        self._confirmed.add(pid)
        return entry

    def children(self, parent: Entry) -> list[Entry]:
        """The children of a process. One that is older than its parent is the child of another one."""
        pid, oldest = parent.process.pid, parent.created - _CLOCK_SLACK_S
        found = map(self.find, self._children.get(pid, ()))
        return [child for child in found if child and child.parent == pid and child.created >= oldest]

    def read(self, entry: Entry) -> Reading | None:
        """What a process uses; None if it has vanished, which is nothing unusual."""
        process = entry.process
        try:
            with process.oneshot():
                times = process.cpu_times()
                reading = Reading(
                    entry, times.user + times.system, times.children_user + times.children_system
                )
                if process.status() == self._psutil.STATUS_ZOMBIE:
                    return replace(reading, alive=False, rss=0, io=(0, 0))
                return replace(reading, rss=process.memory_info().rss, io=self._io(process))
        except self._psutil.Error:
            return None

    def _io(self, process: Any) -> tuple[int, int] | None:
        """Bytes read from and written to storage; None where the system keeps that to itself."""
        try:
            counters = process.io_counters()
        except (self._psutil.AccessDenied, AttributeError):
            return None
        return counters.read_bytes, counters.write_bytes

    def _meet(self, pid: int, before: Entry | None) -> Entry | None:
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                parent, created = process.ppid(), process.create_time()
        except self._psutil.Error:
            return None
        if before is not None and before.process == process:
            return replace(before, parent=parent)
        return Entry(process, parent, created, self.looks)


def _by_parent(entries: Mapping[int, Entry]) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, entry in entries.items():
        children[entry.parent].append(pid)
    return children
