"""Which figures of a rank can be charted, and on which fixed scale each is seen. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

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
