"""Reported metrics as curves over steps: each point the least, middle and greatest of all ranks. Pure.

A point is a bucket of steps. Its width is a power of two, one step at first; where ranks report faster than
points are kept, it grows. So a curve of a week costs as much as one of an hour, and loses no peak.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median

from ..serialization import LATEST
from .events import RankReported

MOST_METRICS = 256
"""Of so many metrics curves are kept, as many as a report may have."""

OPEN_POINTS, OPEN_VALUES = 64, 1 << 16
"""Of each metric, so many points wait for the reports of late ranks, and so many values in all of them."""

NEW_POINTS, LEAST_NEW, ALL_NEW, FEW_POINTS = 64, 4, 1024, 8
"""A metric that gets more new points than this between two calls of `changed` has its buckets widened. Of
many metrics each has a share of `ALL_NEW`, and at least `LEAST_NEW`.

So has one with more than a few, if most of them lack most ranks, because ranks report at different steps.
"""

UNREAD_POINTS, UNREAD_VALUES = 4096, 1 << 20
"""Without calls of `changed`, as on a full disk, buckets are widened when a metric has so many new ones, or
so many values: so memory stays bounded."""

MOST_LEVEL = 40
STEP = "step"
"""The metric that stands for a report of a step alone: so that the pace of such a run is known, too."""

LARGEST_STEP, LARGEST_TIME, LARGEST_ATTEMPT, LONGEST_NAME = 1 << 62, LATEST, 0xFFFF, 256
"""Reports beyond these, which only a broken rank sends, are left out."""

_PARTS = 0xFFFF


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """The values of one metric in a bucket of steps.

    Attributes:
        metric: its name.
        attempt: the attempt in which it was reported.
        step: the first step of the bucket; without steps, seconds since the epoch.
        level: the bucket has ``2**level`` steps.
        time: when the first of its values was reported, in seconds since the epoch.
        low, mid, high: of the finite values the least, the median of the ranks' last ones, the greatest.
            NaN if none is finite.
        ranks: how many ranks have reported.
        broken: whether one of the values is not finite.
        stepless: whether they were reported without a step.
        part: 0, or a number that tells the reports of late ranks from the point that they came too late for.
    """

    metric: str
    attempt: int
    step: int
    level: int
    time: float
    low: float
    mid: float
    high: float
    ranks: int
    broken: bool = False
    stepless: bool = False
    part: int = 0


@dataclass(slots=True)
class _Bucket:
    """A point that still grows."""

    time: float
    part: int = 0
    low: float = math.inf
    high: float = -math.inf
    last: dict[int, float] = field(default_factory=dict)
    broken: bool = False

    def take(self, rank: int, value: float) -> None:
        if math.isfinite(value):
            self.last[rank] = value
            self.low, self.high = min(self.low, value), max(self.high, value)
        else:
            self.broken = True
            self.last.setdefault(rank, math.nan)

    def merge(self, later: _Bucket) -> None:
        self.last.update(later.last)
        self.low, self.high = min(self.low, later.low), max(self.high, later.high)
        self.broken |= later.broken
        self.time = min(self.time, later.time)


class _Curve:
    """The growing points of one metric."""

    def __init__(self) -> None:
        self.level = 0
        self.open: dict[int, _Bucket] = {}
        self.changed: set[int] = set()
        self.ranks: set[int] = set()
        self.values = self.fresh = 0
        self._closed: int | None = None
        self._late = 0

    def take(self, step: int, time: float, rank: int, value: float) -> None:
        key = step >> self.level
        bucket = self.open.get(key)
        if bucket is None:
            bucket = self.open[key] = _Bucket(time, self._part_of(key))
            self.fresh += 1
        self.values -= len(bucket.last)
        bucket.take(rank, value)
        self.ranks.add(rank)
        self.values += len(bucket.last)
        self.changed.add(key)
        if self.fresh > UNREAD_POINTS or (self.values > UNREAD_VALUES and self.fresh > NEW_POINTS):
            self.widen(NEW_POINTS)

    def _part_of(self, key: int) -> int:
        """The part of a new bucket: not 0 where one of the same steps may have been forgotten."""
        if self._closed is None or key > self._closed:
            return 0
        self._late = self._late % _PARTS + 1
        return self._late

    def widen(self, most: int) -> None:
        """Double the width of the buckets, until the new ones since the last call are full enough, and `most`
        at most."""
        while self._too_fine(most) and self.level < MOST_LEVEL:
            self.level += 1
            self.fresh = (self.fresh + 1) // 2
            merged: dict[int, _Bucket] = {}
            for key in sorted(self.open):
                if (bucket := merged.get(key >> 1)) is None:
                    merged[key >> 1] = self.open[key]
                else:
                    bucket.merge(self.open[key])
            self.open, self.changed = merged, {key >> 1 for key in self.changed}
            self._closed = None if self._closed is None else self._closed >> 1
        self.values = sum(len(bucket.last) for bucket in self.open.values())
        self.fresh = 0

    def _too_fine(self, most: int) -> bool:
        if self.fresh <= min(FEW_POINTS, most):
            return False
        held = sum(len(self.open[key].last) for key in self.changed)
        return self.fresh > most or held < len(self.changed) * len(self.ranks) / 2

    def close_old(self) -> None:
        """Forget the oldest points, of which everything was returned."""
        for key in sorted(self.open):
            if len(self.open) <= OPEN_POINTS and self.values <= OPEN_VALUES:
                return
            self.values -= len(self.open.pop(key).last)
            self._closed = key if self._closed is None else max(self._closed, key)


class CurveBuilder:
    """Makes points of reports.

    A point is returned again when it has changed; then it has the values of both times, and replaces the
    former one. A report of a rank that is so late that its point was forgotten begins another part of the
    same steps: whoever reads both takes them together.
    """

    def __init__(self) -> None:
        self._curves: dict[tuple[str, bool], _Curve] = {}
        self._names: set[str] = set()
        self._attempt = 0
        self._ended: list[CurvePoint] = []

    def take(self, report: RankReported) -> None:
        """Add a report. Those of an earlier attempt than the last are left out."""
        if report.attempt < self._attempt or not _is_sound(report):
            return
        if report.attempt > self._attempt:
            self._ended = [*self._ended, *self._newest()][-OPEN_VALUES:]
            self._attempt = report.attempt
            self._curves.clear()
        stepless = report.step is None
        step = int(report.time) if report.step is None else report.step
        metrics = report.metrics or ({} if stepless else {STEP: float(step)})
        for name, value in metrics.items():
            if (curve := self._curves.get((name, stepless))) is None:
                if name not in self._names and (len(self._names) >= MOST_METRICS or len(name) > LONGEST_NAME):
                    continue
                self._names.add(name)
                curve = self._curves[name, stepless] = _Curve()
            curve.take(step, report.time, report.rank, value)

    def changed(self) -> Iterator[CurvePoint]:
        """The points that have changed since the last call, those of a metric in the order of their steps."""
        ended, self._ended = self._ended, []
        yield from ended
        yield from self._newest()

    def _newest(self) -> Iterator[CurvePoint]:
        most = min(max(ALL_NEW // max(len(self._curves), 1), LEAST_NEW), NEW_POINTS)
        for (name, stepless), curve in self._curves.items():
            if not curve.changed:
                continue
            curve.widen(most)
            for key in sorted(curve.changed):
                yield self._point(name, curve, key, stepless=stepless)
            curve.changed.clear()
            curve.close_old()

    def _point(self, name: str, curve: _Curve, key: int, *, stepless: bool) -> CurvePoint:
        bucket = curve.open[key]
        finite = [value for value in bucket.last.values() if value == value]
        return CurvePoint(
            metric=name,
            attempt=self._attempt,
            step=key << curve.level,
            level=curve.level,
            time=bucket.time,
            low=bucket.low if finite else math.nan,
            mid=median(finite) if finite else math.nan,
            high=bucket.high if finite else math.nan,
            ranks=len(bucket.last),
            broken=bucket.broken,
            stepless=stepless,
            part=bucket.part,
        )


def _is_sound(report: RankReported) -> bool:
    """Whether its step, time and attempt are such as a rank in order reports."""
    return (
        abs(report.step or 0) <= LARGEST_STEP
        and abs(report.time) <= LARGEST_TIME
        and report.attempt <= LARGEST_ATTEMPT
    )
