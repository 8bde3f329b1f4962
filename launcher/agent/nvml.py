"""A thin session with NVML through pynvml: the driver's figures of a GPU, or None where it gives none.

Nothing here decides anything: `launcher.agent.gpus` chooses the devices of a run, `launcher.agent.telemetry`
the figures of a rank. pynvml is imported only when a session is opened, because an executor may lack it.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..spec.places import Device
from ..state.events import DeviceSample

_UNKNOWN_UINT = 0xFFFFFFFF
_UNKNOWN_ULONG = 0xFFFFFFFFFFFFFFFF
_SLOW_PER_READ = 2

# Named as nvidia-smi names them. "Idle" (bit 0) is left out: a GPU without work is not held back.
_THROTTLE = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x001


def throttle_names(bits: int | None) -> tuple[str, ...] | None:
    """The reasons for lowered clocks in a bit mask; a bit that has no name yet appears as a number."""
    if bits is None:
        return None
    set_bits = [1 << i for i in range(bits.bit_length()) if bits >> i & 1]
    return tuple(_THROTTLE.get(bit, hex(bit)) for bit in set_bits if bit != _IDLE)


def watts(milliwatts: int | None) -> float | None:
    """NVML's milliwatts as watts."""
    return None if milliwatts is None else milliwatts / 1000


def known(value: Any) -> int | None:
    """The number, or None for the values by which NVML marks an unknown one."""
    return None if value in (None, _UNKNOWN_UINT, _UNKNOWN_ULONG) else int(value)


