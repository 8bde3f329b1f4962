"""The exchange between a run's own thread and all others: requests in, notifications out."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..selectable_queue import SelectableQueue
from ..state.events import Event


class Mailbox:
    """Requests that wake a selector loop, and a version number that waiting threads watch.

    Any thread may use `post`, `wait_for_news`, `watch`, `unwatch` and `done`; the rest is for the loop.
    """

    def __init__(self) -> None:
        self.done = threading.Event()
        self._requests: SelectableQueue[Event] = SelectableQueue()
        self._news = threading.Condition()
        self._version = 0
        self._watchers: tuple[Callable[[], None], ...] = ()

    def fileno(self) -> int:
        """Readable while there are requests."""
        return self._requests.fileno()

    def post(self, request: Event) -> None:
        """Queue a request, or a fact to be recorded, and wake the loop; no effect after the end."""
        self._requests.put(request)

    def take(self) -> list[Event]:
        """Remove and return the queued requests and facts."""
        return self._requests.take()

    def notify(self) -> None:
        """Wake waiting threads and call the watchers: the folder has something new."""
        with self._news:
            self._version += 1
            self._news.notify_all()
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have `watcher` called at each `notify`, on the loop's thread. It must not block."""
        with self._news:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Stop calling `watcher`."""
        with self._news:
            self._watchers = tuple(w for w in self._watchers if w != watcher)

    def wait_for_news(self, seen: int, timeout: float | None = None) -> int:
        """Block until the version differs from `seen`, the run ends or time is up; return the version."""
        with self._news:
            self._news.wait_for(lambda: self._version != seen or self.done.is_set(), timeout)
            return self._version

    def close(self) -> None:
        """Accept no more requests, and wake all waiting threads."""
        with self._news:
            self.done.set()
            self._requests.close()
            self._version += 1
            self._news.notify_all()
