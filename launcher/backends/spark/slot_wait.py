"""Waiting for slots: what is missing is reported at once, in numbers, and again when it changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ...errors import CannotPlace
from ...spec.job import JobSpec
from ...state.events import SlotsAwaited
from . import executors
from .session import Session
from .slots import Capacity, Outlook, SlotNeed, beside, has_gpus, need_of, profile_for, refuse_dynamic

LOOK_S = 0.5
SETTLE_S = 10.0
NEVER_S = 5.0
"""For how long a cluster that is too small for a run must have kept its size before the run is refused.

Only a standalone master tells what its cluster can hold at most: what its live workers have. Workers register
within seconds of a master's start, or of their own restart.
"""

Look = Callable[[Session, SlotNeed], Capacity]


PARTIAL_S = 5.0
"""For how long a run keeps a part of its slots from applications that have waited for longer.

Two gangs that each hold a part, and wait for the rest, would wait for each other.
"""


class ReplaceSession(Exception):
    """The run should have another session: its tasks will not all get slots in this one, which has ended.

    Attributes:
        why: a sentence for people.
        unlimited: whether the next one must have no limit on its cores. Else it is as large as this one, but
            stands behind those that wait already.
    """

    def __init__(self, why: str, *, unlimited: bool) -> None:
        super().__init__(why)
        self.why, self.unlimited = why, unlimited


@dataclass(frozen=True, slots=True)
class Replacing:
    """When a run's session, which must be one of ours, is replaced.

    Attributes:
        outgrown: whether it is if its application has all cores that we requested for it, and these make too
            few slots. That happens where workers' free cores, memory or GPUs are uneven.
        older: who has waited for longer than this session's application, by name; empty if nobody has.
        end: ends the session, unless another run uses it too; whether it did.
        partial_s: for how many seconds it is kept with a part of the slots, if somebody has.
    """

    outgrown: bool
    older: Callable[[], str]
    end: Callable[[], bool]
    partial_s: float = PARTIAL_S

    def decide(self, capacity: Capacity, tasks: int, steady: float) -> None:
        """Decide about a session that has too few slots, and has had as many for `steady` seconds.

        Raises:
            ReplaceSession: it has ended, and should be replaced.
        """
        if self.outgrown and capacity.outgrown and self.end():
            why = f"{capacity.total} of {tasks} slots fit into what was requested: Spark is asked for more"
            raise ReplaceSession(why, unlimited=True)
        held = capacity.total or 0
        if 0 < held < tasks and steady >= self.partial_s and (who := self.older()) and self.end():
            why = f"{held} of {tasks} slots are given back: {who} has waited for longer"
            raise ReplaceSession(why, unlimited=False)


@dataclass(frozen=True, slots=True)
class Slots:
    """The slots that a stage gets.

    Attributes:
        tasks: how many tasks.
        profile: a pyspark ResourceProfile for them, or None for the session's own defaults.
        find_gpus: whether agents look for GPUs, granted or not.
        gpu_reason: why Spark grants none, though the run demands them; else empty.
        unknown: why it is not known whether they are free, so that Spark itself may have to wait; else empty.
    """

    tasks: int
    profile: Any
    find_gpus: bool
    gpu_reason: str = ""
    unknown: str = ""


@dataclass(slots=True)
class _Course:
    """When the capacity last changed, while a run waits."""

    began: float
    free: int | None = None
    possible: int | None = None
    freed_at: float = 0.0
    resized_at: float = 0.0

    def follow(self, capacity: Capacity, now: float) -> None:
        """Take note of a capacity."""
        if capacity.free != self.free:
            self.free, self.freed_at = capacity.free, now
        if capacity.possible != self.possible:
            self.possible, self.resized_at = capacity.possible, now


def await_slots(
    session: Session,
    spec: JobSpec,
    *,
    aborted: threading.Event,
    tell: Callable[[SlotsAwaited], None],
    run: str = "",
    attempt: int = 0,
    replacing: Replacing | None = None,
    waited_s: float = 0.0,
    look: Look = executors.look,
    clock: Callable[[], float] = time.monotonic,
) -> Slots | None:
    """Wait until a run's tasks fit at once; None if it was aborted meanwhile.

    An elastic run takes fewer slots, but at least its minimum, when no more have come for a while or the
    time is over. Its slots count as taken until `give_back`. `_hopeless_after` says when the wait for a
    cluster that is too small ends. `waited_s`: the seconds that it has waited in other sessions before.

    Raises:
        CannotPlace: there were not enough slots in time, or never can be.
        ReplaceSession: as `replacing` decides.
    """
    refuse_dynamic(session)
    need, least = _choose_need(session, spec, look), least_tasks(spec)
    course = _Course(clock() - waited_s, freed_at=clock(), resized_at=clock())
    patience = _hopeless_after(session, attempt)
    reported = ""
    while not aborted.is_set():
        capacity, now = beside(look(session, need), _others(session, run)), clock()
        course.follow(capacity, now)
        waited, over = now - course.began, now - course.began >= spec.start_timeout_s
        tasks = settle(capacity, need.tasks, least=least, steady=SETTLE_S if over else now - course.freed_at)
        if tasks and _claim(session, run, tasks, capacity):
            unknown = capacity.sentence(tasks) if capacity.outlook(tasks) is Outlook.UNKNOWN else ""
            return replace(_granted(session, spec, need, tasks), unknown=unknown)
        if replacing is not None:
            replacing.decide(capacity, need.tasks, now - course.freed_at)
        never = patience is not None and capacity.outlook(least) is Outlook.NEVER
        if over or (never and now - course.resized_at >= (patience or 0.0)):
            raise CannotPlace(capacity.sentence(least), hint=_advice(capacity, spec, waited))
        told = _told(capacity, need, spec, patience if never else None)
        if told.reason != reported:
            reported = told.reason
            tell(told)
        aborted.wait(min(LOOK_S, max(0.0, spec.start_timeout_s - waited)))
    return None


def _hopeless_after(session: Session, attempt: int) -> float | None:
    """For how many seconds a run stays that its cluster is too small for; None for as long as it may wait.

    A local master's threads are known for good; for a standalone master see `NEVER_S`. Where the size is not
    known, as on Kubernetes and YARN, which may add machines, the outlook is never hopeless. A run that is
    started again has had its slots before, so they may come back.
    """
    if session.local:
        return 0.0
    return None if attempt else NEVER_S


def _granted(session: Session, spec: JobSpec, need: SlotNeed, tasks: int) -> Slots:
    reason = ""
    if spec.gpu and not need.gpus:
        reason = has_gpus(session, each=executors.gpus_for_each(session))[1]
    return Slots(tasks, profile_for(session, need), find_gpus=spec.gpu is not False, gpu_reason=reason)


def _told(capacity: Capacity, need: SlotNeed, spec: JobSpec, patience: float | None) -> SlotsAwaited:
    """The fact about a wait; `patience` is the limit for a cluster that is too small, if this one is."""
    reason, limit_s = capacity.sentence(need.tasks, least_tasks(spec)), spec.start_timeout_s
    if patience is not None:
        reason, limit_s = f"{reason}; more workers may still join", min(limit_s, patience)
    return SlotsAwaited(
        time=time.time(), have=capacity.free or 0, need=need.tasks, limit_s=limit_s, reason=reason
    )


def _others(session: Session, run: str) -> dict[str, int]:
    """The slots that the session's other runs hold."""
    with session.claiming:
        return {name: tasks for name, tasks in session.claims.items() if name != run}


