"""The ranks of one agent: start them, forward their output, end them, and prove that nothing is left.

This module has no connection to the engine and no loop: the agent's loop calls `on_readable` when a
descriptor is ready, `reap` when a child ended and `poll_timeouts` when time passed, and `emit` sends.

`launcher.state.events` is imported where a fact is made: that import takes longer than all others of an
agent, and costs nothing while the ranks' interpreters are starting.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from ..channel import frames
from . import leftovers, linux, process, rank_pipe
from .boot import Emit, StartOrder
from .process import RankProcess
from .program import Naming
from .raising import INQUIRE_SIGNAL
from .stacks import POLL_S, Dump

LEFTOVER_GRACE_S = 3.0
GIVE_UP_S = 30.0
SELECT_LIMIT_S = 3600.0  # a selector's timeout has an upper limit; one turn an hour costs nothing

_RESULTS = {
    rank_pipe.RESULT_BEGIN: frames.Kind.RESULT_BEGIN,
    rank_pipe.RESULT_DATA: frames.Kind.RESULT_DATA,
    rank_pipe.RESULT_END: frames.Kind.RESULT_END,
    rank_pipe.RESULT_ABORT: frames.Kind.RESULT_ABORT,
}


class StopLadder(Enum):
    """How far the group is stopped."""

    UP = auto()
    TERMINATING = auto()
    KILLING = auto()


@dataclass(slots=True)
class _Live:
    """A rank's process.

    Attributes:
        raised: whether it has reported its exception.
        returns: whether it runs a function.
        left: how the function ended: False by its return, True by `sys.exit`, None by neither.
    """

    process: RankProcess
    started: float
    raised: bool = False
    exited: bool = False
    returns: bool = False
    left: bool | None = None


@dataclass(slots=True)
class WorkerGroup:
    """The ranks of one attempt on this agent, from start to proof of death."""

    agent: int
    host: str
    order: StartOrder
    emit: Emit
    selector: selectors.BaseSelector
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _live: dict[int, _Live] = field(default_factory=dict)
    _sources: dict[int, tuple[int, int]] = field(default_factory=dict)
    _ladder: StopLadder = StopLadder.UP
    _deadline: float | None = None
    _give_up: float = float("inf")
    _killed: int = 0
    _terminated: int = 0
    _oom_before: int | None = None
    _paused: bool = False
    _dump: Dump | None = None
    finished: bool = False

    def start(self) -> None:
        """Start every rank; one that cannot be started is reported like one that failed."""
        self._oom_before = process.oom_kills()
        if short := linux.shortage(len(self.order.ranks)):
            for rank in self.order.ranks:
                self._not_started(rank, "OSError", short, linux.CANNOT_PLACE)
            return
        begun = {rank: self._start_rank(rank) for rank in self.order.ranks}
        from ..state.events import RankStarted

        for rank, result in begun.items():
            if isinstance(result, OSError):
                text, code = linux.start_failure(result, self.order.python, self.order.cwd)
                self._not_started(rank, type(result).__name__, text, code)
            else:
                self.emit.fact(RankStarted(rank=rank, pid=self._live[rank].process.pid, time=result))

    def _start_rank(self, rank: int) -> float | OSError:
        """Start one rank; its start time, or why it cannot be started."""
        try:
            started = process.start_rank(
                rank,
                python=self.order.python,
                root=self.order.root,
                program=self.order.program,
                env={**self.order.env, **self.order.ranks[rank]},
                cwd=self.order.cwd,
                files=self.order.files,
            )
        except OSError as error:
            return error
        self._live[rank] = _Live(started, self.monotonic())
        self._watch(started)
        return self.clock()

    def pids(self) -> dict[int, int]:
        """The main process of every rank that is alive, for the sampler; called from its thread."""
        return {r: live.process.pid for r, live in list(self._live.items()) if not live.exited}

    def on_readable(self, descriptor: int) -> None:
        """Forward what a rank has written; stop watching a closed descriptor."""
        rank, stream = self._sources[descriptor]
        is_open = self._pump_line(rank) if stream == 0 else self._pump_pipe(descriptor, rank, stream)
        if not is_open:
            self._forget(descriptor)

    def pause(self) -> None:
        """Stop reading from the ranks until `resume`: the channel is full."""
        if not self._paused:
            self._paused = True
            for descriptor in self._sources:
                self.selector.unregister(descriptor)

    def resume(self) -> None:
        """Read from the ranks again."""
        if self._paused:
            self._paused = False
            for descriptor in self._sources:
                self.selector.register(descriptor, selectors.EVENT_READ, self)

    def reap(self) -> None:
        """Wait for processes that have ended: ranks and adopted orphans."""
        by_pid = {live.process.pid: rank for rank, live in self._live.items()}
        for pid, status in process.reap():
            if (rank := by_pid.get(pid)) is not None:
                self._exited(rank, status)

    def stop(self, *, grace_s: float) -> None:
        """Send SIGTERM now, and SIGKILL to the whole process tree after the grace period.

        A rank that has raised is ending already, and is left to finish with its own exit code.
        """
        now = self.monotonic()
        deadline = now + grace_s
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        if self._ladder is StopLadder.UP:
            self._ladder = StopLadder.TERMINATING
            running = [v.process.pid for v in self._live.values() if not v.exited and not v.raised]
            process.send(running, signal.SIGTERM)
            process.send(running, signal.SIGCONT)

    def request_exceptions(self) -> None:
        """Ask every rank for an exception in flight. A rank inside C code does not answer."""
        for live in self._live.values():
            pid = live.process.pid
            if not live.exited and not live.raised and linux.catches(pid, INQUIRE_SIGNAL):
                process.send([pid], INQUIRE_SIGNAL)

    def dump_stacks(self, number: int) -> None:
        """Report the stacks of every rank, as part of the current round if there is one."""
        if self._dump is None:
            self._dump = Dump(self.emit, Naming(self.order.copied))
        ranks = {rank: live.process for rank, live in self._live.items() if not live.exited}
        self._dump.add(ranks, number=number, now=self.monotonic())

    def poll_timeouts(self) -> None:
        """Do what is due by the clock: escalate, end leftovers, and finish once nothing is alive."""
        now = self.monotonic()
        if self._dump and self._dump.poll(now, self.clock()):
            self._dump = None
        if self._all_exited and self._ladder is not StopLadder.KILLING:
            self._end_leftovers(now)
        if self._ladder is StopLadder.TERMINATING and self._deadline is not None and now >= self._deadline:
            self._ladder = StopLadder.KILLING
            self._give_up = now + GIVE_UP_S
        if self._ladder is StopLadder.KILLING:
            self._kill(now)

    def timeout(self) -> float | None:
        """Seconds until `poll_timeouts` has something to do; None if only an event can change that."""
        if self.finished:
            return None
        if self._ladder is StopLadder.KILLING:
            return 0.01
        if self._all_exited:
            return 0.02
        limit_s = POLL_S if self._dump else SELECT_LIMIT_S
        if self._deadline is None:
            return POLL_S if self._dump else None
        return min(limit_s, max(0.0, self._deadline - self.monotonic()))

    @property
    def _all_exited(self) -> bool:
        return all(live.exited for live in self._live.values())

    def _end_leftovers(self, now: float) -> None:
        """Send SIGTERM to what ended ranks left running; SIGKILL follows after a short grace period."""
        left = process.descendants(os.getpid())
        if not left:
            self._finish(())
            return
        if not self._terminated:
            self._terminated = process.send(left, signal.SIGTERM)
            process.send(left, signal.SIGCONT)
            self._ladder = StopLadder.TERMINATING
            leftover_deadline = now + min(LEFTOVER_GRACE_S, self.order.grace_s)
            self._deadline = min(self._deadline or leftover_deadline, leftover_deadline)

    def _kill(self, now: float) -> None:
        self._killed += process.kill_all_below(os.getpid())
        self.reap()
        left = process.descendants(os.getpid())
        # the exit of a killed rank is known only once it has been waited for
        if (not left and self._all_exited) or now >= self._give_up:
            self._finish(tuple(left))

    def _finish(self, survivors: tuple[int, ...]) -> None:
        """Drain every descriptor to its end (all writers are dead) and report the cleanup."""
        self.resume()
        self.reap()
        for descriptor in list(self._sources):
            self._drain(descriptor)
        for live in self._live.values():
            os.close(live.process.stacks)
        leftovers.remove_segments(self.order.shared_memory)
        self._report_cleanup(survivors)
        self.finished = True

    def _report_cleanup(self, survivors: tuple[int, ...]) -> None:
        from ..state.events import CleanupProven

        proof = CleanupProven(
            time=self.clock(),
            agent=self.agent,
            host=self.host,
            terminated=self._terminated,
            killed=self._killed,
            survivors=survivors,
        )
        self.emit.fact(proof)

    def _drain(self, descriptor: int) -> None:
        """Forward all that is left. Every writer is dead, so nothing more will come."""
        rank, stream = self._sources[descriptor]
        if stream == 0:
            self._drain_packets(rank)
        else:
            while data := process.read(descriptor):
                self.emit.raw(frames.Kind.OUTPUT, data, rank=rank, stream=stream)
        self._forget(descriptor)

    def _watch(self, started: RankProcess) -> None:
        for descriptor, stream in (
            (started.line.fileno(), 0),
            (started.stdout, frames.STDOUT),
            (started.stderr, frames.STDERR),
        ):
            self._sources[descriptor] = (started.rank, stream)
            if not self._paused:
                self.selector.register(descriptor, selectors.EVENT_READ, self)

    def _forget(self, descriptor: int) -> None:
        rank, stream = self._sources.pop(descriptor)
        if not self._paused:
            self.selector.unregister(descriptor)
        if stream == 0:
            self._live[rank].process.line.close()
        else:
            os.close(descriptor)

    def _pump_pipe(self, descriptor: int, rank: int, stream: int) -> bool:
        """Forward one piece of output; False at the end of the pipe."""
        data = process.read(descriptor)
        if data:
            self.emit.raw(frames.Kind.OUTPUT, data, rank=rank, stream=stream)
        return data != b""

    def _pump_line(self, rank: int) -> bool:
        """Forward waiting packets; False when the rank has closed its end."""
        for _ in range(64):
            packet = rank_pipe.receive(self._live[rank].process.line)
            if packet == "empty":
                return not self._live[rank].exited
            if packet == "closed":
                return False
            self._forward_packet(rank, *packet)
        return True

    def _forward_packet(self, rank: int, kind: bytes, data: bytes) -> None:
        if (forward := _RESULTS.get(kind)) is not None:
            self.emit.raw(forward, data, rank=rank)
        elif kind == rank_pipe.LEFT:
            with contextlib.suppress(ValueError):
                self._live[rank].left = bool(rank_pipe.parse(data).get("by_exit"))
        elif kind == rank_pipe.FACT:
            # only rankdeck's own code writes here; a malformed packet is dropped
            with contextlib.suppress(ValueError):
                self._forward_fact(rank, rank_pipe.parse(data))

    def _forward_fact(self, rank: int, fields: dict[str, Any]) -> None:
        """Forward a fact that a rank has reported about itself."""
        from ..state.events import RankRaised, from_wire

        fact, live = from_wire(fields, "rank", {"rank": rank}), self._live[rank]
        live.raised |= isinstance(fact, RankRaised)
        live.returns |= bool(fields.get("returns"))
        self.emit.fact(fact)

    def _exited(self, rank: int, status: int) -> None:
        from ..state.events import RankExited

        live = self._live[rank]
        live.exited = True
        live.process.popen.returncode = os.waitstatus_to_exitcode(status)
        self._drain_packets(rank)
        code, name = process.outcome(status)
        after = process.oom_kills() if name == "SIGKILL" else None
        known = after is not None and self._oom_before is not None
        fact = RankExited(
            time=self.clock(),
            rank=rank,
            exit_code=code,
            signal=name,
            duration_s=round(self.monotonic() - live.started, 3),
            oom_kills=(after or 0) - (self._oom_before or 0) if known else None,
            unreturned=code == 0 and live.returns and live.left is None,
            left=code == 0 and live.returns and live.left is True,
        )
        self.emit.fact(fact)

    def _drain_packets(self, rank: int) -> None:
        """Forward the rank's packets to the last, so that they precede the fact of its end."""
        line = self._live[rank].process.line
        if line.fileno() >= 0:
            while isinstance(packet := rank_pipe.receive(line), tuple):
                self._forward_packet(rank, *packet)

    def _not_started(self, rank: int, kind: str, text: str, code: int) -> None:
        from ..state.events import RankExited, RankRaised

        now = self.clock()
        self.emit.fact(RankRaised(time=now, rank=rank, kind=kind, message=text, traceback=text))
        self.emit.fact(RankExited(time=now, rank=rank, exit_code=code))
