"""Polling a source in a thread, and publishing its value when it has changed."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

T = TypeVar("T")


class Poller(Generic[T]):
    """Reads in its own thread until closed, and publishes values that differ from the last published one.

    `read` returns the current values: one; several if the first should be shown before the rest is read; none
    if nothing can have changed. The thread is a daemon because a read may never return: it may wait for a
    driver or a file system. An exception of `read` goes to `threading.excepthook`, and polling goes on.
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
        """Make a poller that has not started.

        Args:
            read: returns the current values.
            publish: called with each new value, in this poller's thread.
            interval: seconds between reads, or a function that returns them for the last read's CPU seconds.
            name: the thread's name.
            last: the value that counts as already published.
            finish: called in the same thread after the last read.
        """
        self.last = last
        self._read, self._publish, self._finish = read, publish, finish
        self._interval = interval if callable(interval) else lambda _: interval
        self._wake, self._closed = threading.Event(), threading.Event()
        self._resting = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def nudge(self) -> None:
        """Read now."""
        self._wake.set()

    def rest(self) -> None:
        """Stop reading until resumed."""
        self._resting = True

    def resume(self) -> None:
        """Read now, and go on reading."""
        self._resting = False
        self._wake.set()

    def close(self, wait_s: float = 0.0) -> None:
        """End; wait at most `wait_s` seconds for a read that has begun. It publishes nothing more."""
        self._closed.set()
        self._wake.set()
        if wait_s and self._thread.is_alive():
            self._thread.join(wait_s)

    def look(self) -> None:
        """Read once, in the caller's thread, and publish new values."""
        for value in self._read():
            if value != self.last and not self._closed.is_set():
                self.last = value
                self._publish(value)

    def forget(self) -> None:
        """Publish the next value even if it equals the last published one."""
        self.last = None

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            pause = None if self._resting else self._interval(self._look_safely())
            self._wake.wait(pause)
        self._finish()

    def _look_safely(self) -> float:
        """Read and publish; return the CPU seconds that this took."""
        began = time.thread_time()
        try:
            self.look()
        except Exception as error:  # noqa: BLE001  if the thread ended, the screen would silently stop updating
            args = (type(error), error, error.__traceback__, threading.current_thread())
            threading.excepthook(threading.ExceptHookArgs(args))
        return time.thread_time() - began
