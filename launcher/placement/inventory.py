"""This machine's CPUs, memory and GPUs, with the processes that hold GPU memory.

For display only: nothing here decides where a rank may run. An unknown figure is None, never zero.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from ..agent import nvml
from ..agent.telemetry import HostMeter, find_psutil, sensor_errors
from ..spec.places import Device
from ..state.events import DeviceSample, HostSample

_COMMAND_CHARACTERS = 1000
_HEALTH_LOOKS = 10  # errors are rare, and old drivers are slow to count them


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a GPU: bytes of the GPU's memory, its user, and its ancestors, the nearest first.

    `command` is its command line, and `since` its start in seconds since the epoch.
    """

    pid: int
    memory: int | None = None
    user: str = ""
    name: str = ""
    ancestors: tuple[int, ...] = ()
    command: str = ""
    since: float | None = None


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A GPU or MIG instance at one moment; `error` is why it has no figures.

    `whole` is the GPU of a MIG instance; `health` is that of the whole GPU.
    """

    device: Device
    sample: DeviceSample
    holders: tuple[Holder, ...] = ()
    error: str = ""
    whole: Device | None = None
    health: nvml.Health = field(default_factory=nvml.Health)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine at one moment; `reason` is why there are no GPU figures, `driver` the driver's version."""

    host: str
    cores: int | None = None
    system: HostSample = field(default_factory=HostSample)
    gpus: tuple[GpuUse, ...] = ()
    reason: str = ""
    driver: str = ""


class Inspector:
    """Reads this machine repeatedly, on a thread of its own, because a driver may be slow.

    NVML is started at the first look. `open_nvml` returns a session with it, or raises `nvml.NoAnswer`.
    """

    def __init__(self, open_nvml: Callable[[], nvml.NvmlSession] = nvml.open_session) -> None:
        self._psutil = find_psutil()
        self._errors = sensor_errors(self._psutil)
        self._meter = HostMeter(self._psutil)
        self._open_nvml = open_nvml
        self._session: nvml.NvmlSession | None = None
        self._gpus: tuple[_Part, ...] | None = None
        self._reason = self._driver = ""
        self._looks = 0
        self._health: dict[str, nvml.Health] = {}
        self._holders: dict[int, tuple[Any, Holder]] = {}

    def look(self) -> Machine:
        """Read the machine; its CPU use is that since the look before."""
        if self._gpus is None:
            self._gpus = self._find_gpus()
        if self._looks % _HEALTH_LOOKS == 0:
            self._health.clear()
        self._looks += 1
        return Machine(
            host=socket.gethostname(),
            cores=os.cpu_count(),
            system=self._meter.read(),
            gpus=tuple(map(self._read, self._gpus)),
            reason=self._reason,
            driver=self._driver,
        )

    def close(self) -> None:
        """Close the session with the driver."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _find_gpus(self) -> tuple[_Part, ...]:
        try:
            self._session = self._open_nvml()
            gpus = self._session.gpus()
        except nvml.NoAnswer as error:
            self._reason = str(error)
            return ()
        self._driver = self._session.driver()
        self._reason = "" if gpus else "NVML lists no GPU"
        return tuple(part for gpu in gpus for part in _parts(gpu))

    def _read(self, part: _Part) -> GpuUse:
        device, whole, error = part
        if self._session is None or error:
            return GpuUse(device, DeviceSample(uuid=device.uuid, index=device.index), error=error)
        sample = replace(self._session.read(device.uuid), index=device.index)
        memory = self._session.process_memory(device.uuid)
        holders = tuple(self._holder(pid, used) for pid, used in sorted(memory.items()))
        return GpuUse(device, sample, holders, whole=whole, health=self._health_of((whole or device).uuid))

    def _health_of(self, uuid: str) -> nvml.Health:
        assert self._session is not None
        if uuid not in self._health:
            self._health[uuid] = self._session.health(uuid)
        return self._health[uuid]

    def _holder(self, pid: int, memory: int | None) -> Holder:
        """A process that holds a GPU; only its pid in a container where the driver uses other pids."""
        if self._psutil is None:
            return Holder(pid, memory)
        try:
            process, holder = self._holders.get(pid) or (None, None)
            if holder is None or process is None or not process.is_running():
                process, holder = self._look_up(pid)
                self._holders[pid] = process, holder
        except self._errors:
            self._holders.pop(pid, None)
            return Holder(pid, memory)
        return replace(holder, memory=memory)

    def _look_up(self, pid: int) -> tuple[Any, Holder]:
        assert self._psutil is not None
        process = self._psutil.Process(pid)
        parents = tuple(parent.pid for parent in process.parents())
        name, since = process.name(), process.create_time()
        return process, Holder(
            pid, None, process.username(), name, parents, self._command_line(process), round(since)
        )

    def _command_line(self, process: Any) -> str:
        """The command line; empty if it may not be read."""
        try:
            return " ".join(process.cmdline())[:_COMMAND_CHARACTERS]
        except self._errors:
            return ""


_Part = tuple[
    Device, Device | None, str
]  # what a process can hold, the GPU of a MIG instance, why it has no figures


def _parts(gpu: nvml.Gpu) -> list[_Part]:
    """The parts of a GPU that processes can hold: its instances if it has any, else the GPU."""
    if gpu.device is None:
        return [(Device(index=gpu.index, uuid="", name="", memory=None), None, gpu.error)]
    return [(part, gpu.device, "") for part in gpu.instances or ()] or [(gpu.device, None, "")]
