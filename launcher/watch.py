"""The clock's part in a run: what is due, the warnings before limits, and the stacks before one ends it."""

from __future__ import annotations

import time
from collections.abc import Callable

from launcher import events as ev
from launcher.limits import PROGRESS, TIME, Limit, limits_of, wait_s, warnings
from launcher.roster import Roster
from launcher.runs.writer import RunWriter
from launcher.spec import JobSpec
from launcher.verdict import DOUBT_S, next_restart, next_stop
from launcher.worker.wire import Kind

STACKS_S = 3.0


class StacksAsked(ev.Event):
    """Somebody wants to know what the ranks are doing. A request between threads: it is not written down."""


class Watch:
    """Says what is near, and holds a stop back until all ranks have said what they were doing.

    Args:
        spec: what was asked for.
        writer: where warnings are written.
        roster: the agents.
        clock: the time of day.
        monotonic: what quiet and patience are measured by: it does not jump, and stands while we do.
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
        self._signs = 0
        self._round = 0
        self._until: float | None = None
        self._doubted: float | None = None
        self._then: Callable[[], None] | None = None

    @property
    def quiet_s(self) -> float | None:
        """Seconds since any rank's last sign of life; None while no gang runs."""
        state = self._writer.state
        if self._roster.lively is None or not state.ranks or state.all_ended:
            return None
        return self._monotonic() - self._roster.lively

    def warn(self) -> None:
        """Write down which limits have come near, and that one is not near any more."""
        state, now = self._writer.state, self._clock()
        if state.attempt != self._attempt:
            self._attempt = state.attempt
            self._warned &= {TIME}
        elif self._roster.signs != self._signs and PROGRESS in self._warned:
            self._warned.discard(PROGRESS)
            self._writer.append(ev.ProgressResumed(time=now, attempt=state.attempt))
        self._signs = self._roster.signs
        for near in warnings(self._limits(), self._warned, state, now):
            self._warned.add(near.limit)
            self._writer.append(near)

    def due_stop(self) -> ev.StopRequested | None:
        """The stop that facts and clock call for."""
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
        """For how long it has been in doubt who failed first; all ranks are asked as that begins."""
        if not self._writer.state.undecided:
            self._doubted = None
            return 0.0
        if self._doubted is None:
            self._doubted = self._monotonic()
            self._roster.send(Kind.INQUIRE, lambda _: {})
        return self._monotonic() - self._doubted

    def due_restart(self) -> ev.GangRestarted | None:
        """Another attempt, if the gang has stopped and may have one."""
        most, timeout_s = self._spec.max_restarts, self._spec.timeout_s
        return next_restart(self._writer.state, now=self._clock(), max_restarts=most, timeout_s=timeout_s)

    def take_stacks(self, then: Callable[[], None] | None = None) -> None:
        """Ask every rank what it is doing.

        Args:
            then: what to do once they have said it, or had the time to.
        """
        if self._then is not None and then is None:  # they are being taken, and a stop waits for that
            return
        self._round += 1
        self._until, self._then = self._monotonic() + STACKS_S, then
        number = self._round
        self._roster.stacked.clear()
        self._roster.send(Kind.STACKS, lambda _: {"round": number})

    def go_on(self) -> None:
        """Do what was to be done after the stacks, if it is time."""
        if self._until is None:
            return
        if self._roster.all_stacked(self._round) or self._monotonic() >= self._until:
            then = self._then
            self.let_go()
            if then is not None:
                then()

    def let_go(self) -> None:
        """Wait for stacks no longer: something that does not wait for them ends the gang."""
        self._until = self._then = None

    def wait_s(self) -> float | None:
        """Seconds until there is something to do; None while there is not."""
        now, doubted = self._monotonic(), None if self._doubted is None else self._doubted + DOUBT_S
        waits = [max(0.0, until - now) for until in (self._until, doubted) if until is not None]
        if (wait := wait_s(self._limits(), self._warned)) is not None:
            waits.append(wait)
        return min(waits, default=None)

    def _limits(self) -> tuple[Limit, ...]:
        return limits_of(self._writer.state, self._spec, now=self._clock(), quiet_s=self.quiet_s)
