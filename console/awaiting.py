"""Waiting for the end of a run that another process owns, by looking at its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from console.sources.presence import Presence, deleted_line
from launcher.errors import RecordError
from launcher.runs.reader import status_of
from launcher.runs.status import Status

POLL_S = 0.1


def until_ended(folder: Path, advance: Callable[[], None] = lambda: None) -> Status:
    """Look again and again until the run has ended; its last status. `advance` is called in between.

    Raises:
        RecordError: the folder cannot be read, or was deleted meanwhile.
    """
    presence = Presence(folder)
    status = status_of(folder)
    while not status.state.final:
        advance()
        if status.unreadable is not None and not status.owner.pid:
            raise RecordError(f"nothing tells when run {folder.name} ends: unreadable: {status.unreadable}")
        time.sleep(POLL_S)
        if presence.gone():
            raise RecordError(deleted_line(presence.seen), run=folder.name)
        status = status_of(folder)
    return status
