"""How long steps take, over ranks and over their last reports, and how far ranks are behind. Pure."""

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
        p50, p99, most: over all ranks and their last reports.
        most_rank: whose step took the most.
        slow_rank: whose own middle is the greatest.
        slow_ratio: that middle against the one of all.
    """

    p50: float
    p99: float
    most: float
    most_rank: int
    slow_rank: int
    slow_ratio: float


class Paces:
    """What the ranks of one attempt reported of their steps, kept short.

    Attributes:
        skew: how many steps pass between two reports of the rank that is first, and at least one.
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

    def reported(self, rank: int, step: int, time: float) -> float | None:
        """Take in a report; the seconds a step since the one before, if it tells them."""
        before, then = self._last.get(rank, (step, time))
        self._last[rank] = step, time
        self._look_around(time)
        if step <= before or time <= then:
            return None
        pace = (time - then) / (step - before)
        self._strides[rank] = step - before
        self._paces.setdefault(rank, deque(maxlen=_EACH)).append(pace)
        self._stale = True
        return pace

    def lag(self, rank: int) -> float | None:
        """How many steps a rank is behind the front; None if it reports none."""
        last = self._last.get(rank)
        return None if last is None else behind(last[0], self._front, self.skew)

    def pace(self, rank: int) -> float | None:
        """The middle of a rank's last seconds a step; None before it has told any."""
        own = self._paces.get(rank)
        return median(own) if own else None

    @property
    def lags(self) -> tuple[float, ...]:
        """How far the last rank was behind, once a second, oldest first; only where several ranks report."""
        return tuple(self._lags)

    @property
    def times(self) -> StepTimes | None:
        """How long steps take; None before any rank has reported two."""
        if self._stale:
            self._times, self._stale = step_times(self._paces), False
        return self._times

    def _look_around(self, time: float) -> None:
        """Compare the ranks, once a second of their own time."""
        if time < self._lagged_at + _LAG_S:
            return
        self._lagged_at = time
        steps = [step for step, _ in self._last.values()]
        self._front = max(steps)
        first = max(self._last, key=lambda rank: self._last[rank][0])
        pace = self.pace(first)
        self.skew = float(max(1 + (_REPORTS_S / pace if pace else 0.0), self._strides.get(first, 0)))
        if len(steps) > 1:
            # against the middle, for here whoever reports first in a second is not yet followed by the others
            self._lags.append(max(median(steps) - min(steps), 0.0))


def step_times(paces: Mapping[int, Sequence[float]]) -> StepTimes | None:
    """What the last paces of each rank come to; of many ranks fewer are looked at. None if there are none."""
    each = max(_ALL // max(len(paces), 1), _LEAST)
    last = {rank: list(own)[-each:] for rank, own in paces.items() if own}
    every = sorted(pace for own in last.values() for pace in own)
    if not every:
        return None
    middle = median(every)
    most_rank = max(last, key=lambda rank: (max(last[rank]), -rank))
    own_middle, slow = max((median(own), -rank) for rank, own in last.items())
    return StepTimes(
        p50=middle,
        p99=percentile(every, 0.99),
        most=every[-1],
        most_rank=most_rank,
        slow_rank=-slow,
        slow_ratio=own_middle / middle,
    )


def percentile(ordered: Sequence[float], share: float) -> float:
    """The least of some ordered values that at least this share of them does not exceed."""
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def behind(step: int | None, front: int | None, skew: float) -> float | None:
    """How many steps a rank is behind the front of the gang; None if either is not known.

    Ranks never report all at once: as few as `skew` steps, which pass between two reports, are none at all.
    """
    if step is None or front is None:
        return None
    return float(front - step) if front - step > skew else 0.0


def furthest_behind(lags: Iterable[tuple[int, float | None]]) -> tuple[int, float] | None:
    """The rank that is the most steps behind, and how many; None if no rank is behind at all."""
    known = [(lag, -rank) for rank, lag in lags if lag]
    lag, rank = max(known, default=(0.0, 0))
    return (-rank, lag) if lag else None
