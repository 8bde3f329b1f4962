"""Xids: the errors of GPUs that NVIDIA's driver logs, as events of NVML, watched for in a thread.

Best effort, as telemetry is: where events are not supported, nothing is watched.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from ..spec.places import Device
from . import nvml

XID_EVENT = 8
MOST = 32
AT_ONCE = 64
LAST_LOOK_S = 0.2
ANY_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Source:
    """A device of the run, and which events are its own.

    Attributes:
        device: the GPU or MIG instance.
        gpu: the UUID of the whole GPU, of which NVML reports events.
        instance: the GPU instance that the device is; None if it is the whole GPU.
    """

    device: Device
    gpu: str
    instance: int | None = None

    def has(self, gpu: str, instance: int) -> bool:
        """Whether an event is about this device. Some of a GPU with instances are about none of them."""
        return gpu == self.gpu and (self.instance is None or instance in (self.instance, ANY_INSTANCE))


class XidSession(nvml.NvmlSession):
    """A session of NVML that sees the Xids of some devices from now on.

    NVML counts its sessions, so that no other thread's end takes this one away.
    """

    def __init__(self, library: Any, devices: tuple[Device, ...]) -> None:
        super().__init__(library)
        self._set = self._ask("nvmlEventSetCreate")
        self._gpus: dict[str, Any] = {}
        watched = map(self._watch, devices) if self._set is not None else ()
        self._sources = tuple(source for source in watched if source)
        # an older pynvml has only the first version; a newer one calls the second by either name
        self._wait = "nvmlEventSetWait" + ("_v2" if hasattr(library, "nvmlEventSetWait_v2") else "")

    @property
    def sees_any(self) -> bool:
        """Whether there is a device whose Xids come here."""
        return bool(self._sources)

    def close(self) -> None:
        """End the session and its event set."""
        if self._set is not None:
            self._ask("nvmlEventSetFree", self._set)
        super().close()

    def look(self) -> Iterator[tuple[Device, int]]:
        """The Xids since the last look, without waiting for one; of a flood, the rest comes next time."""
        for _ in range(AT_ONCE):
            event = self._ask(self._wait, self._set, 0)
            if event is None:
                return
            gpu = self._gpu_of(event.device)
            yield from (
                (source.device, int(event.eventData))
                for source in self._sources
                if source.has(gpu, getattr(event, "gpuInstanceId", ANY_INSTANCE))  # an older pynvml has none
            )

    def _watch(self, device: Device) -> Source | None:
        """Ask for the events of a device's GPU; None if it has none for us."""
        try:
            handle = gpu = self._call("nvmlDeviceGetHandleByUUID", device.uuid.encode())
            instance = None
            if self._ask("nvmlDeviceIsMigDeviceHandle", handle):
                gpu = self._call("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle)
                instance = self._number("nvmlDeviceGetGpuInstanceId", handle)
                instance = ANY_INSTANCE if instance is None else instance
            uuid = nvml.text(self._call("nvmlDeviceGetUUID", gpu))
            if uuid not in self._gpus:
                self._call("nvmlDeviceRegisterEvents", gpu, XID_EVENT, self._set)
                self._gpus[uuid] = gpu
        except nvml.NoAnswer:
            return None
        return Source(device, uuid, instance)

    def _gpu_of(self, handle: Any) -> str:
        """The UUID of an event's GPU; one that has fallen off the bus is known by its handle only."""
        uuid = self._ask("nvmlDeviceGetUUID", handle)
        if uuid is not None:
            return nvml.text(uuid)
        same = (uuid for uuid, known in self._gpus.items() if _address(known) == _address(handle))
        return next(same, "")


def _address(handle: Any) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value


class XidWatcher(threading.Thread):
    """Delivers the Xids of some devices until it is stopped: each of a device once, and at most `MOST`.

    It is a daemon thread, because a driver may never answer. It looks now and then, rather than wait within
    the driver, so that it ends as soon as it is asked to: no process is forked beside a thread.

    `deliver` is called in this thread; a call that has begun may end after `stop`.
    """

    def __init__(
        self,
        devices: tuple[Device, ...],
        deliver: Callable[[Device, int], None],
        *,
        head_start_s: float,
        interval_s: float,
    ) -> None:
        super().__init__(name="xids", daemon=True)
        self._devices = devices
        self._deliver = deliver
        self._head_start_s, self._interval_s = head_start_s, interval_s
        self._stopping, self._done = threading.Event(), threading.Event()
        self._watching = False

    def stop(self) -> None:
        """Ask the thread to end; returns at once."""
        self._stopping.set()

    def finish(self) -> None:
        """Ask the thread to look once more and to end; waits for that look, but not for a hung driver."""
        self.stop()
        if self._watching:
            self._done.wait(LAST_LOOK_S)

    def run(self) -> None:
        """Watch until stopped."""
        if self._stopping.wait(self._head_start_s):
            return
        try:
            session = XidSession(nvml.find_pynvml(), self._devices)
        except nvml.NoAnswer:
            return
        try:
            if session.sees_any:
                self._watching = True
                self._watch(session)
        finally:
            self._done.set()
            session.close()

    def _watch(self, session: XidSession) -> None:
        """Look each interval, and once more when stopped. A GPU may log the same thousands of times."""
        seen: set[tuple[str, int]] = set()
        last = False
        while len(seen) < MOST and not last:
            last = self._stopping.wait(self._interval_s)
            for device, xid in session.look():
                if (device.uuid, xid) not in seen and len(seen) < MOST:
                    seen.add((device.uuid, xid))
                    self._deliver(device, xid)
