"""What a run says about itself on standard error while it goes on: from one state to the next. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from console.losses import lost_line, stopped_line, unreadable_lines
from console.sources.attempts import attempt_mark
from launcher.events import ExecutorLost, LimitNear, ServerLost, SlotsAwaited, SparkReady
from launcher.sentences import loss_sentence
from launcher.state import RunState


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
