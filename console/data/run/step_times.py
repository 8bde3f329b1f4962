"""Seconds a step over all ranks and their last reports, and the steps that ranks are behind. Pure."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

_EACH, _ALL, _LEAST = 32, 8192, 4
_LAGS, _LAG_S = 120, 1.0
_REPORTS_S = 0.5


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Seconds a step, each the mean between two reports of one rank.

    Attributes:
        p50, p99, most: percentiles and maximum over all ranks and their last reports.
        most_rank: the rank of the maximum.
        slow_rank: the rank with the greatest median.
        slow_ratio: that median divided by the median of all ranks.
    """

    p50: float
    p99: float
    most: float
    most_rank: int
    slow_rank: int
    slow_ratio: float


class Paces:
    """The seconds a step in the last reports of an attempt's ranks, and their lags.

    Attributes:
        skew: the number of steps between two reports of the leading rank, at least one.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, float]] = {}
        self._paces: dict[int, deque[float]] = {}
        self._lags: deque[float] = deque(maxlen=_LAGS)
        self._lagged_at = -math.inf
        self._front: int | None = None
        self._strides: dict[int, int] = {}
        self.skew = 1.0
        self._times: StepTimes | None = None
        self._stale = False
        self._living: frozenset[int] = frozenset()

    def reported(self, rank: int, step: int, time: float) -> float | None:
        """Add a report; return the seconds a step since the rank's last one, None if unknown."""
        before, then = self._last.get(rank, (step, time))
        self._last[rank] = step, time
        self._compare(time)
        if step <= before or time <= then:
            return None
        pace = (time - then) / (step - before)
        self._strides[rank] = step - before
        self._paces.setdefault(rank, deque(maxlen=_EACH)).append(pace)
        self._stale = True
        return pace

    def lag(self, rank: int) -> float | None:
        """The number of steps that a rank is behind the front; None if it reports no steps."""
        last = self._last.get(rank)
        return None if last is None else behind(last[0], self._front, self.skew)

    def pace(self, rank: int) -> float | None:
        """The median of a rank's last seconds a step; None if there are none."""
        own = self._paces.get(rank)
        return median(own) if own else None

    @property
    def lags(self) -> tuple[float, ...]:
        """The lag of the slowest rank, once a second, oldest first; empty if only one rank reports."""
        return tuple(self._lags)

    def times(self, living: frozenset[int] = frozenset()) -> StepTimes | None:
        """The seconds a step over the living ranks, or over all if none of these has reported two steps.

        One that has ended is no slow rank, whatever its steps took.
        """
        if self._stale or living != self._living:
            some = {rank: own for rank, own in self._paces.items() if rank in living}
            self._times = step_times(some or self._paces)
            self._stale, self._living = False, living
        return self._times

    def _compare(self, time: float) -> None:
        """Compare the ranks' steps, once a second of the reports' time."""
        if time < self._lagged_at + _LAG_S:
            return
        self._lagged_at = time
        steps = [step for step, _ in self._last.values()]
        self._front = max(steps)
        first = max(self._last, key=lambda rank: self._last[rank][0])
        pace = self.pace(first)
        self.skew = float(max(1 + (_REPORTS_S / pace if pace else 0.0), self._strides.get(first, 0)))
        if len(steps) > 1:
            # compared with the median: when the first rank reports a step, the others have not yet
            self._lags.append(max(median(steps) - min(steps), 0.0))


def step_times(paces: Mapping[int, Sequence[float]]) -> StepTimes | None:
    """The statistics of the ranks' last paces, of many ranks fewer of each; None if there are no paces."""
    each = max(_ALL // max(len(paces), 1), _LEAST)
    last = {rank: list(own)[-each:] for rank, own in paces.items() if own}
    every = sorted(pace for own in last.values() for pace in own)
    if not every:
        return None
    overall = median(every)
    most_rank = max(last, key=lambda rank: (max(last[rank]), -rank))
    slowest, slow = max((median(own), -rank) for rank, own in last.items())
    return StepTimes(
        p50=overall,
        p99=percentile(every, 0.99),
        most=every[-1],
        most_rank=most_rank,
        slow_rank=-slow,
        slow_ratio=slowest / overall,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least of the ordered values that is not less than a `share` (0 to 1) of them."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def behind(step: int | None, front: int | None, skew: float) -> float | None:
    """The number of steps that a rank is behind the front of the gang; None if either step is unknown.

    Up to `skew` steps count as 0: they pass between two reports, and ranks do not all report at once.
    """
    if step is None or front is None:
        return None
    return float(front - step) if front - step > skew else 0.0


def furthest_behind(lags: Iterable[tuple[int, float | None]]) -> tuple[int, float] | None:
    """The rank that is the most steps behind, and how many; None if no rank is behind."""
    known = [(lag, -rank) for rank, lag in lags if lag]
    lag, rank = max(known, default=(0.0, 0))
    return (-rank, lag) if lag else None
