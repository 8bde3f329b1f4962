"""What a backend's own threads have to tell the run's loop: a queue that a selector can wait for."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class Newsbox(Generic[T]):
    """Items go in from any thread and come out in the loop's, in order. Readable while something is in it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._items: list[T] = []
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor for a selector."""
        return self._event

    def put(self, *items: T) -> None:
        """Leave items; after `close` they are dropped."""
        with self._lock:
            if items and self._event >= 0:
                self._items += items
                os.eventfd_write(self._event, 1)

    def wake(self) -> None:
        """Make it readable without an item: its owner has something to do."""
        with self._lock:
            if self._event >= 0:
                os.eventfd_write(self._event, 1)

    def take(self) -> list[T]:
        """All that has been left since the last time."""
        with self._lock:
            if self._event >= 0:
                with contextlib.suppress(BlockingIOError):
                    os.eventfd_read(self._event)
            taken, self._items = self._items, []
        return taken

    def close(self) -> None:
        """Nobody takes any more."""
        with self._lock:
            if self._event >= 0:
                os.close(self._event)
            self._event = -1
