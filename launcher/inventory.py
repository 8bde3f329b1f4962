"""What this machine has, and who uses it: CPUs, memory, and GPUs with the processes that hold them.

For looking only: nothing here decides where a rank may run. What cannot be known is None, never zero.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.spec import Device
from launcher.telemetry import DeviceSample, HostSample
from launcher.worker import nvml
from launcher.worker.probe_host import HostMeter


@dataclass(frozen=True, slots=True)
class Holder:
    """A process that holds a GPU: bytes of its memory, whose it is, and its parents, the nearest first."""

    pid: int
    memory: int | None = None
    user: str = ""
    name: str = ""
    ancestors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GpuUse:
    """A GPU or MIG instance at one moment; `error` is why it tells nothing."""

    device: Device
    sample: DeviceSample
    holders: tuple[Holder, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine at one moment; `reason` is why there are no figures of GPUs."""

    host: str
    cores: int | None = None
    system: HostSample = field(default_factory=HostSample)
    gpus: tuple[GpuUse, ...] = ()
    reason: str = ""


class Inspector:
    """Looks at this machine again and again. For one thread: a driver may take its time to answer.

    NVML is started at the first look. `open_nvml` gives a session with it, or raises `nvml.NoAnswer`.
    """

    def __init__(self, open_nvml: Callable[[], nvml.Session] = nvml.open_session) -> None:
        self._psutil = _find_psutil()
        self._errors: tuple[type[Exception], ...] = (OSError, ValueError)
        if self._psutil is not None:
            self._errors += (self._psutil.Error,)
        self._meter = HostMeter(self._psutil)
        self._open_nvml = open_nvml
        self._session: nvml.Session | None = None
        self._gpus: tuple[tuple[Device, str], ...] | None = None
        self._reason = ""
        self._known: dict[int, tuple[Any, Holder]] = {}

    def look(self) -> Machine:
        """The machine now; its CPU's share is that since the look before."""
        if self._gpus is None:
            self._gpus = self._find_gpus()
        return Machine(
            host=socket.gethostname(),
            cores=os.cpu_count(),
            system=self._system(),
            gpus=tuple(self._read(device, error) for device, error in self._gpus),
            reason=self._reason,
        )

    def close(self) -> None:
        """Let the driver go."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _system(self) -> HostSample:
        try:
            return self._meter.read()
        except self._errors:
            return HostSample()

    def _find_gpus(self) -> tuple[tuple[Device, str], ...]:
        try:
            self._session = self._open_nvml()
            found = self._session.gpus()
        except nvml.NoAnswer as error:
            self._reason = str(error)
            return ()
        self._reason = "" if found else "NVML lists no GPU"
        return tuple(pair for gpu in found for pair in _devices(gpu))

    def _read(self, device: Device, error: str) -> GpuUse:
        if self._session is None or error:
            return GpuUse(device, DeviceSample(uuid=device.uuid, index=device.index), error=error)
        sample = replace(self._session.read(device.uuid), index=device.index)
        held = self._session.process_memory(device.uuid)
        return GpuUse(device, sample, tuple(self._holder(pid, used) for pid, used in sorted(held.items())))

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
        return process, Holder(pid, None, process.username(), process.name(), parents)


def _devices(gpu: nvml.Gpu) -> list[tuple[Device, str]]:
    """What of a GPU can be held: its instances where it has any."""
    if gpu.device is None:
        return [(Device(index=gpu.index, uuid="", name="", memory=None), gpu.error)]
    return [(device, "") for device in gpu.instances or (gpu.device,)]


def _find_psutil() -> Any | None:
    try:
        import psutil
    except (ImportError, OSError):
        return None
    return psutil
