"""Waiting for the end of a run that another process owns, by looking at its folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from launcher.runs.reader import status_of
from launcher.runs.status import Status

POLL_S = 0.1


def until_ended(folder: Path, advance: Callable[[], None] = lambda: None) -> Status:
    """Look again and again until the run has ended; its last status. `advance` is called in between."""
    while not (status := status_of(folder)).state.final:
        advance()
        time.sleep(POLL_S)
    return status
