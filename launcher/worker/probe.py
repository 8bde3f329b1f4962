"""Telemetry of one agent: its devices, its ranks' process trees and its host, once an interval.

Best effort by design: a sensor that is missing, fails or hangs makes figures unknown, never zero, and
never touches the run. Nothing here starts, stops or signals a process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from launcher.events import DeviceSample, HostSample, RankSample, Sampled
from launcher.spec import Device
from launcher.worker import nvml
from launcher.worker.probe_census import Census
from launcher.worker.probe_host import HostMeter
from launcher.worker.probe_tree import Tree, total

# The launch comes first: importing psutil takes as long as starting a few ranks.
HEAD_START_S = 0.2


class Probe:
    """An agent's sensors. Making one imports psutil, and pynvml if there are devices.

    `reason` is why there are no devices, for the note that the ranks are seen by their CPU only.
    `notes` are the sentences that a person should read once.
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
        self._psutil = _find_psutil()
        self._errors: tuple[type[Exception], ...] = (OSError, ValueError)
        if self._psutil is None:
            self.notes += ("psutil is not installed here: CPU and memory figures are unknown",)
        else:
            self._errors += (self._psutil.Error,)
        self._nvml = self._open_nvml() if devices else None
        self._meter = HostMeter(self._psutil)
        self._census = Census(self._psutil)
        self._trees: dict[int, Tree] = {}

    def sample(self, now: float, ranks: Mapping[int, int]) -> Sampled:
        """All figures at this moment; `ranks` says which process is each rank's main one."""
        trees = self._read_trees(ranks)
        memory = self._process_memory()
        return replace(
            self.unknown(now, ranks),
            system=self._read_host(),
            devices=tuple(map(self._read_device, self._devices)),
            ranks=tuple(replace(s, device_memory=self._held(s.rank, memory)) for s in trees),
        )

    def unknown(self, now: float, ranks: Mapping[int, int]) -> Sampled:
        """The sample of which nothing is known but whose it is."""
        return Sampled(
            time=now,
            agent=self._agent,
            host=self._host,
            devices=tuple(DeviceSample(uuid=device.uuid, index=device.index) for device in self._devices),
            ranks=tuple(RankSample(rank=rank) for rank in ranks),
        )

    def close(self) -> None:
        """Let the driver go."""
        if self._nvml is not None:
            self._nvml.close()

    # --- ranks ---------------------------------------------------------------------------------------

    def _read_trees(self, ranks: Mapping[int, int]) -> list[RankSample]:
        kept = {rank: self._trees.get(rank) for rank in ranks}
        self._trees = {
            rank: tree if tree is not None and tree.pid == ranks[rank] else Tree(ranks[rank])
            for rank, tree in kept.items()
        }
        if self._psutil is None or not ranks:
            return [RankSample(rank=rank) for rank in ranks]
        try:
            self._census.look()
        except self._errors:
            return [RankSample(rank=rank) for rank in ranks]
        return [self._read_tree(rank, tree) for rank, tree in self._trees.items()]

    def _read_tree(self, rank: int, tree: Tree) -> RankSample:
        try:
            return tree.sample(rank, self._census, self._clock())
        except self._errors:
            return RankSample(rank=rank)

    def _held(self, rank: int, memory: Mapping[int, int | None]) -> int | None:
        """Device memory of a rank. In a container the driver may name processes by other pids."""
        return total(memory[pid] for pid in self._trees[rank].pids if pid in memory)

    # --- devices -------------------------------------------------------------------------------------

    def _open_nvml(self) -> nvml.Session | None:
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
        """Bytes by pid, on all devices together."""
        memory: dict[int, int | None] = {}
        if self._nvml is None:
            return memory
        for held in [self._nvml.process_memory(device.uuid) for device in self._devices]:
            memory |= {pid: total([memory.get(pid, 0), used]) for pid, used in held.items()}
        return memory

    # --- the host ------------------------------------------------------------------------------------

    def _read_host(self) -> HostSample:
        try:
            return self._meter.read()
        except self._errors:
            return HostSample()


def _find_psutil() -> Any | None:
    try:
        import psutil
    except (ImportError, OSError):
        return None
    return psutil


class Sampler(threading.Thread):
    """Takes a sample each interval and hands it on, until it is stopped.

    A daemon, because a driver may never answer: what then waits is a thread that nobody waits for.
    `deliver` and `note` are called in this thread; a call that has begun may end after `stop`.
    """

    def __init__(
        self,
        probe_factory: Callable[[], Probe],
        interval_s: float,
        ranks: Callable[[], Mapping[int, int]],
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
        self._ending = threading.Event()
        self._failed = False

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._ending.set()

    def run(self) -> None:
        """Sample until stopped."""
        if self._ending.wait(min(self._interval_s, HEAD_START_S)):
            return
        probe = self._probe_factory()
        for text in probe.notes:
            self._note(text)
        while not self._ending.is_set():
            began = time.monotonic()
            sample = self._take(probe)
            if not self._ending.is_set():
                self._deliver(sample)
            self._ending.wait(pause(self._interval_s, time.monotonic() - began))
        probe.close()

    def _take(self, probe: Probe) -> Sampled:
        now, ranks = self._clock(), self._ranks()
        try:
            return probe.sample(now, ranks)
        except (OSError, ValueError, RuntimeError) as error:
            if not self._failed:
                self._note(f"a sensor failed ({error}): its figures are unknown")
            self._failed = True
            return probe.unknown(now, ranks)


def pause(interval_s: float, took_s: float) -> float:
    """How long to rest after a sample: a quarter of the interval at least, however slow the sensors."""
    return max(interval_s - took_s, interval_s / 4)
