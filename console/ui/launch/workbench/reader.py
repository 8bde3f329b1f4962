"""Reads the folder for trainings on a thread of its own, which can be stopped and holds up no exit."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

from ....data.launch.targets import Candidate

Publish = Callable[[tuple[Candidate, ...], bool], None]
_FRESH_S = 30.0


class FolderReader:
    """Publishes what is known so far, and at last all, with True. A daemon: a file system may not answer."""

    def __init__(self, folder: Path, publish: Publish, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._publish, self._clock = folder, publish, clock
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._read_at: float | None = None

    def start(self) -> None:
        """Read, unless it is being read or was read a moment ago."""
        fresh = self._read_at is not None and self._clock() - self._read_at < _FRESH_S
        if fresh or (self._thread is not None and self._thread.is_alive() and not self._stop.is_set()):
            return
        self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._read, args=(self._stop,), name="rankdeck-find", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop reading; what was found is kept."""
        self._stop.set()

    def _read(self, stop: threading.Event) -> None:
        from ....data.launch.trainings import find_trainings  # the form is shown before

        found: tuple[Candidate, ...] = ()
        for found in find_trainings(self._folder, stop.is_set):
            if stop.is_set():
                return
            self._publish(found, False)
        if not stop.is_set():
            self._read_at = self._clock()
            self._publish(found, True)
