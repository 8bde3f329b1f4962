"""The marks between the attempts of a run, in its merged log and in what commands print. Pure.

Commands print them without the log view's index and search.
"""

from __future__ import annotations

from ...sanitize import plain


def attempt_mark(attempt: int, reason: str) -> str:
    """The line before an attempt's output, with the reason for the restart if known."""
    why = plain(reason.encode(errors="replace"))
    return f"── attempt {attempt}{f' ({why})' if why else ''} ──"
