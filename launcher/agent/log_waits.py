"""Which ranks wait for their output to be read, because they write more than the engine takes."""

from __future__ import annotations

import array
import fcntl
import math
import select
import termios
from collections.abc import Iterable, Iterator

LOOK_S = 0.5
# A write of so many bytes or fewer is never split, and waits until there is room for all of it.
_ROOM = select.PIPE_BUF


class LogWaits:
    """Finds ranks whose pipe is full twice in a row, `LOOK_S` seconds apart.

    Only a rank whose pipe has been full can wait, and pipes fill only while nobody reads them: it looks from
    `begin` on, until no pipe is full any more.
    """

    def __init__(self) -> None:
        self._due = math.inf
        self._full: frozenset[int] = frozenset()
        self._told: frozenset[int] = frozenset()

    def begin(self, now: float) -> None:
        """Look from now on: the ranks are not read."""
        self._due = min(self._due, now + LOOK_S)

    def timeout(self, now: float) -> float | None:
        """Seconds until it has something to do; None: never."""
        return None if self._due == math.inf else max(0.0, self._due - now)

    def look(self, now: float, pipes: Iterable[tuple[int, int]]) -> Iterator[tuple[int, bool]]:
        """The ranks that wait from now on, or no longer wait, if it is time to look.

        Args:
            now: monotonic time.
            pipes: the ranks and the descriptors of their pipes.
        """
        if now < self._due:
            return
        full = frozenset(rank for rank, descriptor in pipes if is_full(descriptor))
        waiting, before = full & self._full, self._told
        self._full, self._told = full, waiting
        self._due = now + LOOK_S if full or waiting else math.inf
        yield from ((rank, True) for rank in sorted(waiting - before))
        yield from ((rank, False) for rank in sorted(before - waiting))


def is_full(descriptor: int) -> bool:
    """Whether a pipe has no room for a small write."""
    held = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, held)
    return held[0] > fcntl.fcntl(descriptor, fcntl.F_GETPIPE_SZ) - _ROOM
