"""How a rank is doing, in one word: a rule over what is known, with the time as an argument.

Progress is judged by steps, never by how busy a device looks: a wedged gang can show 100 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from launcher.state import Rank, RankPhase

STALE_S = 10.0
HUNG_S = 60.0
SILENT_S, SILENT_PACES = 20.0, 8.0
HUNG_STEPS = 10.0
BEHIND_STEPS = 2
BEHIND_S = 5.0
BEHIND_PACES = 3.0


class Condition(StrEnum):
    """What one rank is doing, the worst last."""

    DONE = "done"
    OK = "running"
    WAITING = "waiting"
    STOPPED = "stopped"
    STALE = "stale"
    SILENT = "silent"
    BEHIND = "behind"
    HUNG = "no step"
    LOST = "lost"
    FAILED = "failed"


_BY_PHASE = {
    RankPhase.PLACED: Condition.WAITING,
    RankPhase.STARTING: Condition.WAITING,
    RankPhase.SUCCEEDED: Condition.DONE,
    RankPhase.FAILED: Condition.FAILED,
    RankPhase.STOPPED: Condition.STOPPED,
    RankPhase.LOST: Condition.LOST,
}


def condition_of(
    rank: Rank, *, now: float, front: int | None, step_s: float | None, silent: bool = False
) -> Condition:
    """How one rank is doing at `now`, beside the first in the gang and its usual seconds a step."""
    if rank.phase in _BY_PHASE:
        return _BY_PHASE[rank.phase]
    if rank.reported_at is not None and now - rank.reported_at > max(HUNG_S, HUNG_STEPS * (step_s or 0.0)):
        return Condition.HUNG
    if front is not None and _is_behind(rank, now, front, step_s or 0.0):
        return Condition.BEHIND
    if silent:
        return Condition.SILENT
    if rank.sampled_at is not None and now - rank.sampled_at > STALE_S:
        return Condition.STALE
    return Condition.OK


def silent_after(step_s: float | None, limit_s: float | None) -> float | None:
    """Seconds without a sign of life after which a rank is called silent: by the run's own pace and limit.

    None where neither is known: there are trainings that say nothing for hours.
    """
    paced = None if step_s is None else max(SILENT_S, SILENT_PACES * step_s)
    known = [seconds for seconds in (paced, None if limit_s is None else limit_s / 2) if seconds is not None]
    return min(known, default=None)


def signs_of_life(ranks: Sequence[Rank], written: Mapping[int, float]) -> list[float | None]:
    """When each rank showed last that it goes on, by a report or by output; None for one that has not begun.

    Often only rank 0 tells of steps: of a rank that tells none, what any of them does is taken for a sign.
    """
    told = [(rank.reported_at, written.get(rank.rank), rank.entered or rank.started) for rank in ranks]
    own = [max((time for time in times if time is not None), default=None) for times in told]
    newest = max((time for time in own if time is not None), default=None)
    return [time if rank.step is not None else newest for rank, time in zip(ranks, own, strict=True)]


def _is_behind(rank: Rank, now: float, front: int, step_s: float) -> bool:
    """Whether others have gone on for longer than reports usually take: ranks never report all at once."""
    if rank.step is None or rank.reported_at is None or front - rank.step < BEHIND_STEPS:
        return False
    return now - rank.reported_at > max(BEHIND_S, BEHIND_PACES * step_s)


def front_of(ranks: Sequence[Rank]) -> int | None:
    """The step of whoever is or was first, those that have ended included; None if none has reported one."""
    return max((r.step for r in ranks if r.step is not None), default=None)
