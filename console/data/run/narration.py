"""Messages about a run for standard error while it goes on, and lines on what its record lacks. Pure."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from launcher.display.artifacts import new_artifacts
from launcher.display.hangs import new_hangs
from launcher.display.rows import new_rows
from launcher.display.service import new_services
from launcher.display.waits import new_limits, new_waits
from launcher.runs.logs.text import attempt_mark
from launcher.state.events import (
    ExecutorLost,
    PartUnreadable,
    RecordingStopped,
    RecordsLost,
    ServerLost,
    ServiceLost,
    SparkReady,
    XidLogged,
)
from launcher.state.outcome_rules import loss_sentence
from launcher.state.run_state import RunState
from launcher.state.xids import gpu_text, xid_text

from ...formatting import number
from ...sanitize import json_escaped, printable


def narrate(before: RunState, after: RunState, *, marks: bool = True) -> Iterator[str]:
    """The lines for what is new in `after`.

    Args:
        before: the state at the last call.
        after: the state now.
        marks: whether to mark the begin of attempts; False if the printed output is marked itself.
    """
    if after.spark is not None and after.spark != before.spark:
        yield spark_line(after.spark)
    if marks:
        for restart in after.restarts[len(before.restarts) :]:
            yield attempt_mark(restart.attempt, restart.reason)
    yield from new_waits(before, after)
    yield from new_rows(before, after)
    yield from map(printable, new_services(before, after))
    if after.delivery is not None and after.delivery != before.delivery and after.delivery.way != "live":
        yield f"output is {_DELIVERY.get(after.delivery.way, after.delivery.way)}: {after.delivery.reason}"
    yield from new_hangs(before, after)
    yield from new_limits(before, after)
    yield from map(printable, _new_xids(before, after))
    yield from _record(before, after)
    yield from _trackers(before, after)
    yield from map(printable, new_artifacts(before, after))
    for note in after.notes[len(before.notes) :]:
        yield f"note: {note.text}"
    yield from _ending(before, after)


_DELIVERY = {
    "spool": "read from the spool folder",
    "relay": "carried through the Connect server",
    "carried": "carried by Spark, and arrives when the ranks have ended",
}


def spark_line(spark: SparkReady) -> str:
    """The Spark version, master, application and page."""
    kind = "Spark Connect" if spark.remote else "Spark"
    page = f", {spark.ui}" if spark.ui else ""
    return f"{kind} {spark.version} on {spark.master}: application {spark.application}{page}"


def _record(before: RunState, after: RunState) -> Iterator[str]:
    """Lines on the start and end of a failure to write the folder, on lost records and unreadable parts."""
    if after.recording is not None and after.recording != before.recording:
        yield stopped_line(after.recording)
    if after.lost is not None and after.lost != before.lost:
        again = "recording again" if after.lost.resumed else ""
        yield "; ".join(filter(None, (again, lost_line(after.lost))))
    yield from (line for line in unreadable_lines(after) if line not in unreadable_lines(before))


def _trackers(before: RunState, after: RunState) -> Iterator[str]:
    """A line for the first record in each tracker that rankdeck writes, or that the ranks do."""
    if len(after.trackers) == len(before.trackers):
        return
    from .trackers import tracker_record  # a run without trackers does not need it

    seen = {(link.tracker, link.rank is None) for link in before.trackers}
    for link in after.trackers[len(before.trackers) :]:
        if (kind := (link.tracker, link.rank is None)) not in seen:
            seen.add(kind)
            yield f"tracked by {tracker_record(after, link).line}"


def _new_xids(before: RunState, after: RunState) -> Iterator[str]:
    """A line for each kind of error of each GPU, once in an attempt."""
    said = xid_lines(before) if before.attempt == after.attempt else ()
    yield from (line for line in xid_lines(after) if line not in said)


def xid_lines(state: RunState) -> tuple[str, ...]:
    """The errors of GPUs that the driver logged in this attempt."""
    return tuple(map(xid_line, state.xids))


def xid_line(logged: XidLogged) -> str:
    """The GPU and its error."""
    return f"{gpu_text(logged)}: {xid_text(logged.xid)}"


def _ending(before: RunState, after: RunState) -> Iterator[str]:
    same = before.attempt == after.attempt
    stop = after.stop
    if stop is not None and not (same and before.stop is not None):
        yield f"stopping: {stop.reason} (SIGTERM, then SIGKILL after {stop.grace_s:g} s)"
    printed = {stop.reason if stop is not None else ""}
    for loss in after.losses[len(before.losses) if same else 0 :]:
        line = loss_sentence(after, loss)
        if isinstance(loss, ExecutorLost | ServerLost | ServiceLost) and line not in printed:
            printed.add(line)
            yield line
    last = after.final_stop
    if last is not None and last != stop and before.final_stop is None:
        yield f"it will not be started again: {last.reason}"


def deleted_line(seen: float) -> str:
    """The sentence that a run's record was deleted; `seen` is when it last existed."""
    at = time.strftime("%H:%M:%S", time.localtime(seen))
    return f"the run's record was deleted while it ran: output and verdict after {at} are lost"


