"""One run to its verdict, on one thread: the loop between the agents, the folder and the caller.

Everything that happens becomes a fact first; the pure rules of `launcher.state.outcome_rules` then decide
from the folded state what to do next. Other threads only post requests, and wait for news.
"""

from __future__ import annotations

import contextlib
import selectors
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..backends.base import Backend
from ..channel.connection import AgentConnection
from ..channel.frames import WireError
from ..errors import InternalError, LauncherError, RecordError, RunStopped, SpecError
from ..frameworks.registry import cures
from ..pacing import TurnPacer
from ..runs import paths
from ..runs.reader import device_memory
from ..runs.writer import RunWriter
from ..spec.job import JobSpec
from ..spec.request import Request
from ..state import events as ev
from ..state.events import NoteMade
from ..state.outcome_rules import verdict
from ..state.ranks import Rank
from ..state.run_state import Phase, RunState
from ..state.separate import separate_trainings
from .agents import Roster
from .attempt import submission
from .control import ControlServer
from .mailbox import Mailbox
from .watchdog import StacksRequested

if TYPE_CHECKING:
    from ..diagnosis.causes import Evidence
    from ..tracking.process import TrackingProcess


GATHER_S, AT_ONCE = 0.2, 128
MUCH = 64 << 10
_LAST_LINES = 200


class RunLoop(ABC):
    """Runs one run. Call `submit` first, in the caller's thread; then `run`, in a thread of its own."""

    def __init__(
        self, request: Request, folder: Path, backend: Backend, *, clock: Callable[[], float] = time.time
    ) -> None:
        self.mailbox = Mailbox()
        self._request = request
        self._spec = request.spec
        self._backend = backend
        self._clock = clock
        self._writer = RunWriter(folder, request.spec, payload=request.payload, clock=clock)
        self._selector = selectors.DefaultSelector()
        self._pacer = TurnPacer(
            GATHER_S, AT_ONCE, much=MUCH, busy_pause_s=0.0, urgent=(self.mailbox, backend)
        )
        self._roster = Roster(self._writer, self._selector, clock)
        self._control: ControlServer | None = None
        self._tracking: TrackingProcess | None = None

    @property
    def spec(self) -> JobSpec:
        """What was requested."""
        return self._spec

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
            SpecError: no rank is running, or none whose stacks can be taken.
        """
        raise SpecError("this run has no ranks whose stacks could be taken")

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
        failure: LauncherError | None = None
        try:
            self._open()
            while not self._ended():
                self._turn()
        except LauncherError as error:
            failure = error
        except (OSError, WireError) as error:
            failure = InternalError(f"the run cannot go on: {error}")
        except BaseException as error:  # noqa: BLE001  a defect of ours must end the run and be reported
            failure = InternalError(f"rankdeck failed: {type(error).__name__}: {error}")
        finally:
            self._close(failure)

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

    @abstractmethod
    def _launch(self) -> None:
        """Have the backend begin."""

    @abstractmethod
    def _ended(self) -> bool:
        """Whether nothing more will happen.

        Raises:
            LauncherError: the error that ends the run.
        """

    def _turn(self) -> None:
        """Wait for something to happen, and handle it."""
        ready = self._selector.select(self._timeout())
        trains = self._writer.state.phase is Phase.RUNNING  # launches and ends wait for nothing
        if trains and any(isinstance(key.data, AgentConnection) for key, _ in ready):
            self._pacer.gather()
        before = self._roster.received
        for key, _ in ready:
            if isinstance(key.data, AgentConnection):
                self._roster.on_readable(key.data)
            else:
                key.data()
        self._pacer.handled(self._roster.received - before)
        self._roster.poll_timeouts()
        self._decide()
        self._roster.flush()
        self._writer.settle()
        self.mailbox.notify()

    @abstractmethod
    def _timeout(self) -> float | None:
        """For how many seconds a turn may wait; None for any number."""

    @abstractmethod
    def _decide(self) -> None:
        """Take what was posted, and do what the facts require."""

    @abstractmethod
    def _on_news(self) -> None:
        """Handle the backend's news."""

    def _on_command(self, command: dict[str, Any]) -> None:
        """Handle a command from another process of the same user."""
        if command.get("stacks"):
            return self.dump_stacks()
        code, force = int(command.get("exit_code", RunStopped.exit_code)), bool(command.get("force", False))
        self.stop(reason=str(command.get("reason", "on request")), exit_code=code, force=force)
        return None

    def _close(self, failure: LauncherError | None) -> None:
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
                failure=failure,
                spec=self._spec,
                track=self._end_tracking,
                module_here=self._module_here,
            )

    def _module_here(self, name: str) -> ModuleSpec | None:
        """A module of the caller's that ranks of other hosts may lack; None if that is not known."""
        from ..spec.callers_modules import callers_module  # only few failures ask

        return None if self._spec.mode.traits.inherits else callers_module(self._request, name)

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
    failure: LauncherError | None,
    spec: JobSpec,
    track: Callable[[ev.RunEnded], None],
    module_here: Callable[[str], ModuleSpec | None] = lambda _: None,
) -> None:
    """Release the agents, wait until none of their processes is alive, and record the verdict.

    Args:
        writer: the run's folder.
        roster: the agents.
        backend: the backend that started them.
        clock: the time of day.
        failure: the error that ends the run, if one does.
        spec: what was to run.
        track: called with the verdict before that is recorded: trackers may take some seconds for it.
        module_here: finds a module on this machine that the ranks' hosts may lack.
    """
    record_end(roster.drop_all)
    record_end(roster.collection.tell)
    backend.close(CLOSE_LIMIT_S)
    if complaint := backend.complaint():
        note = NoteMade(time=clock(), text=complaint, level="error")
        record_end(lambda: writer.append(note))
    record_end(writer.settle)
    judge = partial(verdict, now=clock(), failure=failure)
    if judge(writer.state).state == Phase.SUCCEEDED:
        _record_separate(writer, now=clock(), required=spec.require_group)
    ended = judge(writer.state)
    if ended.state in (Phase.FAILED, Phase.LOST):
        _record_cause(writer, ended, lambda: _evidence_of(writer, spec, failure, module_here))
    record_end(lambda: track(ended))
    record_end(lambda: writer.append(ended))


