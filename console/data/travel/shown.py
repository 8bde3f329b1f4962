"""What is shown of a run at one moment: its state, the figures of its last minutes, and the alerts then."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from launcher.state.ranks import Rank
from launcher.state.run_state import RunState

from ..run.health import Alarms, AlertInput
from ..run.model import RankView, RankViews
from ..run.progress import Past
from .course import Dated, fold_dated

_LOOKS, _LOOK_S, _LOOKED_RANKS, _SETTLED_RANKS = 20, 1.0, 640, 4096
_THIN_S = 300.0


class ShownMoment:
    """The state and the short histories at a moment, which can only go on. Used by one thread.

    Attributes:
        at: the moment.
        exact: whether the state is that of all facts before it.
        settled: whether the histories are as long as they are to be.
        thinned: whether only some of the samples at this moment were kept.
        written: when ranks wrote their last line, as far as that is known.
    """

    def __init__(
        self,
        state: RunState,
        at: float = -math.inf,
        *,
        exact: bool = False,
        settled: bool = False,
        thinned: bool = False,
    ) -> None:
        self.at, self.state = at, state
        self.exact, self.settled, self.thinned = exact, settled, thinned
        self.past, self.alarms, self._views = Past(), Alarms(), RankViews()
        self.written: Mapping[int, float] = {}

    def advance(
        self, moment: float, facts: Sequence[Dated], give_up: Callable[[], bool] | None = None
    ) -> None:
        """Go on to a later moment; `facts` are those since this one."""
        at = 0
        for look in self._looks(moment):
            count = bisect_right(facts, look, lo=at, key=lambda each: each.moment)
            self._fold(facts[at:count])
            at = count
            self._look(look)
            if give_up is not None and give_up():
                break
        self.at = moment

    def _looks(self, moment: float) -> list[float]:
        """The moments at which alerts are looked at: seconds, of a large gang fewer of them."""
        span = max(min(moment - self.at, _LOOKS * _LOOK_S), 0.0)
        ranks = max(self.state.num_processes, 1)
        most = max((_SETTLED_RANKS if self.settled else _LOOKED_RANKS) // ranks, 1)
        count = max(min(int(span / _LOOK_S), most, _LOOKS), 1)
        return [moment - span * (count - 1 - number) / count for number in range(count)]

    def _fold(self, facts: Sequence[Dated]) -> None:
        self.state = fold_dated(self.state, facts)
        self.past.take([each.fact for each in facts], self.state)

    def _look(self, moment: float) -> None:
        views = self._views_at(moment)
        inputs = [
            AlertInput(v.rank.rank, v.figures, v.step_age, self.past.not_finite(v.rank.rank))
            for v in views
            if v.rank.alive
        ]
        self.alarms.look(moment, inputs)

    @property
    def views(self) -> tuple[RankView, ...]:
        """The views of all ranks."""
        return self._views_at(self.at)

    def _views_at(self, moment: float) -> tuple[RankView, ...]:
        past = self.past
        return self._views.of(
            self._as_new(moment) if self.thinned else self.state,
            now=moment,
            written={rank: at for rank, at in self.written.items() if at <= moment},
            past=past.history,
            step_s=past.step_s,
            life=past.life,
            skew=past.skew,
        )

    def _as_new(self, moment: float) -> RunState:
        """The state as if figures that were thinned were new: else every rank would look silent."""
        ranks = [_as_new(rank, moment) for rank in self.state.ranks if rank.alive]
        return replace(self.state, ranks=self.state.ranks.changed(ranks))

    @property
    def old_s(self) -> int | None:
        """Of how many seconds ago the newest figures are, where only some are kept."""
        times = [rank.sampled_at for rank in self.state.ranks if rank.alive and rank.sampled_at is not None]
        return max(int(self.at - max(times)), 0) if self.thinned and times else None


def _as_new(rank: Rank, moment: float) -> Rank:
    sampled, reported = rank.sampled_at, rank.reported_at
    if sampled is not None and moment - sampled < _THIN_S:
        rank = replace(rank, sampled_at=moment)
    if reported is not None and moment - reported < _THIN_S:
        rank = replace(rank, reported_at=moment)
    return rank