def is_turn(reads: int, position: int, devices: int) -> bool:
    """Whether a device's slow readings are due: of at most two devices in each round of all."""
    rounds = max(1, -(-devices // _SLOW_PER_READ))
    return reads % rounds == position % rounds


def merged_memory(lists: list[list[tuple[int, int | None]]]) -> dict[int, int | None]:
    """Bytes by pid. A process may be in several lists with the same figure, and several times in one list."""
    merged: dict[int, int | None] = {}
    for entries in lists:
        for pid, used in _summed(entries).items():
            before = merged.get(pid)
            merged[pid] = max((v for v in (before, used) if v is not None), default=None)
    return merged


def _summed(entries: list[tuple[int, int | None]]) -> dict[int, int | None]:
    sums: dict[int, int | None] = {}
    for pid, used in entries:
        before = sums.get(pid, 0)
        sums[pid] = None if before is None or used is None else before + used
    return sums


def text(value: str | bytes) -> str:
    """Text; older versions of pynvml gave bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value


LIBRARY = "libnvidia-ml.so.1"
_NVLINK_COUNTERS = ("NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX", "NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX")
_NO_PERMISSION = 4


class NoAnswer(Exception):
    """NVML did not answer; the message is a short reason."""

    def __init__(self, reason: str, code: int | None = None) -> None:
        super().__init__(reason)
        self.code = code


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU of the host.

    Attributes:
        index: its place in NVML's order, which is that of the PCI bus.
        device: the GPU, or None if it does not answer; `error` then says why.
        instances: its MIG instances, or None if it is not in MIG mode.
    """

    index: int
    device: Device | None
    instances: tuple[Device, ...] | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class NvLinkTraffic:
    """What a GPU's NVLinks have carried so far, in KiB, at a moment of the monotonic clock."""

    at: float
    received: int
    sent: int

    def rates_since(self, before: NvLinkTraffic | None) -> tuple[int | None, int | None]:
        """The traffic in and out since an earlier reading in KB/s; unknown without one, or after a reset."""
        if before is None or self.at <= before.at:
            return None, None
        spans = (self.received - before.received, self.sent - before.sent)
        per = 1.024 / (self.at - before.at)
        received, sent = (round(span * per) if span >= 0 else None for span in spans)
        return received, sent


@dataclass(frozen=True, slots=True)
class Links:
    """A GPU's traffic over PCIe and over all its NVLinks in KB/s, and how many of these are up."""

    rx_kbs: int | None = None
    tx_kbs: int | None = None
    nvlink_active: int | None = None
    nvlink_rx_kbs: int | None = None
    nvlink_tx_kbs: int | None = None


@dataclass(frozen=True, slots=True)
class Health:
    """ECC errors of a GPU's memory since the driver was loaded, and the state of its row remapping.

    `pending`: rows wait for a reset to be remapped; `broken`: a row could not be remapped.
    """

    corrected: int | None = None
    uncorrected: int | None = None
    pending: bool | None = None
    broken: bool | None = None


@dataclass(slots=True)
class _Tracked:
    """A GPU that is read repeatedly; finding its handle costs more than all the readings."""

    handle: Any
    index: int | None
    position: int
    reads: int = 0
    links: Links = Links()
    traffic: NvLinkTraffic | None = None


def open_session() -> NvmlSession:
    """Start NVML in this process; raises `NoAnswer` where there is none."""
    return NvmlSession(find_pynvml())


def find_pynvml() -> Any:
    """The module pynvml; raises `NoAnswer` where it or the driver's library is missing."""
    try:
        # pynvml would report the same, but its import costs a host without GPUs 16 ms
        ctypes.CDLL(LIBRARY)
    except OSError:
        raise NoAnswer("NVML: NVML Shared Library Not Found") from None
    try:
        import pynvml
    except ImportError:
        raise NoAnswer("pynvml is not installed here") from None
    return pynvml


class NvmlSession:
    """An initialised NVML, with the handles of the GPUs that were read.

    `library` is the module pynvml, of any version: a figure that it lacks is unknown.
    """

    def __init__(self, library: Any) -> None:
        self._library = library
        mismatch = getattr(library, "NVMLLibraryMismatchError", library.NVMLError)
        self._errors = (library.NVMLError, mismatch, OSError)
        self._tracked: dict[str, _Tracked] = {}
        self._call("nvmlInit")

    def close(self) -> None:
        """End the session; its handles become invalid."""
        self._tracked.clear()
        self._ask("nvmlShutdown")

    # --- finding devices -----------------------------------------------------------------------------

    def gpus(self) -> list[Gpu]:
        """Every GPU that this process may use, in bus order; raises `NoAnswer` if they cannot be listed."""
        listed = (self._gpu(index) for index in range(self._call("nvmlDeviceGetCount")))
        return [gpu for gpu in listed if gpu is not None]

    def _gpu(self, index: int) -> Gpu | None:
        """One GPU; None if this process has no permission for it, as in a container with only some GPUs."""
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            device = self._device(handle, index)
        except NoAnswer as error:
            return None if error.code == _NO_PERMISSION else Gpu(index, None, error=str(error))
        mode = self._ask("nvmlDeviceGetMigMode", handle)
        return Gpu(index, device, self._instances(handle, index) if mode and mode[0] else None)

    def _device(self, handle: Any, index: int) -> Device:
        uuid = text(self._call("nvmlDeviceGetUUID", handle))
        name = text(self._ask("nvmlDeviceGetName", handle) or "")
        return Device(index=index, uuid=uuid, name=name, memory=self._memory(handle)[1])

    def _instances(self, handle: Any, index: int) -> tuple[Device, ...]:
        slots = range(self._ask("nvmlDeviceGetMaxMigDeviceCount", handle) or 0)
        handles = [self._ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot) for slot in slots]
        devices = []
        for instance in handles:
            try:
                devices += [self._device(instance, index)] if instance else []
            except NoAnswer:
                continue  # an instance without a UUID cannot be given to a rank
        return tuple(devices)

    # --- reading one ---------------------------------------------------------------------------------

    def read(self, uuid: str) -> DeviceSample:
        """Read the figures of a GPU or MIG instance."""
        gpu = self._find(uuid)
        if gpu is None:
            return DeviceSample(uuid=uuid)
        handle = gpu.handle
        utilization = self._ask("nvmlDeviceGetUtilizationRates", handle)
        used, total = self._memory(handle)
        links = self._links(gpu)
        return DeviceSample(
            uuid=uuid,
            index=gpu.index,
            util=None if utilization is None else float(utilization.gpu),
            memory_used=used,
            memory_total=total,
            power_w=watts(self._number("nvmlDeviceGetPowerUsage", handle)),
            power_limit_w=watts(self._number("nvmlDeviceGetEnforcedPowerLimit", handle)),
            temperature_c=self._temperature(handle),
            sm_clock_mhz=self._number("nvmlDeviceGetClockInfo", handle, 1),
            memory_clock_mhz=self._number("nvmlDeviceGetClockInfo", handle, 2),
            throttle=throttle_names(self._throttle(handle)),
            pcie_rx_kbs=links.rx_kbs,
            pcie_tx_kbs=links.tx_kbs,
            nvlink_active=links.nvlink_active,
            nvlink_rx_kbs=links.nvlink_rx_kbs,
            nvlink_tx_kbs=links.nvlink_tx_kbs,
        )

    def health(self, uuid: str) -> Health:
        """Read the health of a GPU's memory; without ECC its errors are unknown."""
        gpu = self._find(uuid)
        if gpu is None:
            return Health()
        corrected, uncorrected = (
            self._number("nvmlDeviceGetTotalEccErrors", gpu.handle, kind, 0) for kind in (0, 1)
        )
        rows = self._ask("nvmlDeviceGetRemappedRows", gpu.handle) or (None, None, None, None)
        pending, broken = (None if flag is None else bool(flag) for flag in rows[2:])
        return Health(corrected, uncorrected, pending, broken)

    def driver(self) -> str:
        """The driver's version; empty if unknown."""
        return text(self._ask("nvmlSystemGetDriverVersion") or "")

    def newest_cuda(self) -> str:
        """The newest version of CUDA that the driver runs, such as ``12.4``; empty if unknown."""
        number = self._number("nvmlSystemGetCudaDriverVersion")
        return "" if number is None else f"{number // 1000}.{number % 1000 // 10}"

    def process_memory(self, uuid: str) -> dict[int, int | None]:
        """Device memory in bytes by pid; None for a process whose share the driver does not report."""
        gpu = self._find(uuid)
        if gpu is None:
            return {}
        lists = [self._processes(kind, gpu.handle) for kind in ("Compute", "Graphics")]
        return merged_memory([[(p.pid, known(p.usedGpuMemory)) for p in processes] for processes in lists])

    def _processes(self, kind: str, handle: Any) -> list[Any]:
        name = f"nvmlDeviceGet{kind}RunningProcesses"
        answers = (self._ask(name + version, handle) for version in ("_v3", "_v2", ""))
        return next((answer for answer in answers if answer is not None), [])

    def _memory(self, handle: Any) -> tuple[int | None, int | None]:
        """Used and total bytes. Version 2 is tried first: it leaves out the driver's own share."""
        version = getattr(self._library, "nvmlMemory_v2", None)
        info = self._ask("nvmlDeviceGetMemoryInfo", handle, version) if version else None
        info = info or self._ask("nvmlDeviceGetMemoryInfo", handle)
        return (known(info.used), known(info.total)) if info else (None, None)

    def _temperature(self, handle: Any) -> float | None:
        value = self._number("nvmlDeviceGetTemperature", handle, 0)
        value = self._number("nvmlDeviceGetTemperatureV", handle, 0) if value is None else value
        return None if value is None else float(value)

    def _throttle(self, handle: Any) -> int | None:
        bits = self._number("nvmlDeviceGetCurrentClocksEventReasons", handle)
        return self._number("nvmlDeviceGetCurrentClocksThrottleReasons", handle) if bits is None else bits

    def _links(self, gpu: _Tracked) -> Links:
        """The buses' figures, of a few GPUs per round: the driver takes 20 ms for each direction of PCIe."""
        if is_turn(gpu.reads, gpu.position, len(self._tracked)):
            active = self._nvlinks(gpu.handle)
            before, gpu.traffic = gpu.traffic, self._nvlink_traffic(gpu.handle, active or [])
            received, sent = gpu.traffic.rates_since(before) if gpu.traffic else (None, None)
            gpu.links = Links(
                rx_kbs=self._number("nvmlDeviceGetPcieThroughput", gpu.handle, 1),
                tx_kbs=self._number("nvmlDeviceGetPcieThroughput", gpu.handle, 0),
                nvlink_active=None if active is None else len(active),
                nvlink_rx_kbs=received,
                nvlink_tx_kbs=sent,
            )
        gpu.reads += 1
        return gpu.links

    def _nvlinks(self, handle: Any) -> list[int] | None:
        """The numbers of the NVLinks that are up; None for a GPU without NVLink."""
        limit = getattr(self._library, "NVML_NVLINK_MAX_LINKS", 0)
        if self._ask("nvmlDeviceGetNvLinkState", handle, 0) is None:
            return None
        return [link for link in range(limit) if self._ask("nvmlDeviceGetNvLinkState", handle, link)]

    def _nvlink_traffic(self, handle: Any, links: Sequence[int]) -> NvLinkTraffic | None:
        """The counters of these links, from one call; None if any of them does not answer."""
        counters = [getattr(self._library, name, None) for name in _NVLINK_COUNTERS]
        if not links or None in counters:
            return None
        at = time.monotonic()
        try:
            values = self._ask(
                "nvmlDeviceGetFieldValues", handle, [(c, link) for c in counters for link in links]
            )
        except TypeError:  # an older pynvml, which cannot ask for one link
            return None
        if values is None or any(value.nvmlReturn for value in values):
            return None
        amounts = [int(value.value.ullVal) for value in values]
        return NvLinkTraffic(at, sum(amounts[: len(links)]), sum(amounts[len(links) :]))

    # --- calls ---------------------------------------------------------------------------------------

    def _find(self, uuid: str) -> _Tracked | None:
        if uuid not in self._tracked:
            handle = self._ask("nvmlDeviceGetHandleByUUID", uuid.encode())
            if handle is None:
                return None
            index = self._number("nvmlDeviceGetIndex", handle)
            self._tracked[uuid] = _Tracked(handle, index, position=len(self._tracked))
        return self._tracked[uuid]

    def _number(self, function: str, *args: Any) -> int | None:
        return known(self._ask(function, *args))

    def _ask(self, function: str, *args: Any) -> Any:
        """Call pynvml; None if it does not answer."""
        try:
            return self._call(function, *args)
        except NoAnswer:
            return None

    def _call(self, function: str, *args: Any) -> Any:
        call: Callable[..., Any] | None = getattr(self._library, function, None)
        if call is None:
            raise NoAnswer(f"pynvml here has no {function}")
        try:
            return call(*args)
        except self._errors as error:
            raise NoAnswer(f"NVML: {error}", getattr(error, "value", None)) from error
