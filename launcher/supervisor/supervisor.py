"""One run from plan to verdict, on one thread: the loop between the agents, the folder and the caller.

Everything that happens becomes a fact first; the pure rules of `launcher.state.outcome_rules` then decide
from the folded state what to do next. Other threads only post requests, and wait for news.
"""

from __future__ import annotations

import contextlib
import math
import selectors
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..agent.worker_group import SELECT_LIMIT_S
from ..backends.base import AgentsExpected, Backend, StageOver
from ..channel.connection import AgentConnection
from ..channel.frames import Kind, WireError
from ..errors import CannotPlace, InternalError, LauncherError, RecordError, RowsFailed, RunStopped, SpecError
from ..frameworks.registry import cures
from ..placement.plan import Plan
from ..runs.writer import RunWriter
from ..spec.job import JobSpec
from ..spec.request import Request
from ..state import events as ev
from ..state.events import NoteMade
from ..state.outcome_rules import verdict
from ..state.run_state import Phase, RunState
from ..state.separate import separate_trainings
from .agents import Roster
from .attempt import Attempt, submission
from .collection import Collection
from .control import ControlServer
from .mailbox import Mailbox
from .watchdog import StacksRequested, Watchdog

if TYPE_CHECKING:
    from ..tracking.process import TrackingProcess


