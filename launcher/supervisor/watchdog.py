"""Time limits of a run: the limits, the warnings before them, and the stacks taken before one ends it."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from ..channel.frames import Kind
from ..runs.writer import RunWriter
from ..spec.job import JobSpec
from ..state import events as ev
from ..state.events import LimitNear
from ..state.outcome_rules import DOUBT_S, next_restart, next_stop
from ..state.peer_loss import is_timeout
from ..state.run_state import Phase, RunState
from .agents import Roster

STACKS_S = 3.0


class StacksRequested(ev.Event):
    """A request for the ranks' stacks, from another thread. It is not recorded."""


class Watchdog:
    """Warns of limits that are near, and delays a limit's stop until the ranks' stacks are taken.

    Args:
        spec: the request.
        writer: records the warnings.
        roster: the agents.
        clock: the time of day.
        monotonic: measures silence and waiting: it does not jump, and stops while the machine sleeps.
    """

    def __init__(
        self,
        spec: JobSpec,
        writer: RunWriter,
        roster: Roster,
        clock: Callable[[], float],
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spec = spec
        self._writer = writer
        self._roster = roster
        self._clock = clock
        self._monotonic = monotonic
        self._warned: set[str] = set()
        self._attempt = 0
        self._activity_count = 0
        self._round = 0
        self._until: float | None = None
        self._doubted: float | None = None
        self._then: Callable[[], None] | None = None

    @property
    def quiet_s(self) -> float | None:
        """Seconds since any rank's last sign of life; None while no gang runs, or a rank pauses."""
        state = self._writer.state
        if self._roster.active_at is None or not state.ranks or state.all_ended:
            return None
        if any(rank.alive and rank.paused is not None for rank in state.ranks):
            return None
        return self._monotonic() - self._roster.active_at

    def warn(self) -> None:
        """Record limits that have become near, and that the progress limit is no longer near."""
        state, now = self._writer.state, self._clock()
        if state.attempt != self._attempt:
            self._attempt = state.attempt
            self._warned &= {TIME}
        elif self._roster.activity_count != self._activity_count and PROGRESS in self._warned:
            self._warned.discard(PROGRESS)
            self._writer.append(ev.ProgressResumed(time=now, attempt=state.attempt))
        self._activity_count = self._roster.activity_count
        for near in warnings(self._limits(), self._warned, state, now):
            self._warned.add(near.limit)
            self._writer.append(near)

    def due_stop(self) -> ev.StopRequested | None:
        """The stop that the rules demand now."""
        return next_stop(
            self._writer.state,
            now=self._clock(),
            timeout_s=self._spec.timeout_s,
            grace_s=self._spec.grace_s,
            quiet_s=self.quiet_s,
            no_progress_timeout_s=self._spec.no_progress_timeout_s,
            doubted_s=self._doubted_s(),
        )

    def _doubted_s(self) -> float:
        """Seconds in which it has been unclear which rank failed first; at the start all ranks are asked.

        If it timed out in a collective, the others are also asked where they are: one of them was not in it.
        """
        state = self._writer.state
        if not state.undecided:
            self._doubted = None
            return 0.0
        if self._doubted is None:
            self._doubted = self._monotonic()
            self._roster.send(Kind.INQUIRE, lambda _: {})
            raised = state.cause.raised if state.cause is not None else None
            if raised is not None and is_timeout(raised.message):
                self.take_stacks()
        return self._monotonic() - self._doubted

    def due_restart(self) -> ev.GangRestarted | None:
        """The restart that the rules allow, once the gang has stopped."""
        most, timeout_s = self._spec.max_restarts, self._spec.timeout_s
        return next_restart(self._writer.state, now=self._clock(), max_restarts=most, timeout_s=timeout_s)

    def take_stacks(self, then: Callable[[], None] | None = None) -> None:
        """Request every rank's stacks.

        Args:
            then: called once all are taken, or after `STACKS_S`.
        """
        if self._then is not None and then is None:  # a pending request that a stop waits for serves too
            return
        self._round += 1
        self._until, self._then = self._monotonic() + STACKS_S, then
        number = self._round
        self._roster.stacked.clear()
        self._roster.send(Kind.STACKS, lambda _: {"round": number})

    @property
    def takes_stacks(self) -> bool:
        """Whether stacks are requested that have not all arrived."""
        return self._until is not None

    def poll_stacks(self) -> None:
        """Call what waits for the stacks, if they are taken or the time is over."""
        if self._until is None:
            return
        if self._roster.all_stacked(self._round) or self._monotonic() >= self._until:
            then = self._then
            self.cancel_stacks()
            if then is not None:
                then()

    def cancel_stacks(self) -> None:
        """Stop waiting for stacks: a stop that does not wait for them ends the gang."""
        self._until = self._then = None

    def wait_s(self) -> float | None:
        """Seconds until a limit, a warning or a deadline is due; None if there is none."""
        now, doubted = self._monotonic(), None if self._doubted is None else self._doubted + DOUBT_S
        waits = [max(0.0, until - now) for until in (self._until, doubted) if until is not None]
        if (wait := wait_s(self._limits(), self._warned)) is not None:
            waits.append(wait)
        return min(waits, default=None)

    def _limits(self) -> tuple[Limit, ...]:
        return limits_of(self._writer.state, self._spec, now=self._clock(), quiet_s=self.quiet_s)


TIME, START, PROGRESS = "time", "start", "progress"
LEAD, LONGEST_LEAD_S, SHORTEST_LEAD_S = 0.2, 60.0, 1.0


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit in force.

    Attributes:
        name: ``time``, ``start`` or ``progress``.
        limit_s: its length in seconds.
        left_s: seconds that are left of it.
    """

    name: str
    limit_s: float
    left_s: float

    @property
    def lead_s(self) -> float:
        """Seconds before its end at which the warning is due.

        A fifth of the limit, at least a second, at most a minute, and at most half of the limit.
        """
        lead = min(LONGEST_LEAD_S, max(SHORTEST_LEAD_S, LEAD * self.limit_s))
        return min(lead, self.limit_s / 2)

    @property
    def is_near(self) -> bool:
        """Whether the warning is due."""
        return 0 < self.left_s <= self.lead_s


def limits_of(state: RunState, spec: JobSpec, *, now: float, quiet_s: float | None) -> tuple[Limit, ...]:
    """The limits in force; none once the run is being stopped, because then the grace period applies.

    Args:
        state: the run.
        spec: the request.
        now: the engine's clock.
        quiet_s: seconds since the gang's last sign of life; None while none is expected.
    """
    if state.stop is not None or state.phase.final:
        return ()
    limits = []
    if spec.timeout_s is not None and state.started is not None:
        limits.append(Limit(TIME, spec.timeout_s, state.started + spec.timeout_s - now))
    since = next((at for phase, at in state.attempt_since if phase is Phase.WAITING), None)
    slots = state.waiting if state.phase is Phase.WAITING else None
    if slots is not None and slots.limit_s is not None and since is not None:
        limits.append(Limit(START, slots.limit_s, since + slots.limit_s - now))
    if spec.no_progress_timeout_s is not None and quiet_s is not None:
        limits.append(Limit(PROGRESS, spec.no_progress_timeout_s, spec.no_progress_timeout_s - quiet_s))
    return tuple(limits)


def warnings(
    limits: Iterable[Limit], warned: Collection[str], state: RunState, now: float
) -> list[LimitNear]:
    """The facts for limits that are near and not in `warned` yet."""
    return [
        LimitNear(time=now, attempt=state.attempt, limit=x.name, limit_s=x.limit_s, at=now + x.left_s)
        for x in limits
        if x.is_near and x.name not in warned
    ]


def wait_s(limits: Iterable[Limit], warned: Collection[str]) -> float | None:
    """Seconds until a warning is due or a limit is reached; None without limits.

    The limit for slots only causes a warning here: the backend that waits for slots ends the wait.
    """
    waits = []
    for x in limits:
        if x.name not in warned and x.left_s > 0:
            waits.append(x.left_s - x.lead_s)
        elif x.name != START:
            waits.append(x.left_s)
    return max(0.0, min(waits)) if waits else None
