"""What an engine puts in order now and then: idle sessions, and what runs have left behind."""

from __future__ import annotations

import logging
import threading
from pathlib import Path
from typing import Protocol

from launcher import settings
from launcher.engine_address import sweep
from launcher.errors import LauncherError
from launcher.runs.paths import runs_root

log = logging.getLogger("rankdeck.engine")


class Tended(Protocol):
    """Sessions that end by themselves when nobody needs them."""

    def tend(self) -> None:
        """Let go of what has been idle for too long."""


class Tidying:
    """Works on a thread of its own, one round at a time.

    Args:
        folder: where engines have their sockets; names that dead ones left there go.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._first = True
        self._unpruned = True
        self._thread: threading.Thread | None = None

    def run_ended(self) -> None:
        """There is one more folder, so that older ones may have to go."""
        self._unpruned = True

    def start(self, sessions: Tended | None) -> None:
        """Begin a round, unless the last one goes on."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(
                target=self._round, args=(sessions,), name="rankdeck-tidy", daemon=True
            )
            self._thread.start()

    def _round(self, sessions: Tended | None) -> None:
        from launcher.runs import mending, retention  # here: a client waits for the engine that starts

        try:
            if sessions is not None:
                sessions.tend()
            if self._first:
                self._first = False
                sweep(self._folder)
                mending.bury_all(runs_root())
            if self._unpruned:
                self._unpruned = False  # before it, for the run that ends meanwhile
                retention.prune(runs_root(), settings.load().retention)
        except (OSError, LauncherError):
            log.exception("could not tidy up")
