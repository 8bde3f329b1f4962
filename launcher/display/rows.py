"""How far a prediction is: rows, their rate, and the time left. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

from ..errors import counted
from ..state.run_state import Phase, RunState


@dataclass(frozen=True, slots=True)
class RowProgress:
    """A prediction at one moment.

    Attributes:
        rows: how many rows the workers have predicted in this run, as far as they have said.
        rate: rows a second of all workers that are here.
        done: the share of the whole input that is done, 0 to 1; None if that is not known.
        left_s: the seconds that the rest will take if it takes as long as what this run has done.
        skipped: the share that was done before.
    """

    rows: int
    rate: float
    done: float | None
    left_s: float | None
    skipped: float = 0.0


def row_progress(state: RunState, now: float) -> RowProgress | None:
    """How far a prediction is; None for a training."""
    told = state.prediction
    if told is None:
        return None
    rate = sum(rank.rows_per_s or 0.0 for rank in state.ranks if rank.alive)
    began = next((time for phase, time in state.since if phase is Phase.RUNNING), None)
    left_s = None
    if told.done is not None and began is not None and not state.phase.final:
        mine = told.done - told.skipped
        left_s = (1 - told.done) * max(0.0, now - began) / mine if mine > 0 else None
    rows = told.rows if told.output else max(sum(rank.rows for rank in state.ranks), told.rows)
    return RowProgress(rows, 0.0 if state.phase.final else rate, told.done, left_s, told.skipped)


def rows_line(progress: RowProgress) -> str:
    """The progress in a sentence."""
    done = "" if progress.done is None else f", {progress.done:.0%}"
    rate = f", {progress.rate:,.0f} rows/s" if progress.rate else ""
    left = "" if progress.left_s is None else f", {duration(progress.left_s)} left"
    return f"{counted(progress.rows, 'row')}{done}{rate}{left}"


def new_rows(before: RunState, after: RunState) -> Iterator[str]:
    """The progress, once for each tenth of the input."""
    now, was = after.prediction, before.prediction
    if now is None or now.done is None or now.output:
        return
    if was is None and now.skipped:
        yield f"{now.skipped:.0%} of the input was predicted before"
    if was is not None and was.done is not None and int(10 * now.done) > int(10 * was.done):
        progress = row_progress(after, now.time)
        if progress is not None:
            yield f"predicting: {rows_line(progress)}"


def duration(seconds: float) -> str:
    """Seconds for people: ``12 s``, ``0:02:30``."""
    return f"{seconds:.0f} s" if seconds < 60 else str(timedelta(seconds=round(seconds)))
