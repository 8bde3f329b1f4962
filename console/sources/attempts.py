"""Where another attempt begins in a run's output: one line that no rank can have written."""

from __future__ import annotations

from console.sources.cleaning import plain
from launcher.events import GangRestarted


def attempt_mark(attempt: int, restart: GangRestarted | None) -> str:
    """The line before an attempt's output, with the reason for the restart where it is known."""
    reason = plain(restart.reason.encode(errors="replace")) if restart else ""
    return f"── attempt {attempt}{f' ({reason})' if reason else ''} ──"
