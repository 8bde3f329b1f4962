"""Calling a person to a terminal in which a command has watched a run to its end."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from launcher.errors import LauncherError
from launcher.notify.settings import load
from launcher.runs.reader import read_state
from launcher.state.run_state import RunState

from ..attention import call_of
from ..echo import call_person


def call_at_end(state: RunState) -> None:
    """Ring, or ask for a desktop notification, as ``[notify]`` says and where there is a terminal."""
    if not state.phase.final or not sys.stdout.isatty():
        return
    from launcher.notify.notice import end_notice

    notice = end_notice(state)
    call_person(call_of(load(), notice.kind, notice.text, os.environ))


def call_at_end_of(folder: Path) -> None:
    """The same for a run that was read from its folder."""
    if sys.stdout.isatty():
        try:
            state = read_state(folder)
        except LauncherError:  # the command has said so
            return
        call_at_end(state)
