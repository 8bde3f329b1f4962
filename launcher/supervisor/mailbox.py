"""Between a run's own thread and everybody else's: requests go in, news goes out."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..selectable_queue import SelectableQueue
from ..state.events import Event


class Mailbox:
    """Requests that wake a selector loop, and a version number that waiting threads watch.

    `post`, `wait_for_news`, `done` are for any thread; the rest is the loop's.
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
        """Leave a request, or a fact to be recorded, and wake the loop; after the end it has no effect."""
        self._requests.put(request)

    def take(self) -> list[Event]:
        """The requests and facts so far."""
        return self._requests.take()

    def tell(self) -> None:
        """Something new is in the folder."""
        with self._news:
            self._version += 1
            self._news.notify_all()
        for watcher in self._watchers:
            watcher()

    def watch(self, watcher: Callable[[], None]) -> None:
        """Have this called, on the loop's thread, whenever there is something new. It must not wait."""
        with self._news:
            self._watchers = (*self._watchers, watcher)

    def unwatch(self, watcher: Callable[[], None]) -> None:
        """Call it no more."""
        with self._news:
            self._watchers = tuple(w for w in self._watchers if w != watcher)

    def wait_for_news(self, seen: int, timeout: float | None = None) -> int:
        """Block until something is newer than version `seen`, or the run or the time is over."""
        with self._news:
            self._news.wait_for(lambda: self._version != seen or self.done.is_set(), timeout)
            return self._version

    def close(self) -> None:
        """No more requests; everybody who waits is woken."""
        with self._news:
            self.done.set()
            self._requests.close()
            self._version += 1
            self._news.notify_all()
