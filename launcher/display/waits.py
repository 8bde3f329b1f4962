"""Sentences on what a run waits for, and on the limit that will end it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import counted, size_text
from ..state.events import FilesAwaited, LimitNear, SlotsAwaited
from ..state.outcome_rules import listed
from ..state.run_state import RunState


def new_waits(before: RunState, after: RunState) -> Iterator[str]:
    """The slots, files or rows that the run waits for, if that is new in `after`."""
    if after.files is not None and after.files != before.files:
        yield files_line(after.files)
    if awaited_rows_line(after) and not awaited_rows_line(before):
        yield "waiting for rows of the DataFrame"  # other ranks may do so in a moment
    if (line := awaited_log_line(after)) and not awaited_log_line(before):
        yield line
    if after.waiting is None:
        return
    line = waiting_line(after.waiting)
    last = before.waiting if before.attempt == after.attempt else None
    if last is None or line != waiting_line(last):
        yield line


def new_limits(before: RunState, after: RunState) -> Iterator[str]:
    """The limit that is near, if that is new in `after`, or that it no longer is."""
    if after.near is not None and after.near != before.near:
        yield near_line(after.near)
    elif (
        before.near is not None
        and before.near.limit == "progress"
        and after.near is None
        and after.stop is None
    ):
        yield "progress again"


def waiting_line(waiting: SlotsAwaited) -> str:
    """The slots that the run waits for, the time limit and the reason."""
    limit = f", at most {waiting.limit_s:g} s" if waiting.limit_s is not None else ""
    reason = f" ({waiting.reason})" if waiting.reason else ""
    return f"waiting for slots: {waiting.have} of {waiting.need}{limit}{reason}"


def files_line(files: FilesAwaited) -> str:
    """The host that waits for the run's files, and how far they are."""
    others = f", and {counted(files.others, 'more host')} to go" if files.others else ""
    if not files.file:
        return f"{files.host} compares and lays out the run's files{others}"
    what = files.file if files.files == 1 else counted(files.files, "file")
    now = "" if files.files == 1 else f", now {files.file}"
    return f"sending {what} to {files.host}, {size_text(files.sent)} of {size_text(files.size)}{now}{others}"


def waiting_ranks_line(state: RunState) -> str:
    """Which ranks wait for something that is not the target's own; empty for none."""
    return awaited_rows_line(state) or awaited_log_line(state)


def awaited_rows_line(state: RunState) -> str:
    """How many ranks wait for rows of the DataFrame, and how many rows these have had; empty for none."""
    waiting = [rank.awaits_rows for rank in state.ranks if rank.alive and rank.awaits_rows is not None]
    if not waiting:
        return ""
    verb = "waits" if len(waiting) == 1 else "wait"
    after = f", after {sum(waiting):,}" if any(waiting) else ""
    return f"{len(waiting)} of {counted(len(state.ranks), 'rank')} {verb} for rows of the DataFrame{after}"


def awaited_log_line(state: RunState) -> str:
    """Which ranks wait until their output is read; empty for none."""
    waiting = [str(rank.rank) for rank in state.ranks if rank.alive and rank.awaits_log]
    if not waiting:
        return ""
    who = f"rank {waiting[0]} waits for its log" if len(waiting) == 1 else ""
    who = who or f"ranks {listed(waiting)} wait for their logs"
    return f"{who}: more is written than the disk or the network takes"


def near_line(near: LimitNear, now: float | None = None) -> str:
    """The limit that will end the run, and in how many seconds."""
    left = max(0.0, near.at - (near.time if now is None else now))
    so_far = _seconds(max(0.0, near.limit_s - left))
    texts = {"start": f"no room for {so_far}", "progress": f"no progress for {so_far}"}
    text = texts.get(near.limit, f"the time limit of {near.limit_s:g} s is near")
    return f"{text}: ends in {_seconds(left)}"


def _seconds(value: float) -> str:
    return f"{round(value, 1 if value < 10 else None):g} s"
