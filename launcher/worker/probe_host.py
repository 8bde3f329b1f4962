"""The figures of the whole host. psutil comes in as an argument, because an executor may lack it."""

from __future__ import annotations

import os
from typing import Any

from launcher.events import HostSample


class HostMeter:
    """Reads the host; CPU is the share of the time since the reading before, so the first has none.

    Without psutil only the load is known.
    """

    def __init__(self, psutil: Any | None) -> None:
        self._psutil = psutil
        self._times: tuple[float, float] | None = None

    def read(self) -> HostSample:
        """The host now."""
        if self._psutil is None:
            return HostSample(load1=_load())
        memory = self._psutil.virtual_memory()
        return HostSample(
            cpu=self._cpu(self._psutil.cpu_times()._asdict()),
            memory_used=memory.total - memory.available,
            memory_total=memory.total,
            load1=_load(),
        )

    def _cpu(self, times: dict[str, float]) -> float | None:
        before, self._times = self._times, busy_and_all(times)
        return None if before is None else share(before, self._times)


def busy_and_all(times: dict[str, float]) -> tuple[float, float]:
    """Seconds that the CPUs worked, and all their seconds; guests are counted within user and nice."""
    everything = sum(times.values()) - times.get("guest", 0.0) - times.get("guest_nice", 0.0)
    return everything - times["idle"] - times.get("iowait", 0.0), everything


def share(before: tuple[float, float], after: tuple[float, float]) -> float | None:
    """The busy part of the time between two readings in percent; None if no time has passed."""
    elapsed = after[1] - before[1]
    return min(100.0, max(0.0, 100 * (after[0] - before[0]) / elapsed)) if elapsed > 0 else None


def _load() -> float | None:
    try:
        return os.getloadavg()[0]
    except OSError:
        return None
