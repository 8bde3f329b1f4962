"""The course of a run: its facts by the moment at which they count, and the state at any moment. Pure.

A fact's moment is its time, but never before that of an earlier fact: clocks of hosts differ and may go back,
and a state is the fold of facts in the order in which they were written. Times in the future count for
nothing, so that one wrong fact does not hide all that follow it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from heapq import merge
from math import inf, isfinite
from typing import NamedTuple

from launcher.state.events import Event
from launcher.state.fold import fold
from launcher.state.run_state import RunState

EVERY = 256
MOST_KEPT = 128


class Dated(NamedTuple):
    """A fact and the moment at which it counts."""

    moment: float
    fact: Event


class Clock:
    """Gives facts their moments.

    Args:
        start: the moment before the first fact.
        latest: times after it are wrong.
    """

    def __init__(self, start: float = 0.0, latest: float = inf) -> None:
        self.moment, self.latest = start, latest

    def date(self, fact: Event) -> Dated:
        """The next fact, with its moment."""
        if isfinite(fact.time) and self.moment < fact.time <= self.latest:
            self.moment = fact.time
        return Dated(self.moment, fact)


def together(*parts: Iterable[Dated]) -> Iterable[Dated]:
    """Facts of several sources in the order of their moments; of equal moments, those of the first source."""
    return merge(*parts, key=lambda each: each.moment)


def fold_dated(state: RunState, facts: Iterable[Dated]) -> RunState:
    """The state after these facts."""
    for each in facts:
        state = fold(state, each.fact)
    return state


class Course:
    """Facts by their moments, with states that are kept on the way, so that any state is near to one.

    `count` is how many facts there are. At most `most` states are kept: where there are more facts, the
    states stand further apart.
    """

    def __init__(self, run: str = "", *, every: int = EVERY, most: int = MOST_KEPT) -> None:
        self._run, self._every, self._most = run, every, most
        self._facts: list[Dated] = []
        self._kept: list[RunState] = [RunState(id=run)]

    def __len__(self) -> int:
        return len(self._facts)

    def add(self, facts: Iterable[Dated]) -> None:
        """Append facts; their moments are not before those of earlier ones."""
        self._facts += facts

    @property
    def facts(self) -> Sequence[Dated]:
        """All facts."""
        return self._facts

    def count(self, moment: float) -> int:
        """How many facts count at a moment."""
        return bisect_right(self._facts, moment, key=lambda each: each.moment)

    def back(self, moment: float, count: int) -> float:
        """The moment before which there are all but the last `count` facts of those at a moment."""
        at = self.count(moment) - count
        return self._facts[at].moment if at > 0 else -inf

    def between(self, after: float, until: float) -> list[Dated]:
        """The facts after one moment, up to another."""
        return self._facts[self.count(after) : self.count(until)]

    def state_at(self, moment: float) -> RunState:
        """The state at a moment: the fold of all facts that count by then."""
        count = self.count(moment)
        self._keep_up_to(count)
        nearest = min(count // self._every, len(self._kept) - 1)
        return fold_dated(self._kept[nearest], self._facts[nearest * self._every : count])

    def _keep_up_to(self, count: int) -> None:
        while len(self._kept) * self._every <= count:
            start = (len(self._kept) - 1) * self._every
            self._kept.append(fold_dated(self._kept[-1], self._facts[start : start + self._every]))
            if len(self._kept) > self._most:
                self._every, self._kept = self._every * 2, self._kept[::2]


def state_at(facts: Iterable[Event], moment: float, *, run: str = "") -> RunState:
    """The state at a moment, of a run with these facts in the order in which they were written."""
    clock, course = Clock(), Course(run)
    course.add(clock.date(fact) for fact in facts)
    return course.state_at(moment)