def _record_separate(writer: RunWriter, *, now: float, required: bool) -> None:
    """Record that the ranks were trainings of their own, if they should have met."""
    found = separate_trainings(writer.state, now=now, cures=cures(), required=required)
    if found is not None:
        record_end(lambda: writer.append(found))


def _record_cause(writer: RunWriter, ended: ev.RunEnded, evidence: Callable[[], Evidence]) -> None:
    """Record why the run ended badly, if that is known."""
    try:
        from ..diagnosis.causes import find_cause  # only a failure needs the rules

        found = find_cause(writer.state, evidence(), ended)
    except Exception as error:  # noqa: BLE001  a defect in a rule must not cost the run its verdict
        why = f"rankdeck failed while it looked for the cause: {type(error).__name__}: {error}"
        note = NoteMade(time=ended.time, text=why, level="error")
        return record_end(lambda: writer.append(note))
    return record_end(lambda: writer.append(found)) if found is not None else None


def _evidence_of(
    writer: RunWriter,
    spec: JobSpec,
    failure: LauncherError | None,
    module_here: Callable[[str], ModuleSpec | None],
) -> Evidence:
    """What rules may read of the folder: of the last attempt."""
    from ..diagnosis.causes import Evidence
    from ..runs.logs.tail import tail_of
    from ..runs.logs.text import plain

    folder, attempt = writer.folder, writer.state.attempt

    def output_of(rank: Rank) -> list[str]:
        lines = tail_of(folder, attempt, rank.rank, paths.STDERR, most=_LAST_LINES)
        return [plain(line) for line in lines]

    return Evidence(
        memory_of=lambda rank: device_memory(folder, rank.rank, attempt),
        output_of=output_of,
        module_here=module_here,
        own_python=bool(spec.python),
        refusal=failure,
    )


def record_end(write: Callable[[], object]) -> None:
    """Write, and ignore a failing disk: at the end of a run nobody is left to report it to."""
    with contextlib.suppress(OSError):
        write()
