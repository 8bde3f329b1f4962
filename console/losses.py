"""What a run folder has not taken, and what of it cannot be read, in words. Pure."""

from __future__ import annotations

from launcher.events import PartUnreadable, RecordingStopped, RecordsLost
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


def unreadable_line(part: PartUnreadable) -> str:
    """What cannot be read, and why."""
    return f"unreadable: {part.file}{_places(part)}" + (f" ({part.reason})" if part.reason else "")


def _places(part: PartUnreadable) -> str:
    """Which lines of a file, or records, as far as they are known by number."""
    what = "record" if part.file.endswith("/chunks") else "line"
    more = part.count - len(part.lines)
    if not part.count:
        return ""
    if not part.lines:
        return f", {part.count:,} {what}{'s' * (part.count > 1)}"
    numbers = ", ".join(map(str, part.lines))
    return f" {what}{'s' * (part.count > 1)} {numbers}" + (f" and {more:,} more" if more else "")


def newer_line(count: int) -> str:
    """That a newer version wrote what this one does not know; empty if there is nothing of the kind."""
    return f"{count:,} fact{'s' * (count > 1)} of a newer version were skipped" if count else ""


def unreadable_lines(state: RunState) -> list[str]:
    """What of a run's folder could not be read."""
    return [*map(unreadable_line, state.unreadable), *filter(None, [newer_line(state.newer)])]


def record_line(state: RunState) -> str:
    """All that there is to know of a run's record, in one line; empty where it is complete."""
    return "; ".join(filter(None, [_kept_line(state), *unreadable_lines(state)]))


def _kept_line(state: RunState) -> str:
    """What the folder has not taken."""
    if state.recording is not None and not state.phase.final:
        return stopped_line(state.recording)
    lost = lost_line(state.lost) if state.lost else ""
    if state.recording is None:
        return lost
    return f"{lost or 'recording stopped'} ({state.recording.reason})"
