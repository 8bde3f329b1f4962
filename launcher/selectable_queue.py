"""A queue between threads that a selector can wait for. Standard library only: agents use it too."""

from __future__ import annotations

import os
import threading
from typing import Generic, TypeVar

T = TypeVar("T")


class SelectableQueue(Generic[T]):
    """Any thread puts items, one thread takes them, in order. Readable while it holds items."""

    def __init__(self, limit: int | None = None) -> None:
        """Make an empty queue.

        Args:
            limit: how many items it holds; further items are dropped. None for any number.
        """
        self._limit = limit
        self._lock = threading.RLock()  # a signal handler may put while its thread holds the lock
        self._items: list[T] = []
        self._woken = False
        self._event = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def fileno(self) -> int:
        """The descriptor for a selector; -1 after `close`."""
        return self._event

    def put(self, *items: T) -> None:
        """Add items; after `close` they are dropped."""
        with self._lock:
            if items and self._event >= 0:
                room = len(items) if self._limit is None else max(0, self._limit - len(self._items))
                self._items += items[:room]
                self.wake()

    def wake(self) -> None:
        """Make it readable without an item: its owner has something to do."""
        with self._lock:
            if self._event >= 0 and not self._woken:
                os.eventfd_write(self._event, 1)
                self._woken = True

    def take(self) -> list[T]:
        """Remove and return all items."""
        with self._lock:
            if self._event >= 0 and self._woken:
                os.eventfd_read(self._event)
            self._woken = False
            taken, self._items = self._items, []
        return taken

    def close(self) -> None:
        """Accept no more items; those in the queue can still be taken."""
        with self._lock:
            if self._event >= 0:
                os.close(self._event)
            self._event = -1
