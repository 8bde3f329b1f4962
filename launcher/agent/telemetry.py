"""Telemetry of one agent: its devices, its ranks' process trees and its host, once an interval, in a thread.

Best effort by design: a sensor that is missing, fails or hangs makes figures unknown, never zero, and
never affects the run. Nothing here starts, stops or signals a process.

psutil is an argument, because an executor may lack it. All ranks of an agent share one `Census`, so that
thousands of processes on a host are listed once a sample, and mostly from memory.
"""

from __future__ import annotations

import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from ..selectable_queue import SelectableQueue
from ..spec.places import Device
from ..state.events import DeviceSample, Event, HostSample, NoteMade, RankSample, Sampled, XidLogged
from . import nvml

if TYPE_CHECKING:
    from .boot import Boot
    from .xids import XidWatcher

_QUEUED = 16


class Sampling:
    """The agent's sampler, and its watcher for Xids; a slow sensor delays only samples."""

    def __init__(self, boot: Boot, devices: tuple[Device, ...], emit: Callable[[Event], None]) -> None:
        self._boot = boot
        self._devices = devices
        self._emit = emit
        self._queue: SelectableQueue[Event] = SelectableQueue(_QUEUED)
        self._sampler: Sampler | None = None
        self._xids: deque[XidLogged] = deque()
        self._watcher: XidWatcher | None = None

    def fileno(self) -> int:
        """The descriptor for a selector; readable while there is something to deliver."""
        return self._queue.fileno()

    def start(self, ranks: Callable[[], Processes]) -> None:
        """Start sampling; `ranks` returns the own processes of each rank."""
        self.stop()
        boot, devices = self._boot, self._devices
        self._sampler = Sampler(
            lambda: Probe(agent=boot.agent, host=boot.host, devices=devices),
            boot.sample_s,
            ranks,
            deliver=self._queue.put,
            note=lambda text: self._queue.put(NoteMade(time=time.time(), text=text)),
        )
        self._sampler.start()
        if devices:
            self._watch_xids()

    def _watch_xids(self) -> None:
        """Start to watch. An earlier thread that hangs keeps its own deque, which nobody reads any more."""
        from .xids import XidWatcher  # most hosts of a CPU cluster have none

        boot, self._xids = self._boot, deque()
        self._watcher = XidWatcher(
            self._devices,
            partial(self._put_xid, self._xids),
            head_start_s=min(boot.sample_s, HEAD_START_S),
            interval_s=min(boot.sample_s, XIDS_EVERY_S),
        )
        self._watcher.start()

    def _put_xid(self, xids: deque[XidLogged], device: Device, xid: int) -> None:
        """Queue an Xid, however many samples wait; called in the watcher's thread."""
        boot, now = self._boot, time.time()
        fact = XidLogged(
            time=now, agent=boot.agent, host=boot.host, uuid=device.uuid, index=device.index, xid=xid
        )
        xids.append(fact)
        self._queue.wake()

    def stop(self) -> None:
        """Ask the threads to end; they are daemons, so a hung driver does not keep the agent alive."""
        if self._sampler:
            self._sampler.stop()
            self._sampler = None
        if self._watcher:
            self._watcher.stop()
            self._watcher = None

    def on_ranks_ended(self) -> None:
        """Deliver what is there, and the last Xids: a GPU logs one at about the moment its rank fails."""
        if self._watcher:
            self._watcher.finish()
        self.deliver()

    def deliver(self) -> None:
        """Emit the threads' facts. Samples for a full queue are dropped: newer ones follow."""
        for fact in self._queue.take():
            self._emit(fact)
        while self._xids:
            self._emit(self._xids.popleft())


Processes = Mapping[int, tuple[int, ...]]
"""The pids of each rank's own processes: its main one, and a service's beside it."""
# Sampling waits for the launch: importing psutil takes as long as starting a few ranks.
HEAD_START_S = 0.2
XIDS_EVERY_S = 1.0


