"""Fewer and larger turns for a loop that is woken all the time. Standard library only: ranks use it too."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Sequence
from typing import Protocol


class HasFileno(Protocol):
    """What `poll` can wait for."""

    def fileno(self) -> int:
        """The descriptor."""


class Allowance:
    """Allows something once in `every_s` seconds on average; what was not used is saved, up to `at_most`."""

    def __init__(self, every_s: float, at_most: int) -> None:
        self._every_s, self._at_most = every_s, float(at_most)
        self._saved, self._then = self._at_most, -math.inf

    def take(self, now: float) -> bool:
        """Use one, by the monotonic time; False if none is left."""
        self._saved = min(self._saved + (now - self._then) / self._every_s, self._at_most)
        self._then = now
        if self._saved < 1.0:
            return False
        self._saved -= 1.0
        return True


class TurnPacer:
    """Delays the turns of a busy loop, so that each handles more.

    A wake-up costs as much as handling some hundred lines: the process has to be scheduled, and finds its
    memory out of the caches. So turns that handle little begin at intervals, but for as many as have been
    saved up while there were fewer. After a turn that handles much, turns follow each other closely for as
    long as an interval: those who send must not wait.
    """

    def __init__(
        self,
        pause_s: float,
        at_once: int,
        *,
        much: int,
        busy_pause_s: float,
        urgent: Sequence[int | HasFileno] = (),
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        """Make a pacer that has saved up all it may.

        Args:
            pause_s: between the beginnings of two turns.
            at_once: how many turns are saved up at most, one for each `pause_s`.
            much: the bytes of a turn after which the pause is `busy_pause_s` for the next `pause_s` seconds.
            busy_pause_s: the same while much is handled.
            urgent: descriptors whose news end a delay.
            clock, sleep: for tests.
        """
        self._pause_s, self._much, self._busy_pause_s = pause_s, much, busy_pause_s
        self._allowance = Allowance(pause_s, at_once)
        self._clock, self._sleep = clock, sleep or self._wait
        self._began_at = self._busy_until = -math.inf
        self._urgent = select.poll()
        for each in urgent:
            self._urgent.register(each, select.POLLIN)

    def gather(self) -> None:
        """Call it when a turn has something to handle, and before that is read."""
        now = self._clock()
        pause_s = self._busy_pause_s if now < self._busy_until else self._pause_s
        if not self._allowance.take(now) and now - self._began_at < pause_s:
            self._sleep(pause_s - (now - self._began_at))
            now = self._clock()
            self._allowance.take(now)  # what was waited for is not saved
        self._began_at = now

    def handled(self, amount: int) -> None:
        """Call it with the bytes that a turn has handled."""
        if amount >= self._much:
            self._busy_until = self._began_at + self._pause_s

    def _wait(self, seconds: float) -> None:
        self._urgent.poll(seconds * 1000)
