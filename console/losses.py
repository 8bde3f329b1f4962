"""What a run folder has not taken, in words. Pure."""

from __future__ import annotations

from launcher.events import RecordingStopped, RecordsLost
from launcher.state import RunState


def stopped_line(stopped: RecordingStopped) -> str:
    """That the folder takes no more, and why."""
    return f"recording stopped: {stopped.reason}; the training goes on"


def lost_line(lost: RecordsLost) -> str:
    """How much was not recorded; empty if nothing was lost."""
    parts = [
        f"{count:,} {what}"
        for count, what in (
            (lost.output_bytes, "bytes of output"),
            (lost.result_bytes, "bytes of return values"),
            (lost.facts, "facts"),
        )
        if count
    ]
    return f"not recorded: {', '.join(parts)}" if parts else ""


def record_line(state: RunState) -> str:
    """The one thing to know of a run's record; empty where it is complete."""
    if state.recording is not None and not state.phase.final:
        return stopped_line(state.recording)
    lost = lost_line(state.lost) if state.lost else ""
    if state.recording is None:
        return lost
    return f"{lost or 'recording stopped'} ({state.recording.reason})"