def stopped_line(stopped: RecordingStopped) -> str:
    """The sentence that the folder can no longer be written, and why."""
    return f"recording stopped: {stopped.reason}; the training goes on"


def lost_line(lost: RecordsLost) -> str:
    """The amount of data that was not recorded; empty if nothing was lost."""
    parts = [
        number(count, what) + of
        for count, what, of in (
            (lost.output_bytes, "byte", " of output"),
            (lost.result_bytes, "byte", " of return values"),
            (lost.facts, "fact", ""),
        )
        if count
    ]
    return f"not recorded: {', '.join(parts)}" if parts else ""


def unreadable_line(part: PartUnreadable) -> str:
    """The file and lines that cannot be read, and why."""
    return f"unreadable: {part.file}{_numbers(part)}" + (f" ({part.reason})" if part.reason else "")


def _numbers(part: PartUnreadable) -> str:
    """The numbers of the unreadable lines or records, as far as known."""
    what = "record" if part.file.endswith("/chunks") else "line"
    more = part.count - len(part.lines)
    if not part.count:
        return ""
    if not part.lines:
        return f", {number(part.count, what)}"
    numbers = ", ".join(map(str, part.lines))
    return f" {what}{'s' * (part.count > 1)} {numbers}" + (f" and {more:,} more" if more else "")


def newer_line(count: int) -> str:
    """The number of facts that only a newer version can read; empty if there are none."""
    return f"{number(count, 'fact')} of a newer version were skipped" if count else ""


def unreadable_lines(state: RunState) -> list[str]:
    """A line for each part of a run's folder that could not be read."""
    return [*map(unreadable_line, state.unreadable), *filter(None, [newer_line(state.newer)])]


def record_line(state: RunState) -> str:
    """Everything that a run's record lacks, in one line; empty if it is complete."""
    return "; ".join(filter(None, [_unrecorded_line(state), *unreadable_lines(state)]))


def _unrecorded_line(state: RunState) -> str:
    """What could not be written to the folder."""
    if state.recording is not None and not state.phase.final:
        return stopped_line(state.recording)
    lost = lost_line(state.lost) if state.lost else ""
    if state.recording is None:
        return lost
    return f"{lost or 'recording stopped'} ({state.recording.reason})"


def value_text(entry: dict[str, Any]) -> str:
    """A summary's value for people: JSON if it has JSON, else its text and its pickled size."""
    if entry["json"]:
        text = json.dumps(entry["value"], indent=2, ensure_ascii=False)
        return "\n".join(map(json_escaped, text.split("\n")))
    return printable(f"{entry['value']}  ({number(entry['size'], 'byte')} pickled)")
