"""A thread that looks now and then, at once when somebody waits, and not at all while nobody does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def told() -> Iterator[None]:
    """Tell what fails in here to `threading.excepthook`, and let the thread go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  a thread that ends shows no more, and says nothing
        args = (type(error), error, error.__traceback__, threading.current_thread())
        threading.excepthook(threading.ExceptHookArgs(args))


class Poller:
    """Calls `look` in a thread of its own until closed.

    A daemon, because what is looked at may never answer: a driver, a file system. A look that fails is told
    as what fails in a thread is, and does not end it; `finish` is called in the same thread after the last.
    """

    def __init__(
        self,
        look: Callable[[], None],
        interval_s: float,
        *,
        name: str,
        finish: Callable[[], None] = lambda: None,
    ) -> None:
        self._look, self._interval_s, self._finish = look, interval_s, finish
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
        """Look no more until told to."""
        self._resting = True

    def resume(self) -> None:
        """Look now, and go on."""
        self._resting = False
        self._wake.set()

    def close(self) -> None:
        """End; a look that has begun is not waited for."""
        self._closed.set()
        self._wake.set()

    @property
    def closed(self) -> bool:
        """Whether what a look finds is wanted no more."""
        return self._closed.is_set()

    def _run(self) -> None:
        while not self._closed.is_set():
            self._wake.clear()
            if not self._resting:
                with told():
                    self._look()
            self._wake.wait(None if self._resting else self._interval_s)
        self._finish()