class Supervisor:
    """Runs one run. Call `submit` first, in the caller's thread; then `run`, in a thread of its own."""

    def __init__(
        self,
        request: Request,
        plan: Plan | None,
        folder: Path,
        backend: Backend,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.mailbox = Mailbox()
        self._request = request
        self._spec = request.spec
        self._backend = backend
        self._clock = clock
        self._writer = RunWriter(folder, request.spec, payload=request.payload, clock=clock)
        self._selector = selectors.DefaultSelector()
        self._roster = Roster(self._writer, self._selector, clock)
        self._attempt = Attempt(request, plan, writer=self._writer, roster=self._roster, clock=clock)
        self._stage = Launch(launched=0.0)
        self._watch = Watchdog(request.spec, self._writer, self._roster, clock)
        self._control: ControlServer | None = None
        self._tracking: TrackingProcess | None = None

    @property
    def _collection(self) -> Collection:
        return self._roster.collection

    @property
    def state(self) -> RunState:
        """The run as folded so far; a frozen value, so any thread may read it."""
        return self._writer.state

    def stop(self, *, reason: str, exit_code: int, force: bool = False) -> None:
        """Request the end of the run, from any thread; `force` skips the grace period."""
        self.mailbox.post(
            ev.StopRequested(
                time=self._clock(),
                by="person",
                reason=reason,
                exit_code=exit_code,
                grace_s=0.0 if force else self._spec.grace_s,
            )
        )

    def dump_stacks(self) -> None:
        """Request the stacks of every rank, from any thread; they are recorded as facts.

        Raises:
            SpecError: no rank is running.
        """
        if not any(r.alive for r in self.state.ranks):
            raise SpecError("no rank is running")
        self.mailbox.post(StacksRequested(time=self._clock()))

    def submit(self) -> None:
        """Record that the run exists, and listen for commands.

        Raises:
            RecordError: the folder cannot be written.
        """
        try:
            self._writer.append(submission(self._request, self._clock()))
        except OSError as error:
            raise RecordError(f"cannot write to {self._writer.folder}: {error.strerror}") from error
        self._control = ControlServer(self._writer.folder, self._on_command)

    def run(self) -> None:
        """Run to the verdict. Never raises: an error becomes the verdict."""
        broken, code = "", InternalError.exit_code
        try:
            self._open()
            while not self._ended():
                self._turn()
        except LauncherError as error:
            broken, code = str(error), error.exit_code
        except (OSError, WireError) as error:
            broken = f"the run cannot go on: {error}"
        except BaseException as error:  # noqa: BLE001  a defect of ours must end the run and be reported
            broken = f"rankdeck failed: {type(error).__name__}: {error}"
        finally:
            self._close(broken, code)

    def _open(self) -> None:
        """Watch the mailbox, the control socket and the backend, and have the agents started."""
        self._selector.register(self.mailbox, selectors.EVENT_READ, lambda: None)
        if self._control:
            self._selector.register(self._control, selectors.EVENT_READ, self._control.serve)
        self._selector.register(self._backend, selectors.EVENT_READ, self._on_news)
        self._launch()
        if self._spec.track:
            from ..tracking.process import TrackingProcess  # only runs with trackers need it

            self._tracking = TrackingProcess(self._request, self._writer, self._selector, self._clock)
            self._tracking.start()

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

    def _turn(self) -> None:
        for key, _ in self._selector.select(self._timeout()):
            if isinstance(key.data, AgentConnection):
                self._roster.on_readable(key.data)
            else:
                key.data()
        self._roster.poll_timeouts()
        self._decide()
        self._roster.flush()
        self._writer.settle()
        self.mailbox.notify()

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

    def _stop(self, request: ev.StopRequested) -> None:
        """Stop the agents. A person's stop is recorded even after a failure's: no restart may follow it."""
        if self.state.stop is None or (request.by == "person" and self.state.final_stop is None):
            self._writer.append(request)
        end = partial(self._roster.send, Kind.STOP, lambda _: {"grace_s": request.grace_s})
        if self._collection.sweeping:
            self._collection.give_up(request.reason)
        if not self._attempt.started:
            self._roster.dismiss()
            self._backend.abort()
        elif request.by == "limit":  # only running ranks can show where they hang
            self._watch.take_stacks(then=end)
        else:
            self._watch.cancel_stacks()
            end()

    def _on_command(self, command: dict[str, Any]) -> None:
        """Handle a command from another process of the same user."""
        if command.get("stacks"):
            return self.dump_stacks()
        code, force = int(command.get("exit_code", RunStopped.exit_code)), bool(command.get("force", False))
        self.stop(reason=str(command.get("reason", "on request")), exit_code=code, force=force)
        return None

    def _close(self, broken: str, code: int) -> None:
        """Release everything, wait for the agents' processes, record the verdict and wake waiting threads."""
        with contextlib.ExitStack() as ends:
            ends.callback(self.mailbox.close)
            ends.callback(self._selector.close)
            if self._control:
                ends.callback(self._control.close)
            ends.callback(record_end, self._writer.close)
            conclude_run(
                self._writer,
                self._roster,
                self._backend,
                clock=self._clock,
                broken=broken,
                code=code,
                require_group=self._spec.require_group,
                track=self._end_tracking,
            )

    def _end_tracking(self, ended: ev.RunEnded) -> None:
        """Have the trackers told the verdict. Another request to stop ends the wait for them."""
        if self._tracking is not None:
            stop = self.state.final_stop
            forced = stop is not None and not stop.grace_s
            self._tracking.end(ended, forced=forced, turn=self._wait_for_trackers)

    def _wait_for_trackers(self, limit_s: float) -> bool:
        """Wait for news of the trackers; whether somebody wants the run's end at once."""
        self.mailbox.notify()  # of what was recorded since: nobody else may say so for as long as this waits
        for key, _ in self._selector.select(limit_s):
            if key.fileobj is not self._backend:  # it is closed
                key.data()
        posted = self.mailbox.take()
        for each in posted:
            if not isinstance(each, (ev.StopRequested, StacksRequested)):
                self._writer.append(each)
        return any(isinstance(each, ev.StopRequested) for each in posted)


CLOSE_LIMIT_S = 60.0


def conclude_run(
    writer: RunWriter,
    roster: Roster,
    backend: Backend,
    *,
    clock: Callable[[], float],
    broken: str,
    code: int,
    track: Callable[[ev.RunEnded], None],
    require_group: bool = False,
) -> None:
    """Release the agents, wait until none of their processes is alive, and record the verdict.

    Args:
        writer: the run's folder.
        roster: the agents.
        backend: the backend that started them.
        clock: the time of day.
        broken: the error that ends the run; empty if none does.
        code: that error's exit code.
        require_group: whether the run fails if its ranks met no others.
        track: called with the verdict before that is recorded: trackers may take some seconds for it.
    """
    record_end(roster.drop_all)
    record_end(roster.collection.tell)
    backend.close(CLOSE_LIMIT_S)
    if complaint := backend.complaint():
        note = NoteMade(time=clock(), text=complaint, level="error")
        record_end(lambda: writer.append(note))
    record_end(writer.settle)
    judge = partial(verdict, now=clock(), broken=broken, exit_code=code)
    if judge(writer.state).state == Phase.SUCCEEDED:
        _record_separate(writer, now=clock(), required=require_group)
    ended = judge(writer.state)
    record_end(lambda: track(ended))
    record_end(lambda: writer.append(ended))


def _record_separate(writer: RunWriter, *, now: float, required: bool) -> None:
    """Record that the ranks were trainings of their own, if they should have met."""
    found = separate_trainings(writer.state, now=now, cures=cures(), required=required)
    if found is not None:
        record_end(lambda: writer.append(found))


def record_end(write: Callable[[], object]) -> None:
    """Write, and ignore a failing disk: at the end of a run nobody is left to report it to."""
    with contextlib.suppress(OSError):
        write()


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
