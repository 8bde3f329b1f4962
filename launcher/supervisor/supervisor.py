"""A training from plan to verdict: the gang's start, its limits, its end, and its restart."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from ..agent.worker_group import SELECT_LIMIT_S
from ..backends.base import AgentsExpected, Backend, StageOver
from ..channel.connection import AgentConnection
from ..channel.frames import Kind
from ..errors import CannotPlace, InternalError, LauncherError, RowsFailed, SpecError
from ..placement.plan import Plan
from ..spec.job import JobSpec
from ..spec.request import Request
from ..state import events as ev
from ..state.run_state import RunState
from .attempt import Attempt
from .collection import Collection
from .run_loop import RunLoop
from .watchdog import StacksRequested, Watchdog


class Supervisor(RunLoop):
    """Runs a training. Call `submit` first, in the caller's thread; then `run`, in a thread of its own."""

    def __init__(
        self,
        request: Request,
        plan: Plan | None,
        folder: Path,
        backend: Backend,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(request, folder, backend, clock=clock)
        self._attempt = Attempt(request, plan, writer=self._writer, roster=self._roster, clock=clock)
        self._stage = Launch(launched=0.0)
        self._watch = Watchdog(request.spec, self._writer, self._roster, clock)
        from .silence_watch import (  # executors import this module without the rules
            SilenceWatch,
            chosen_limits,
        )

        limits = chosen_limits(request.spec)
        self._silence = SilenceWatch(self._writer, self._roster, self._watch, clock, limits)

    @property
    def _collection(self) -> Collection:
        return self._roster.collection

    def dump_stacks(self) -> None:
        """Request the stacks of every rank, from any thread; they are recorded as facts.

        Raises:
            SpecError: no rank is running.
        """
        if not any(r.alive for r in self.state.ranks):
            raise SpecError("no rank is running")
        self.mailbox.post(StacksRequested(time=self._clock()))

    def _launch(self) -> None:
        """Have the backend start agents, for the first attempt or after a loss."""
        self._stage = Launch(launched=self._clock())
        self._backend.launch(
            self._request, self._attempt.plan, self._writer.folder, attempt=self._attempt.number
        )

    def _ended(self) -> bool:
        """Whether nothing more will happen. If the gang may have another attempt, it is launched here.

        Raises:
            LauncherError: the error of the agents' stage, if no rank and no person ended the run.
        """
        if self._roster or not self._stage.over:
            return False
        if self.state.phase.final:
            return True
        if not (self._stage.given_up or self._stage.is_final) and (restart := self._watch.due_restart()):
            self._writer.append(replace(restart, in_place=False))
            self._collection.reset()
            self._attempt.restart_with_new_agents(restart.attempt)
            self._launch()
            return False
        if error := self._stage.failure(self.state):
            raise error
        return True

    def _on_news(self) -> None:
        """Handle the backend's news: agents, facts, the end of the stage."""
        for news in self._backend.news():
            match news:
                case AgentConnection():
                    self._roster.add([news])
                case AgentsExpected():
                    self._roster.expected, self._stage.expected = news.agents, self._clock()
                    self._attempt.scheduler_reason = news.gpu_reason
                    self._attempt.place()
                case StageOver():
                    self._stage.over, self._stage.error = True, news.error
                case _:
                    self._writer.append(replace(news, attempt=self.state.attempt))

    def _timeout(self) -> float | None:
        """Seconds until a limit is reached or a heartbeat is due; None if there is neither."""
        if (delivery := self._attempt.delivery) is not None and delivery.has_more:
            return 0.0
        limits = self._stage.limits
        if self.state.stop is None and not self._attempt.started:
            limits.append(join_limit(self._stage, self._spec)[1])
        if self._attempt.services_limit < math.inf:
            limits.append(self._attempt.services_limit)
        waits = [max(0.0, min(limits) - self._clock())] if limits else []
        others = (
            self._roster.timeout(),
            self._watch.wait_s(),
            self._collection.timeout(),
            self._roster.shares.timeout(),
        )
        waits += [w for w in others if w is not None]
        return min(SELECT_LIMIT_S, *waits) if waits else None

    def _decide(self) -> None:
        """Carry out the rules' decisions before people's requests: a failure is not a person's doing."""
        now = self._clock()
        self._watch.warn()
        if rule := self._watch.due_stop():
            self._stop(rule)
        for request in self.mailbox.take():
            self._handle(request)
        if self.state.stop is None and not self._attempt.started:
            self._start(now)
        self._attempt.guide_services()
        self._collection.tell(now=time.monotonic())
        self._roster.tell_shares()
        swept = self._attempt.started and self._roster.finished and self._collection.sweep()
        if swept:
            self._attempt.explain()
            if not self._restarted_in_place():
                self._roster.dismiss()
        self._watch.poll_stacks()
        self._silence.look()
        self._check_stage(now)

    def _handle(self, posted: ev.Event) -> None:
        """Handle what another thread has posted: a request, or a fact to record."""
        if isinstance(posted, ev.StopRequested):
            self._stop(posted)
        elif isinstance(posted, StacksRequested):
            self._watch.take_stacks()
        else:
            self._writer.append(posted)

    def _restarted_in_place(self) -> bool:
        """Restart the gang with its present agents, if all of them are here and the rules allow it."""
        restart = self._watch.due_restart()
        if restart is None or not restart.in_place or not self._roster.whole or self._stage_is_broken:
            return False
        self._writer.append(restart)
        self._collection.reset()
        self._attempt.restart_in_place(restart.attempt)
        return True

    @property
    def _stage_is_broken(self) -> bool:
        """Whether the scheduler's job that holds the agents' slots has ended; False without a scheduler."""
        return self._stage.over and self._spec.mode.traits.scheduled

    def _start(self, now: float) -> None:
        """Take the next steps to the gang's start, within the time limit for the agents' arrival.

        Raises:
            CannotPlace, InternalError: the agents did not arrive in time.
        """
        if self._stage_is_broken:
            return self._roster.dismiss()
        self._attempt.advance()
        limit_s, until = join_limit(self._stage, self._spec)
        if (delivery := self._attempt.delivery) is not None:  # large files may take longer than agents may
            until = max(until, delivery.patient_until)
        if not self._attempt.started and now >= until:
            raise self._attempt.too_late(limit_s)
        return None

    def _check_stage(self, now: float) -> None:
        """Abort a stage that goes on although its agents have ended as they should."""
        ending = self._attempt.started or self.state.stop or self.state.phase.final
        if self._stage.must_abort(now, deserted=bool(ending) and not self._roster):
            self._backend.abort()

    @property
    def _is_aborted(self) -> bool:
        """Whether the rank that failed first was ended by its own abort."""
        return self.state.cause is not None and self.state.cause.signal == "SIGABRT"

    def _stop(self, request: ev.StopRequested) -> None:
        """Stop the agents. A person's stop is recorded even after a failure's: no restart may follow it."""
        # NCCL's watchdog aborts a rank when others are not in a collective: only they can show where they are
        aborted = self.state.stop is None and request.by == "rank" and self._is_aborted
        if self.state.stop is None or (request.by == "person" and self.state.final_stop is None):
            self._writer.append(request)
        end = partial(self._roster.send, Kind.STOP, lambda _: {"grace_s": request.grace_s})
        if self._collection.sweeping:
            self._collection.give_up(request.reason)
        if not self._attempt.started:
            self._roster.dismiss()
            self._backend.abort()
        elif request.by == "limit" or aborted:  # only running ranks can show where they hang
            self._watch.take_stacks(then=end)
        else:
            self._watch.cancel_stacks()
            end()


JOIN_LIMIT_S = 60.0
DESERTED_S = 2.0
ABORTED_S = 5.0


@dataclass(slots=True)
class Launch:
    """One launch of agents by the backend, also called a stage. Times are on the engine's clock.

    Attributes:
        launched: when it began.
        expected: since when agents are being started; None while there is no room for them yet.
        over: whether no agent will come any more.
        error: the error with which it ended, unless a fact recorded that.
        deserted: since when it has had no agents although it should be ending.
        aborted: whether it was told to end.
        given_up: whether it did not end then, and may still exist.
    """

    launched: float
    expected: float | None = None
    over: bool = False
    error: LauncherError | None = None
    deserted: float | None = None
    aborted: bool = False
    given_up: bool = False

    def must_abort(self, now: float, *, deserted: bool) -> bool:
        """Whether it must be told to end now, because it has no agents and Spark may not know.

        If it does not end after that either, it is given up and counts as over.
        """
        if self.over or not deserted:
            self.deserted = None
        elif self.deserted is None:
            self.deserted = now
        elif now >= self.patience and self.aborted:
            self.over = self.given_up = True
        elif now >= self.patience:
            self.aborted = True
            return True
        return False

    def failure(self, state: RunState) -> LauncherError | None:
        """The error with which the run ends after this stage; None if its ranks or a person ended it."""
        is_lost = state.stop is not None and state.stop.by == "loss"
        if is_lost and isinstance(self.error, RowsFailed):  # Spark ends tasks, and with them agents, for that
            return self.error
        lost_early = is_lost and not state.ranks
        if (state.stop is not None and not lost_early) or state.all_ended:
            return None
        nothing = InternalError("the agents ended before the ranks could start")
        known = state.ranks or state.losses or state.cancelled
        return self.error or (None if known else nothing)

    @property
    def is_final(self) -> bool:
        """Whether another attempt would end like it: it could not be placed, or its data is no good."""
        return isinstance(self.error, (CannotPlace, RowsFailed, SpecError))

    @property
    def limits(self) -> list[float]:
        """The times at which `must_abort` has something to do."""
        return [] if self.deserted is None else [self.patience]

    @property
    def patience(self) -> float:
        """Until when it may go on without agents, on the engine's clock."""
        return (self.deserted or 0.0) + DESERTED_S + (ABORTED_S if self.aborted else 0.0)


def join_limit(stage: Launch, spec: JobSpec) -> tuple[float, float]:
    """How long all agents may take to join, in seconds, and until when, on the engine's clock.

    Without a scheduler, the time counts from when there is room and agents are being started. A scheduler may
    let tasks wait for slots; its backend, which knows more about them, gives up before this limit.
    """
    scheduled = spec.mode.traits.scheduled
    if not scheduled and stage.expected is not None:
        return JOIN_LIMIT_S, stage.expected + JOIN_LIMIT_S
    limit_s = spec.start_timeout_s + (JOIN_LIMIT_S if scheduled else 0.0)
    return limit_s, stage.launched + limit_s
