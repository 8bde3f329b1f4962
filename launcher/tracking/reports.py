"""Which of the ranks' reports go to trackers: those of the leading rank, each with a step. Pure.

The leading rank is the lowest one that reports, as on the run screen. Ranks begin at different moments, so
for a few seconds a higher rank's reports wait until it is clear that no lower one reports too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ..state.events import RankReported

PATIENCE_S = 5.0


@dataclass(frozen=True, slots=True)
class Point:
    """One value of a metric; `time` in seconds since the epoch."""

    name: str
    value: float
    step: int
    time: float
    attempt: int = 0


@dataclass(slots=True)
class Leader:
    """Chooses the leading rank of each attempt, and gives its reports steps.

    A report without a step has the last step before it; if there was none, reports are counted.
    """

    _attempt: int = 0
    _rank: int | None = None
    _since: float = 0.0
    _held: list[RankReported] = field(default_factory=list)
    _step: int | None = None
    _count: int = 0

    def choose(self, reports: Iterable[RankReported]) -> list[Point]:
        """The points of the leading rank among newer reports."""
        return [
            point for report in reports for chosen in self._next(report) for point in self._points(chosen)
        ]

    def rest(self) -> list[Point]:
        """The points that still wait, when no more reports will come."""
        return [point for report in self._released() for point in self._points(report)]

    def _next(self, report: RankReported) -> Iterator[RankReported]:
        if report.attempt > self._attempt:
            yield from self._released()
            self._attempt, self._rank, self._step = report.attempt, None, None
        if report.attempt < self._attempt or (self._rank is not None and report.rank > self._rank):
            return
        if self._rank is None:
            self._since = report.time
        if report.rank != self._rank:
            self._rank, self._held = report.rank, []
        self._held.append(report)
        if not report.rank or report.time - self._since >= PATIENCE_S:
            yield from self._released()

    def _released(self) -> list[RankReported]:
        held, self._held = self._held, []
        return held

    def _points(self, report: RankReported) -> Iterator[Point]:
        if report.step is not None:
            self._step = report.step
        step = self._count if self._step is None else self._step
        self._count += 1
        for name, value in report.metrics.items():
            yield Point(name, value, step, report.time, report.attempt)
