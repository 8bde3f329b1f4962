"""Which figures of a rank can be charted, on which scale, and their means and peaks over its life."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from launcher.state.events import DeviceSample, RankSample

from ...formatting import is_finite

Reading = tuple[float | None, float | None, float | None, float | None, float | None, float | None]
"""One rank at one moment, by `Metric.value`. None is unknown."""

Curve = tuple[float, ...]

HISTORY = 120
"""How many of the last readings are kept."""


class Metric(Enum):
    """A figure; the value is its place in a `Reading`."""

    USE = 0
    MEMORY = 1
    POWER = 2
    HEAT = 3
    LAG = 4
    CPU = 5

    @property
    def label(self) -> str:
        """What it is called, with its unit where that is no percentage."""
        return _LABELS[self]

    @property
    def top(self) -> float:
        """The end of its scale: per cent, degrees, or steps. More is shown as that much."""
        return _TOPS.get(self, 100.0)

    def following(self, *, devices: bool) -> Metric:
        """The metric after this one, among those that ranks with or without devices have."""
        offered = [m for m in Metric if devices or m in (Metric.LAG, Metric.CPU)]
        return offered[(offered.index(self) + 1) % len(offered)] if self in offered else offered[0]

    def badness(self, value: float | None) -> float:
        """How far a figure is from what one wishes for, unknown last: busy is good, hot and late are bad."""
        if value is None:
            return -1000.0
        return -value if self in (Metric.USE, Metric.CPU, Metric.POWER) else value


_LABELS: Mapping[Metric, str] = {
    Metric.USE: "GPU",
    Metric.MEMORY: "memory",
    Metric.POWER: "power",
    Metric.HEAT: "temp °C",
    Metric.LAG: "lag steps",
    Metric.CPU: "CPU",
}
_TOPS: Mapping[Metric, float] = {Metric.LAG: 8.0}


def usual_metric(*, devices: bool) -> Metric:
    """What is shown at first."""
    return Metric.USE if devices else Metric.CPU


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
            memory=_rounded(peaks.get("memory")),
            rss=_rounded(peaks.get("rss")),
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


def _rounded(value: float | None) -> int | None:
    return None if value is None else int(value)
