"""States on the way through a run: facts exactly, of its samples the last ones of each host and rank."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from launcher.state.run_state import RunState

from .course import Course, fold_dated, together
from .samples import Samples

MOST_RANKS, MOST_STATES = 32_768, 256
"""How many ranks all states together have at most, about, and how many states there are at most."""

NEAR_PIECES = 8
_RANKS_A_PIECE, _MOST_AT_ONCE = 64, 16
"""Of a large gang more pieces are skimmed at once: one alone has little that is said twice."""


class PastStates:
    """The states where pieces of samples begin. Of a long run only some are kept, evenly spaced."""

    def __init__(self, course: Course, samples: Samples, *, most: int = MOST_RANKS) -> None:
        self._course, self._samples, self._most = course, samples, most
        self._numbers: list[int] = []
        self._states: list[RunState] = []
        self._apart = 1
        self._front: tuple[int, RunState] | None = None
        self._generation, self._counted = -1, -1

    @property
    def done(self) -> int:
        """Up to which piece all have been skimmed."""
        return self._front[0] if self._front else 0

    def advance(self) -> bool:
        """Skim some more pieces; return whether any are left. When pieces were found anew, begin again."""
        pieces = self._samples.pieces
        if not pieces:
            return False
        if self._generation != self._samples.generation:
            self._generation, self._front, self._apart = self._samples.generation, None, 1
            self._numbers, self._states = [], []
        number, state = self._front or (0, self._course.state_at(pieces[0].begin))
        at_once = min(max(len(state.ranks) // _RANKS_A_PIECE, 1), _MOST_AT_ONCE)
        if number + at_once >= len(pieces):  # the last ones are always read
            return False
        self._counted += 1
        if self._counted % self._apart == 0:
            self._keep(number, state)
        self._front = number + at_once, self._after(number, number + at_once, state)
        return True

    def before(self, number: int, give_up: Callable[[], bool] | None = None) -> tuple[RunState, bool]:
        """The state where a piece begins, and whether it is exact; if not, facts without samples made it.

        It is not if too much had to be read. With `give_up`, that is read unless it returns True.
        """
        pieces = self._samples.pieces
        nearest, state = self._nearest(number)
        if number - nearest > NEAR_PIECES and give_up is None:
            return self._course.state_at(pieces[number].begin), False
        for each in range(nearest, number, _MOST_AT_ONCE):
            state = self._after(each, min(each + _MOST_AT_ONCE, number), state)
            if give_up is not None and give_up():
                return state, False
        return state, True

    def _nearest(self, number: int) -> tuple[int, RunState]:
        """The last piece up to this one whose state is known, and that state."""
        if self._generation == self._samples.generation and self._front is not None:
            if self._front[0] <= number:
                return self._front
            if (at := bisect_right(self._numbers, number) - 1) >= 0:
                return self._numbers[at], self._states[at]
        return 0, self._course.state_at(self._samples.pieces[0].begin)

    def _after(self, first: int, last: int, state: RunState) -> RunState:
        """The state where a piece begins, from that where an earlier one does."""
        pieces = self._samples.pieces
        facts = self._course.between(pieces[first].begin, pieces[last].begin)
        return fold_dated(state, together(facts, self._samples.skim(first, last)))

    def _keep(self, number: int, state: RunState) -> None:
        self._numbers.append(number)
        self._states.append(state)
        if len(self._numbers) > max(min(self._most // max(len(state.ranks), 1), MOST_STATES), 8):
            self._apart *= 2
            self._numbers, self._states = self._numbers[::2], self._states[::2]
