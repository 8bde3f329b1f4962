"""Whether a run's record is still there while the run goes on: people delete what is being written."""

from __future__ import annotations

import time
from pathlib import Path

from launcher.runs import paths


class Presence:
    """Looks for one run's record.

    Attributes:
        seen: when it was last there.
    """

    def __init__(self, run: Path) -> None:
        self.seen = time.time()
        self._facts = run / paths.EVENTS

    def gone(self) -> bool:
        """Whether somebody has deleted it."""
        if not self._facts.exists():
            return True
        self.seen = time.time()
        return False


def deleted_line(seen: float) -> str:
    """That a run's record was deleted, which was last there at `seen`."""
    at = time.strftime("%H:%M:%S", time.localtime(seen))
    return f"the run's record was deleted while it ran: output and verdict after {at} are lost"