def _claim(session: Session, run: str, tasks: int, capacity: Capacity) -> bool:
    """Take slots for a run, unless another run took them after `capacity` was read."""
    with session.claiming:
        others = {name: count for name, count in session.claims.items() if name != run}
        if capacity.free is not None and (beside(capacity, others).free or 0) < tasks:
            return False
        session.claims[run] = tasks
        return True


def give_back(session: Session, run: str) -> None:
    """Release the slots of a run whose stage is over."""
    with session.claiming:
        session.claims.pop(run, None)


def least_tasks(spec: JobSpec) -> int:
    """How many tasks hold the run's minimum of ranks."""
    return -(-spec.least // spec.ranks_per_task)


def settle(capacity: Capacity, tasks: int, *, least: int, steady: float) -> int:
    """How many tasks to start now; 0 for none yet. `steady`: for how many seconds nothing has changed.

    If the capacity is unknown, all are started, and Spark itself waits for slots.
    """
    if capacity.outlook(tasks) in (Outlook.FITS, Outlook.UNKNOWN):
        return tasks
    free = capacity.free or 0
    all_there = capacity.possible is not None and (capacity.total or 0) >= capacity.possible == free
    enough = free >= least and (steady >= SETTLE_S or all_there)
    return min(free, tasks) if enough else 0


def _choose_need(session: Session, spec: JobSpec, look: Look) -> SlotNeed:
    """The need with GPUs if Spark assigns them, unless they are optional and can never be enough."""
    if spec.gpu is False or not has_gpus(session)[0]:
        return need_of(session, spec, gpu=False)
    need = need_of(session, spec, gpu=True)
    if spec.gpu is None and look(session, replace(need, tasks=1)).outlook(least_tasks(spec)) is Outlook.NEVER:
        return need_of(session, spec, gpu=False)
    return need


def _advice(capacity: Capacity, spec: JobSpec, waited: float) -> str:
    if capacity.outlook(least_tasks(spec)) is Outlook.NEVER:
        ranks = max(capacity.total or 0, capacity.possible or 0) * spec.ranks_per_task
        if not ranks:
            return capacity.cure or "look at what the session asks of its executors"
        return f"use -n {ranks} or fewer, or -n 1:{spec.num_processes} for as many as fit"
    return f"waited {waited:.0f} s; --start-timeout waits longer"
