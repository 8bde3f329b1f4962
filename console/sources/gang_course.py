"""What all ranks do together, second by second: kept as sums while samples pass, never gathered anew.

A screen asks several times a second, and a gang of a thousand has a hundred thousand readings. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from console.formatting import is_finite
from console.sources.readings import HISTORY, Curve, Metric, Reading

_METRICS = tuple(Metric)


class GangCourse:
    """The mean of each figure over all ranks in each of the last seconds that have samples."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[list[float], list[int]]] = {}
        self._means: Mapping[Metric, Curve] | None = None

    def sampled(self, time: float, readings: Iterable[Reading]) -> None:
        """Take in what the ranks of one host did at a time. Hosts may tell of it in any order."""
        second = int(time)
        sums, counts = self._seconds.setdefault(second, ([0.0] * len(_METRICS), [0] * len(_METRICS)))
        for reading in readings:
            for at, value in enumerate(reading):
                if is_finite(value):
                    sums[at] += value
                    counts[at] += 1
        self._means = None
        if len(self._seconds) > HISTORY:
            del self._seconds[min(self._seconds)]

    @property
    def means(self) -> Mapping[Metric, Curve]:
        """Each known figure's course, rounded, oldest first."""
        if self._means is None:
            drawn = {metric: self._course(metric.value) for metric in _METRICS}
            self._means = {metric: course for metric, course in drawn.items() if course}
        return self._means

    def _course(self, at: int) -> Curve:
        told = (self._seconds[second] for second in sorted(self._seconds))
        return tuple(float(round(sums[at] / counts[at])) for sums, counts in told if counts[at])
