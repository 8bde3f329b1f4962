"""What a figure of a device, a rank's processes or a host means, and what else its sensors tell. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from launcher.state.events import DeviceSample

from ... import formatting as fig
from .metrics import CPU, FULL, HOST_CPU, HOST_MEMORY, HOT, IDLE, MEMORY, RSS, TEMPERATURE, UTIL, Metric
from .model import RankView, RunView
from .stragglers import devices_of


class Grade(Enum):
    """What a figure means."""

    UNKNOWN = "unknown"
    IDLE = "idle"
    LOW = "low"
    OK = "ok"
    BUSY = "busy"
    HIGH = "high"
    FULL = "full"


_LITTLE, _MUCH = 50.0, 90.0
_WORK = frozenset({UTIL, CPU})
_FILL = frozenset({MEMORY, RSS, HOST_MEMORY, HOST_CPU})


def grade_of(metric: Metric, figure: float | None) -> Grade:
    """What a figure on its metric's scale means.

    Little work is what to look at on a device, and much memory. The thresholds are those of the alerts, and
    between them those of what is told of slow ranks.
    """
    if not fig.is_finite(figure):
        return Grade.UNKNOWN
    if metric in _WORK:
        return _worked(figure)
    if metric in _FILL:
        return Grade.FULL if FULL.bad(figure) else Grade.HIGH if figure >= _MUCH else Grade.OK
    if metric is TEMPERATURE:
        return Grade.FULL if HOT.bad(figure) else Grade.OK if HOT.good(figure) else Grade.HIGH
    return Grade.OK


def _worked(figure: float) -> Grade:
    if IDLE.bad(figure):
        return Grade.IDLE
    return Grade.LOW if figure < _LITTLE else Grade.OK if figure < _MUCH else Grade.BUSY


def rss_share(view: RunView, each: RankView) -> float | None:
    """The memory of a rank's processes in per cent of its host's; None if either is unknown."""
    host = view.state.hosts.get(each.rank.agent)
    total = host.system.memory_total if host is not None and host.system is not None else None
    rss = each.amount(RSS)
    return None if rss is None or not total or total < 0 else rss / total * 100


@dataclass(frozen=True, slots=True)
class Sensors:
    """What a rank's devices tell besides the table of metrics; of several the sum, the least or the first.

    Clocks in MHz, rates over PCIe and NVLink in kB/s. None is unknown.
    """

    clock: int | None = None
    memory_clock: int | None = None
    slowed_by: tuple[str, ...] | None = None
    links: int | None = None
    received: int | None = None
    sent: int | None = None
    link_received: int | None = None
    link_sent: int | None = None


def sensors_of(view: RunView, each: RankView) -> Sensors:
    """The last readings of a living rank's devices; nothing of a rank that has ended."""
    devices = devices_of(view, each) if not each.rank.phase.ended else []
    slowed = [device.throttle for device in devices if device.throttle is not None]
    return Sensors(
        clock=min(_known(devices, "sm_clock_mhz"), default=None),
        memory_clock=min(_known(devices, "memory_clock_mhz"), default=None),
        slowed_by=tuple(dict.fromkeys(cause for causes in slowed for cause in causes)) if slowed else None,
        links=_sum(_known(devices, "nvlink_active")),
        received=_sum(_known(devices, "pcie_rx_kbs")),
        sent=_sum(_known(devices, "pcie_tx_kbs")),
        link_received=_sum(_known(devices, "nvlink_rx_kbs")),
        link_sent=_sum(_known(devices, "nvlink_tx_kbs")),
    )


def _known(devices: Iterable[DeviceSample], field: str) -> list[int]:
    values = (getattr(device, field) for device in devices)
    return [value for value in values if value is not None and value >= 0]


def _sum(values: list[int]) -> int | None:
    return sum(values) if values else None
