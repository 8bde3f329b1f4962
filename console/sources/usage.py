"""What a rank used over its whole life: means and peaks, kept as sums while samples pass. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from console.formatting import is_finite
from launcher.events import DeviceSample, RankSample


@dataclass(frozen=True, slots=True)
class Usage:
    """Means of how busy it was and of the power it drew, peaks of memory and temperature; None is unknown.

    `memory` is that of its devices, or of its processes if it has none.
    """

    util: float | None = None
    cpu: float | None = None
    power: float | None = None
    memory: int | None = None
    rss: int | None = None
    temperature: float | None = None


class UsageSums:
    """One rank's samples so far."""

    def __init__(self) -> None:
        self._sums: dict[str, tuple[float, int]] = {}
        self._peaks: dict[str, float] = {}

    def take(self, sample: RankSample, devices: Sequence[DeviceSample]) -> None:
        """Take in one sample, and those of the rank's own devices at that moment."""
        utils = [d.util for d in devices if is_finite(d.util)]
        self._add("util", sum(utils) / len(utils) if utils else None)
        self._add("power", _total(d.power_w for d in devices))
        self._add("cpu", sample.cpu)
        self._top("memory", _total(d.memory_used for d in devices) if devices else sample.rss)
        self._top("rss", sample.rss)
        for device in devices:
            self._top("temperature", device.temperature_c)

    @property
    def usage(self) -> Usage:
        """What they come to."""
        means = {name: total / count for name, (total, count) in self._sums.items()}
        peaks = self._peaks
        return Usage(
            **means,
            memory=_whole(peaks.get("memory")),
            rss=_whole(peaks.get("rss")),
            temperature=peaks.get("temperature"),
        )

    def _add(self, name: str, value: float | None) -> None:
        if is_finite(value):
            total, count = self._sums.get(name, (0.0, 0))
            self._sums[name] = total + value, count + 1

    def _top(self, name: str, value: float | None) -> None:
        if is_finite(value):
            self._peaks[name] = max(value, self._peaks.get(name, value))


def _total(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if is_finite(value)]
    return sum(known) if known else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
