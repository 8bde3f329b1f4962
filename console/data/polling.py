"""Looking again and again at something, in a thread, and publishing what has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Poller(Generic[T]):
    """Reads in a thread of its own until closed, and publishes what differs from what it published last.

    `read` gives what is there now: one value, several where the first is worth showing before the rest is
    read, none where nothing can have changed. A daemon thread, because what is read may never answer: a
    driver, a file system. A read that fails is reported as what fails in a thread is, and does not end it.
    """

    def __init__(
        self,
        read: Callable[[], Iterable[T]],
        publish: Callable[[T], None],
        interval: float | Callable[[float], float],
        *,
        name: str,
        last: T | None = None,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        """Make one that does not look yet.

        Args:
            read: what is there now.
            publish: called with each value that is news, in this poller's thread.
            interval: seconds between looks, or a rule that tells them from the processor time of the last.
            name: of the thread.
            last: what counts as published already.
            finish: called in the same thread after the last look.
        """
        self.last = last
        self._read, self._publish, self._finish = read, publish, finish
        self._interval = interval if callable(interval) else lambda _: interval
        self._wake, self._closed = threading.Event(), threading.Event()
        self._resting = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def nudge(self) -> None:
        """Look now."""
        self._wake.set()

    def rest(self) -> None:
        """Look no more until resumed."""
        self._resting = True

    def resume(self) -> None:
        """Look now, and go on."""
        self._resting = False
        self._wake.set()

    def close(self, wait_s: float = 0.0) -> None:
        """End; a look that has begun is waited for no longer than `wait_s`, and publishes nothing more."""
        self._closed.set()
        self._wake.set()
        if wait_s and self._thread.is_alive():
            self._thread.join(wait_s)

    def look(self) -> None:
        """Read once, in the caller's thread, and publish what is news."""
        for value in self._read():
            if value != self.last and not self._closed.is_set():
                self.last = value
                self._publish(value)

    def forget(self) -> None:
        """Publish what is read next, even if it was published last."""
        self.last = None

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            pause = None if self._resting else self._interval(self._look_safely())
            self._wake.wait(pause)
        self._finish()

    def _look_safely(self) -> float:
        """Look; the processor time that it took."""
        began = time.thread_time()
        try:
            self.look()
        except Exception as error:  # noqa: BLE001  a thread that ends shows no more, and says nothing
            args = (type(error), error, error.__traceback__, threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(args))
        return time.thread_time() - began
