"""Whether work grows in a straight line with its size, by processor time: other work does not matter."""

from __future__ import annotations

import time
from collections.abc import Callable

_FACTOR, _SLACK, _TRIES = 8, 3.0, 3


def grows_in_a_straight_line(work: Callable[[int], object], size: int) -> bool:
    """Whether eight times the size takes at most 24 times as long; what is quadratic takes 64 times."""
    small = min(_spent_s(work, size // _FACTOR) for _ in range(_TRIES))
    return any(_spent_s(work, size) <= _FACTOR * _SLACK * small for _ in range(_TRIES))


def _spent_s(work: Callable[[int], object], size: int) -> float:
    began = time.process_time()
    work(size)
    return time.process_time() - began
