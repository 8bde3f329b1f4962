"""What a run says about itself on standard error while it goes on, and what its record lacks. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from launcher.state.events import (
    ExecutorLost,
    LimitNear,
    PartUnreadable,
    RecordingStopped,
    RecordsLost,
    ServerLost,
    SlotsAwaited,
    SparkReady,
)
from launcher.state.outcome_rules import loss_sentence
from launcher.state.run_state import RunState

from ...formatting import number
from ...sanitize import json_escaped, printable
from ..logs.book import attempt_mark


def narrate(before: RunState, after: RunState, *, marks: bool = True) -> Iterator[str]:
    """The lines for what is new in `after`; each thing is said once.

    Args:
        before: what was known when this was asked the last time.
        after: what is known now.
        marks: whether to say where attempts begin; False where the output itself is marked.
    """
    if after.spark is not None and after.spark != before.spark:
        yield spark_line(after.spark)
    if marks:
        for restart in after.restarts[len(before.restarts) :]:
            yield attempt_mark(restart.attempt, restart)
    yield from _waiting(before, after)
    if after.delivery is not None and after.delivery != before.delivery and after.delivery.way != "live":
        yield f"output is {_DELIVERY.get(after.delivery.way, after.delivery.way)}: {after.delivery.reason}"
    yield from _limits(before, after)
    yield from _record(before, after)
    for note in after.notes[len(before.notes) :]:
        yield f"note: {note.text}"
    yield from _ending(before, after)


_DELIVERY = {
    "spool": "read from the spool folder",
    "relay": "carried through the Connect server",
    "carried": "carried home by Spark, and comes when the ranks have ended",
}


def spark_line(spark: SparkReady) -> str:
    """Which Spark, and where its pages are."""
    kind = "Spark Connect" if spark.remote else "Spark"
    page = f", {spark.ui}" if spark.ui else ""
    return f"{kind} {spark.version} on {spark.master}: application {spark.application}{page}"


def waiting_line(waiting: SlotsAwaited) -> str:
    """What is waited for, why, and how long that may take."""
    limit = f", at most {waiting.limit_s:g} s" if waiting.limit_s is not None else ""
    reason = f" ({waiting.reason})" if waiting.reason else ""
    return f"waiting for slots: {waiting.have} of {waiting.need}{limit}{reason}"


def near_line(near: LimitNear, now: float | None = None) -> str:
    """Which limit is near, and when it ends the run if nothing happens before."""
    left = max(0.0, near.at - (near.time if now is None else now))
    so_far = _seconds(max(0.0, near.limit_s - left))
    known = {"start": f"no room for {so_far}", "progress": f"no progress for {so_far}"}
    said = known.get(near.limit, f"the time limit of {near.limit_s:g} s is near")
    return f"{said}: ends in {_seconds(left)}"


def _seconds(value: float) -> str:
    return f"{round(value, 1 if value < 10 else None):g} s"


def _limits(before: RunState, after: RunState) -> Iterator[str]:
    if after.near is not None and after.near != before.near:
        yield near_line(after.near)
    elif (
        before.near is not None
        and before.near.limit == "progress"
        and after.near is None
        and after.stop is None
    ):
        yield "progress again"


def _record(before: RunState, after: RunState) -> Iterator[str]:
    """That the folder takes no more, and what it had not taken when it did again, or at the end."""
    if after.recording is not None and after.recording != before.recording:
        yield stopped_line(after.recording)
    if after.lost is not None and after.lost != before.lost:
        again = "recording again" if after.lost.resumed else ""
        yield "; ".join(filter(None, (again, lost_line(after.lost))))
    yield from (line for line in unreadable_lines(after) if line not in unreadable_lines(before))


def _waiting(before: RunState, after: RunState) -> Iterator[str]:
    if after.waiting is None:
        return
    line = waiting_line(after.waiting)
    told = before.waiting if before.attempt == after.attempt else None
    if told is None or line != waiting_line(told):
        yield line


def _ending(before: RunState, after: RunState) -> Iterator[str]:
    same = before.attempt == after.attempt
    stop = after.stop
    if stop is not None and not (same and before.stop is not None):
        yield f"stopping: {stop.reason} (SIGTERM, then SIGKILL after {stop.grace_s:g} s)"
    told = {stop.reason if stop is not None else ""}
    for loss in after.losses[len(before.losses) if same else 0 :]:
        line = loss_sentence(after, loss)
        if isinstance(loss, ExecutorLost | ServerLost) and line not in told:
            told.add(line)
            yield line
    last = after.final_stop
    if last is not None and last != stop and before.final_stop is None:
        yield f"it will not be started again: {last.reason}"


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
        return f", {number(part.count, what)}"
    numbers = ", ".join(map(str, part.lines))
    return f" {what}{'s' * (part.count > 1)} {numbers}" + (f" and {more:,} more" if more else "")


def newer_line(count: int) -> str:
    """That a newer version wrote what this one does not know; empty if there is nothing of the kind."""
    return f"{number(count, 'fact')} of a newer version were skipped" if count else ""


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


def value_text(entry: dict[str, Any]) -> str:
    """A summary's value for people: JSON where it is, else what is known of it."""
    if entry["json"]:
        text = json.dumps(entry["value"], indent=2, ensure_ascii=False)
        return "\n".join(map(json_escaped, text.split("\n")))
    return printable(f"{entry['value']}  ({entry['size']} bytes pickled)")
