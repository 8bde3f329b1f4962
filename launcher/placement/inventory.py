"""What this machine has, and who uses it: CPUs, memory, and GPUs with the processes that hold them.

For looking only: nothing here decides where a rank may run. What cannot be known is None, never zero.
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

_COMMAND = 1000
_HEALTH_LOOKS = 10  # errors are rare, and old drivers take their time to count them


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a GPU: bytes of its memory, whose it is, and its parents, the nearest first.

    `command` is its command line, and `since` when it began, in seconds since the epoch.
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
    """A GPU or MIG instance at one moment; `error` is why it tells nothing.

    `whole` is the GPU that a MIG instance is a part of; `health` is that of the whole GPU.
    """

    device: Device
    sample: DeviceSample
    holders: tuple[Holder, ...] = ()
    error: str = ""
    whole: Device | None = None
    health: nvml.Health = field(default_factory=nvml.Health)


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine at one moment; `reason` is why there are no figures of GPUs, `driver` the one that tells."""

    host: str
    cores: int | None = None
    system: HostSample = field(default_factory=HostSample)
    gpus: tuple[GpuUse, ...] = ()
    reason: str = ""
    driver: str = ""


class Inspector:
    """Looks at this machine again and again. For one thread: a driver may take its time to answer.

    NVML is started at the first look. `open_nvml` gives a session with it, or raises `nvml.NoAnswer`.
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
        self._known: dict[int, tuple[Any, Holder]] = {}

    def look(self) -> Machine:
        """The machine now; its CPU's share is that since the look before."""
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
        """Let the driver go."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _find_gpus(self) -> tuple[_Part, ...]:
        try:
            self._session = self._open_nvml()
            found = self._session.gpus()
        except nvml.NoAnswer as error:
            self._reason = str(error)
            return ()
        self._driver = self._session.driver()
        self._reason = "" if found else "NVML lists no GPU"
        return tuple(part for gpu in found for part in _parts(gpu))

    def _read(self, part: _Part) -> GpuUse:
        device, whole, error = part
        if self._session is None or error:
            return GpuUse(device, DeviceSample(uuid=device.uuid, index=device.index), error=error)
        sample = replace(self._session.read(device.uuid), index=device.index)
        held = self._session.process_memory(device.uuid)
        holders = tuple(self._holder(pid, used) for pid, used in sorted(held.items()))
        return GpuUse(device, sample, holders, whole=whole, health=self._health_of((whole or device).uuid))

    def _health_of(self, uuid: str) -> nvml.Health:
        assert self._session is not None
        if uuid not in self._health:
            self._health[uuid] = self._session.health(uuid)
        return self._health[uuid]

    def _holder(self, pid: int, memory: int | None) -> Holder:
        """Who holds it. In a container the driver may name processes by pids that mean nothing here."""
        if self._psutil is None:
            return Holder(pid, memory)
        try:
            process, holder = self._known.get(pid) or (None, None)
            if holder is None or process is None or not process.is_running():
                process, holder = self._meet(pid)
                self._known[pid] = process, holder
        except self._errors:
            self._known.pop(pid, None)
            return Holder(pid, memory)
        return replace(holder, memory=memory)

    def _meet(self, pid: int) -> tuple[Any, Holder]:
        assert self._psutil is not None
        process = self._psutil.Process(pid)
        parents = tuple(parent.pid for parent in process.parents())
        name, since = process.name(), process.create_time()
        return process, Holder(
            pid, None, process.username(), name, parents, self._command(process), round(since)
        )

    def _command(self, process: Any) -> str:
        """The command line, where others' may be read."""
        try:
            return " ".join(process.cmdline())[:_COMMAND]
        except self._errors:
            return ""


_Part = tuple[Device, Device | None, str]  # what can be held, the GPU that it is a part of, why it is mute


def _parts(gpu: nvml.Gpu) -> list[_Part]:
    """What of a GPU can be held: its instances where it has any."""
    if gpu.device is None:
        return [(Device(index=gpu.index, uuid="", name="", memory=None), None, gpu.error)]
    return [(part, gpu.device, "") for part in gpu.instances or ()] or [(gpu.device, None, "")]
