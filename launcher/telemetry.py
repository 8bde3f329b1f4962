"""What sensors say: figures of devices, ranks and hosts at one moment."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.codec import Index
from launcher.fact import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One device at one moment. None is unknown, never zero. Memory in bytes, power in watts."""

    uuid: str
    index: int | None = None
    util: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    pcie_rx_kbs: int | None = None
    pcie_tx_kbs: int | None = None
    nvlink_active: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSample:
    """One rank's process tree at one moment: CPU in percent of one core, memory and I/O in bytes."""

    rank: Index
    cpu: float | None = None
    rss: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    device_memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One host at one moment: CPU in percent of the whole machine, memory in bytes."""

    cpu: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    load1: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Event):
    """What one agent's sensors said, once per interval. Kept in `samples/`, not with the other facts."""

    agent: Index
    host: str
    system: HostSample | None = None
    devices: tuple[DeviceSample, ...] = ()
    ranks: tuple[RankSample, ...] = ()