class Probe:
    """An agent's sensors. The constructor imports psutil, and pynvml if there are devices.

    `reason` is why there are no devices, for the note that only CPU figures are shown.
    `notes` are sentences for the user, to be shown once.
    """

    def __init__(
        self,
        *,
        agent: int,
        host: str,
        devices: tuple[Device, ...],
        reason: str = "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._agent, self._host, self._devices, self._clock = agent, host, devices, clock
        self.notes: tuple[str, ...] = (f"{reason}: showing CPU only",) if reason and not devices else ()
        self._psutil = find_psutil()
        self._errors = sensor_errors(self._psutil)
        if self._psutil is None:
            self.notes += ("psutil is not installed here: CPU and memory figures are unknown",)
        self._nvml = self._open_nvml() if devices else None
        self._meter = HostMeter(self._psutil)
        self._census = Census(self._psutil)
        self._trees: dict[int, Tree] = {}

    def sample(self, now: float, ranks: Processes) -> Sampled:
        """Read all figures; `ranks` has the pids of each rank's own processes."""
        trees = self._sample_ranks(ranks)
        memory = self._process_memory()
        return Sampled(
            time=now,
            agent=self._agent,
            host=self._host,
            system=self._meter.read(),
            devices=tuple(map(self._read_device, self._devices)),
            ranks=tuple(replace(s, device_memory=self._device_memory(s.rank, memory)) for s in trees),
        )

    def unknown(self, now: float, ranks: Processes) -> Sampled:
        """A sample without figures."""
        return Sampled(
            time=now,
            agent=self._agent,
            host=self._host,
            devices=tuple(DeviceSample(uuid=device.uuid, index=device.index) for device in self._devices),
            ranks=tuple(RankSample(rank=rank) for rank in ranks),
        )

    def close(self) -> None:
        """Close the session with the driver."""
        if self._nvml is not None:
            self._nvml.close()

    # --- ranks ---------------------------------------------------------------------------------------

    def _sample_ranks(self, ranks: Processes) -> list[RankSample]:
        before = {rank: self._trees.get(rank) for rank in ranks}
        self._trees = {
            rank: tree if tree is not None and tree.roots == ranks[rank] else Tree(ranks[rank])
            for rank, tree in before.items()
        }
        if self._psutil is None or not ranks:
            return [RankSample(rank=rank) for rank in ranks]
        try:
            self._census.look()
        except self._errors:
            return [RankSample(rank=rank) for rank in ranks]
        return [self._sample_rank(rank, tree) for rank, tree in self._trees.items()]

    def _sample_rank(self, rank: int, tree: Tree) -> RankSample:
        try:
            return tree.sample(rank, self._census, self._clock())
        except self._errors:
            return RankSample(rank=rank)

    def _device_memory(self, rank: int, memory: Mapping[int, int | None]) -> int | None:
        """Device memory of a rank; unknown in a container where the driver uses other pids."""
        return total(memory[pid] for pid in self._trees[rank].pids if pid in memory)

    # --- devices -------------------------------------------------------------------------------------

    def _open_nvml(self) -> nvml.NvmlSession | None:
        try:
            return nvml.open_session()
        except nvml.NoAnswer as error:
            self.notes += (f"{error}: GPU figures are unknown",)
            return None

    def _read_device(self, device: Device) -> DeviceSample:
        if self._nvml is None:
            return DeviceSample(uuid=device.uuid, index=device.index)
        return replace(self._nvml.read(device.uuid), index=device.index)

    def _process_memory(self) -> Mapping[int, int | None]:
        """Bytes by pid, summed over all devices."""
        memory: dict[int, int | None] = {}
        if self._nvml is None:
            return memory
        for by_pid in [self._nvml.process_memory(device.uuid) for device in self._devices]:
            memory |= {pid: total([memory.get(pid, 0), used]) for pid, used in by_pid.items()}
        return memory


def find_psutil() -> Any | None:
    """The module psutil, if it is installed and can be loaded."""
    try:
        import psutil
    except (ImportError, OSError):
        return None
    return psutil


def sensor_errors(psutil: Any | None) -> tuple[type[Exception], ...]:
    """The exceptions by which a sensor reports that it has no figures."""
    return (OSError, ValueError) if psutil is None else (OSError, ValueError, psutil.Error)


class Sampler(threading.Thread):
    """Delivers a sample each interval until it is stopped.

    It is a daemon thread, because a driver may never answer.
    `deliver` and `note` are called in this thread; a call that has begun may end after `stop`.
    """

    def __init__(
        self,
        probe_factory: Callable[[], Probe],
        interval_s: float,
        ranks: Callable[[], Processes],
        deliver: Callable[[Sampled], None],
        clock: Callable[[], float] = time.time,
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        super().__init__(name="sampler", daemon=True)
        self._probe_factory = probe_factory
        self._interval_s = interval_s
        self._ranks = ranks
        self._deliver = deliver
        self._clock = clock
        self._note = note
        self._stopping = threading.Event()
        self._failed = False

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stopping.set()

    def run(self) -> None:
        """Sample until stopped."""
        if self._stopping.wait(min(self._interval_s, HEAD_START_S)):
            return
        probe = self._probe_factory()
        for text in probe.notes:
            self._note(text)
        while not self._stopping.is_set():
            began = time.monotonic()
            sample = self._sample(probe)
            if not self._stopping.is_set():
                self._deliver(sample)
            self._stopping.wait(pause(self._interval_s, time.monotonic() - began))
        probe.close()

    def _sample(self, probe: Probe) -> Sampled:
        now, ranks = self._clock(), self._ranks()
        try:
            return probe.sample(now, ranks)
        except (OSError, ValueError, RuntimeError) as error:
            if not self._failed:
                self._note(f"a sensor failed ({error}): its figures are unknown")
            self._failed = True
            return probe.unknown(now, ranks)


def pause(interval_s: float, took_s: float) -> float:
    """Seconds to wait after a sample: at least a quarter of the interval, however slow the sensors are."""
    return max(interval_s - took_s, interval_s / 4)


_REVIEW_EVERY = 30
_CLOCK_SLACK_S = 2.0


@dataclass(frozen=True, slots=True)
class ProcessEntry:
    """A process in the census; `since` is the number of the look that first found it."""

    process: Any
    parent: int
    created: float
    since: int

    @property
    def key(self) -> tuple[int, float]:
        """Its identity, which a later process with the same pid does not share."""
        return self.process.pid, self.created


@dataclass(frozen=True, slots=True)
class ProcessReading:
    """One process at one moment. CPU in seconds; `reaped` is the CPU time of its waited-for children."""

    entry: ProcessEntry
    own: float
    reaped: float = 0.0
    alive: bool = True
    rss: int | None = None
    io: tuple[int, int] | None = None
    disk_wait: bool = False


class Census:
    """Every process of the host by pid.

    An entry is read again once in 30 looks, a few entries at a time: parents rarely change, and reading
    each process costs more than everything else in a sample.
    """

    def __init__(self, psutil: Any) -> None:
        self._psutil = psutil
        self._entries: dict[int, ProcessEntry] = {}
        self._children: Mapping[int, list[int]] = {}
        self._confirmed: set[int] = set()
        self.looks = 0

    def look(self) -> None:
        """List the processes that exist now."""
        self.looks += 1
        self._confirmed.clear()
        due = self.looks % _REVIEW_EVERY
        entries = {}
        for pid in self._psutil.pids():
            entry = self._entries.get(pid)
            if entry is None or pid % _REVIEW_EVERY == due:
                entry = self._look_up(pid, entry)
            if entry is not None:
                entries[pid] = entry
        self._entries = entries
        self._children = _by_parent(entries)

    def find(self, pid: int) -> ProcessEntry | None:
        """The process that has this pid now; None if there is none."""
        entry = self._entries.get(pid)
        if entry is None or entry.since == self.looks or pid in self._confirmed:
            return entry
        if not entry.process.is_running():
            entry = self._look_up(pid, None)
        if entry is None:
            del self._entries[pid]
            return None
        self._entries[pid] = entry
        self._confirmed.add(pid)
        return entry

    def children(self, parent: ProcessEntry) -> list[ProcessEntry]:
        """The children of a process. One older than its parent is an earlier process's child."""
        pid, oldest = parent.process.pid, parent.created - _CLOCK_SLACK_S
        children = map(self.find, self._children.get(pid, ()))
        return [child for child in children if child and child.parent == pid and child.created >= oldest]

    def read(self, entry: ProcessEntry) -> ProcessReading | None:
        """Read a process; None if it has ended meanwhile."""
        process = entry.process
        try:
            with process.oneshot():
                times = process.cpu_times()
                own, reaped = times.user + times.system, times.children_user + times.children_system
                status = process.status()
                if status == self._psutil.STATUS_ZOMBIE:
                    return ProcessReading(entry, own, reaped, alive=False, rss=0, io=(0, 0))
                rss, io = process.memory_info().rss, self._io(process)
                waits = status == self._psutil.STATUS_DISK_SLEEP
                return ProcessReading(entry, own, reaped, rss=rss, io=io, disk_wait=waits)
        except self._psutil.Error:
            return None

    def _io(self, process: Any) -> tuple[int, int] | None:
        """Bytes read from and written to storage; None where the system does not report them."""
        try:
            counters = process.io_counters()
        except (self._psutil.AccessDenied, AttributeError):
            return None
        return counters.read_bytes, counters.write_bytes

    def _look_up(self, pid: int, before: ProcessEntry | None) -> ProcessEntry | None:
        try:
            process = self._psutil.Process(pid)
            with process.oneshot():
                parent, created = process.ppid(), process.create_time()
        except self._psutil.Error:
            return None
        if before is not None and before.process == process:
            return replace(before, parent=parent)
        return ProcessEntry(process, parent, created, self.looks)


def _by_parent(entries: Mapping[int, ProcessEntry]) -> Mapping[int, list[int]]:
    children: dict[int, list[int]] = defaultdict(list)
    for pid, entry in entries.items():
        children[entry.parent].append(pid)
    return children


Readings = Mapping[tuple[int, float], ProcessReading]


class Tree:
    """A rank's own processes, one or a service's besides, and all their descendants.

    A member stays in the tree until it ends, even if its parent ends before it.
    """

    def __init__(self, roots: tuple[int, ...]) -> None:
        self.roots = roots
        self._readings: Readings = {}
        self._keys: dict[int, tuple[int, float]] = {}
        self._clock = 0.0
        self._io: tuple[int, int] | None = None

    @property
    def pids(self) -> tuple[int, ...]:
        """The processes that the last sample found."""
        return tuple(pid for pid, _ in self._readings)

    def sample(self, rank: int, census: Census, clock: float) -> RankSample:
        """The tree's figures now, and its CPU since the sample before."""
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
            disk_wait=any(reading.disk_wait for reading in readings),
        )

    def _read(self, census: Census) -> Readings:
        pending = self._members(census)
        readings: dict[tuple[int, float], ProcessReading] = {}
        while pending:
            entry = pending.pop()
            reading = None if entry.key in readings else census.read(entry)
            if reading is not None:
                readings[entry.key] = reading
                pending += census.children(entry)
        return readings

    def _members(self, census: Census) -> list[ProcessEntry]:
        """The rank's own processes and the members of the last sample that still live."""
        found = [entry for entry in map(census.find, self.roots) if entry]
        roots = [entry for entry in found if self._keys.setdefault(entry.process.pid, entry.key) == entry.key]
        members = (census.find(pid) for pid in self.pids)
        return roots + [entry for entry in members if entry and entry.key in self._readings]

    def _accumulate(self, readings: Iterable[ProcessReading]) -> tuple[int, int] | None:
        """I/O of the tree's whole life: a dead process's counters pass to the process that waited for it."""
        known = [reading.io for reading in readings if reading.io is not None]
        if any(reading.io is None for reading in readings):
            return None
        done, past = tuple(map(sum, zip(*known, strict=True))), self._io or (0, 0)
        self._io = max(done[0], past[0]), max(done[1], past[1])
        return self._io


def total(values: Iterable[int | None]) -> int | None:
    """The sum; None if a value is unknown, or if there are no values."""
    parts = list(values)
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


def cpu_seconds(before: Readings, after: Readings, look: int) -> float:
    """The CPU seconds that a tree used between two readings of it.

    The larger of two counts, since neither can exceed the truth. One adds the time of each living process,
    and misses those that died; the other adds what parents have collected from dead children, and misses
    children that nobody waited for. A process that existed before but joined the tree only now counts from
    now on.
    """
    new = [r for key, r in after.items() if key not in before and r.entry.since == look]
    staying = [(before[key], r) for key, r in after.items() if key in before]
    born = sum(reading.own + reading.reaped for reading in new)
    living = sum(now.own - then.own for then, now in staying)
    passed_on = sum(now.reaped - then.reaped for then, now in staying)
    lost = sum(reading.own + reading.reaped for key, reading in before.items() if key not in after)
    return max(living + born, living + born + passed_on - lost)


class HostMeter:
    """Measures the host. CPU is its use since the reading before, so the first reading has none.

    Without psutil only the load is known, and nothing if a sensor fails.
    """

    def __init__(self, psutil: Any | None) -> None:
        self._psutil = psutil
        self._times: tuple[float, float] | None = None
        self._stolen: tuple[float, float] | None = None

    def read(self) -> HostSample:
        """Measure the host now."""
        try:
            return self._measure()
        except sensor_errors(self._psutil):
            return HostSample()

    def _measure(self) -> HostSample:
        if self._psutil is None:
            return HostSample(load1=_load())
        memory, times = self._psutil.virtual_memory(), self._psutil.cpu_times()._asdict()
        return HostSample(
            cpu=self._cpu(times),
            steal=self._steal(times),
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            load1=_load(),
        )

    def _cpu(self, times: dict[str, float]) -> float | None:
        before, self._times = self._times, busy_and_all(times)
        return None if before is None else share(before, self._times)

    def _steal(self, times: dict[str, float]) -> float | None:
        if "steal" not in times:
            return None
        before, self._stolen = self._stolen, (times["steal"], busy_and_all(times)[1])
        return None if before is None else share(before, self._stolen)


def busy_and_all(times: dict[str, float]) -> tuple[float, float]:
    """Busy seconds of the CPUs, and all their seconds; guest time is part of user and nice."""
    everything = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
    return everything - times["idle"] - times.get("iowait", 0.0), everything


def share(before: tuple[float, float], after: tuple[float, float]) -> float | None:
    """The busy percentage of the time between two readings; None if no time has passed."""
    elapsed = after[1] - before[1]
    return min(100.0, max(0.0, 100 * (after[0] - before[0]) / elapsed)) if elapsed > 0 else None


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
