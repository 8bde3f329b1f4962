"""How a rank is doing, in one word: a rule over what is known, with the time as an argument.

Progress is judged by steps, never by how busy a device looks: a wedged gang can show 100 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from statistics import median

from launcher.state import Rank, RankPhase

STALE_S = 10.0
HUNG_S = 60.0
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


def condition_of(rank: Rank, *, now: float, median_step: float | None, step_s: float | None) -> Condition:
    """How one rank is doing at `now`, beside the gang's median step and its usual seconds a step."""
    if rank.phase in _BY_PHASE:
        return _BY_PHASE[rank.phase]
    if rank.reported_at is not None and now - rank.reported_at > max(HUNG_S, HUNG_STEPS * (step_s or 0.0)):
        return Condition.HUNG
    if median_step is not None and _is_behind(rank, now, median_step, step_s or 0.0):
        return Condition.BEHIND
    if rank.sampled_at is not None and now - rank.sampled_at > STALE_S:
        return Condition.STALE
    return Condition.OK


def _is_behind(rank: Rank, now: float, median_step: float, step_s: float) -> bool:
    """Whether others have gone on for longer than reports usually take: ranks never report all at once."""
    if rank.step is None or rank.reported_at is None or median_step - rank.step < BEHIND_STEPS:
        return False
    return now - rank.reported_at > max(BEHIND_S, BEHIND_PACES * step_s)


def median_step(ranks: Sequence[Rank]) -> float | None:
    """The middle of the ranks' last steps; None if none has reported one."""
    steps = [r.step for r in ranks if r.step is not None]
    return median(steps) if steps else None
