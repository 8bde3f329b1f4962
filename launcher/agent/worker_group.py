"""The ranks of one agent: start them, forward their output, end them, and prove that nothing is left.

This module has no connection to the engine and no loop: the agent's loop calls `on_readable` when a
descriptor is ready, `reap` when a child ended and `poll_timeouts` when time passed, and `emit` sends.

`launcher.state.events` is imported where a fact is made: that import takes longer than all others of an
agent, and costs nothing while the ranks' interpreters are starting.
"""

from __future__ import annotations

import contextlib
import math
import os
import selectors
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TYPE_CHECKING, Any, Protocol

from ..channel import frames
from . import first_code, leftovers, linux, process, rank_pipe
from .boot import Emit, ServiceOrder, StartOrder
from .log_waits import LogWaits
from .process import RankProcess
from .program import Naming
from .raising import INQUIRE_SIGNAL
from .stacks import NATIVE_EVERY_S, POLL_S, Dump

if TYPE_CHECKING:
    from ..state.events import CollectiveCall, Event

LEFTOVER_GRACE_S = 3.0
SERVICE_GRACE_S = 10.0  # Ray's processes end each other in a second or two
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


class HostedStore(Protocol):
    """The gang's store in a process of its own: `launcher.agent.warm.store.GangStore`."""

    pid: int

    def start(self) -> None:
        """Start it; raise `OSError` if there is no room for a process."""


@dataclass(slots=True)
class _Live:
    """A rank's process, or that of a service beside it.

    Attributes:
        service: the order that made it a service; None for a rank that runs the target.
        raised: whether it has reported its exception.
        returns: whether it runs a function.
        left: how the function ended: False by its return, True by `sys.exit`, None by neither.
        ready: whether the service can be used.
        lost: whether it was reported that the service ends and should not.
    """

    process: RankProcess
    started: float
    service: ServiceOrder | None = None
    raised: bool = False
    exited: bool = False
    returns: bool = False
    left: bool | None = None
    ready: bool = False
    lost: bool = False

    @property
    def rank(self) -> int:
        """The rank that it is, or is beside."""
        return self.process.rank


@dataclass(slots=True)
class WorkerGroup:
    """The ranks of one attempt on this agent, from start to proof of death.

    `store` is the gang's store, if this agent hosts it, which stays until the ranks of all hosts have ended.

    Services are started first. They end when they are released, which the engine orders once the ranks that
    run the target have ended on all hosts, and with everything else when the group is stopped.
    """

    agent: int
    host: str
    order: StartOrder
    emit: Emit
    selector: selectors.BaseSelector
    zygote: process.WarmStart | None = None
    store: HostedStore | None = None
    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _live: dict[int, _Live] = field(default_factory=dict)
    _services: dict[int, _Live] = field(default_factory=dict)
    _sources: dict[int, tuple[_Live, int]] = field(default_factory=dict)
    _awaiting: bool = False
    _released: bool = False
    _release_limit: float = float("inf")
    _ladder: StopLadder = StopLadder.UP
    _deadline: float | None = None
    _give_up: float = float("inf")
    _killed: int = 0
    _terminated: int = 0
    _oom_before: int | None = None
    _paused: bool = False
    _dump: Dump | None = None
    _native_at: float = -math.inf
    _changed: str | None = None
    _log_waits: LogWaits = field(default_factory=LogWaits)
    finished: bool = False

    def start(self) -> None:
        """Start every service, and every rank unless ranks wait until they may proceed.

        A rank that cannot be started is reported like one that failed.
        """
        self._oom_before = process.oom_kills()
        short = linux.shortage(len(self.order.ranks) + len(self.order.services))
        if short := short or self._why_no_store():
            for descriptor in (self.order.program, *(each.program for each in self.order.services.values())):
                os.close(descriptor)
            for rank in self.order.ranks:
                self._not_started(rank, "OSError", short, linux.CANNOT_PLACE)
            return
        self._start_services()
        self._awaiting = self.order.awaits
        if not self._awaiting:
            self._start_ranks()

    def _why_no_store(self) -> str:
        """Start the gang's store; why that is impossible, else empty."""
        try:
            if self.store is not None:
                self.store.start()
        except OSError as error:
            return f"no process can be started for the gang's store: {error.strerror}"
        return ""

    def proceed(self) -> None:
        """Start the ranks: the services of the whole gang are ready."""
        if self._awaiting and self._ladder is StopLadder.UP:
            self._awaiting = False
            self._start_ranks()

    def release(self) -> None:
        """Let the services end: the ranks that needed them have ended on all hosts."""
        if not self._released:
            self._released = True
            self._release_limit = self.monotonic() + SERVICE_GRACE_S
            for live in self._services.values():
                if not live.exited:
                    rank_pipe.close_to_rank(live.process.line)

    def _start_services(self) -> None:
        if not self.order.services:
            return
        from ..state.events import RankStarted, ServiceLost, ServiceStarted

        for rank, service in self.order.services.items():
            begun = self._start(rank, service)
            os.close(service.program)
            if isinstance(begun, OSError):
                self._tell(ServiceLost, rank, service, reason=self._why_not_started(begun)[0], started=False)
                if service.is_rank:
                    self._not_started(rank, type(begun).__name__, *self._why_not_started(begun))
                continue
            pid = self._services[rank].process.pid
            self._tell(ServiceStarted, rank, service, pid=pid, is_rank=service.is_rank)
            if service.is_rank:
                self.emit.fact(RankStarted(rank=rank, pid=pid, time=begun))

    def _start_ranks(self) -> None:
        """Start the ranks that run the target; those that are services have begun."""
        services = {rank for rank, service in self.order.services.items() if service.is_rank}
        begun = {rank: self._start(rank) for rank in self.order.ranks if rank not in services}
        os.close(self.order.program)
        from ..state.events import RankEntered, RankStarted

        for rank, result in begun.items():
            if isinstance(result, OSError):
                self._not_started(rank, type(result).__name__, *self._why_not_started(result))
            else:
                self.emit.fact(RankStarted(rank=rank, pid=self._live[rank].process.pid, time=result))
        for rank in services:
            self.emit.fact(RankEntered(rank=rank, time=self.clock()))

    def _start(self, rank: int, service: ServiceOrder | None = None) -> float | OSError:
        """Start one rank, or the service beside it; its start time, or why it cannot be started."""
        env = self._environ(rank)
        try:
            started = process.start_rank(
                rank,
                python=self.order.python,
                root=self.order.root,
                program=service.program if service else self.order.program,
                env=env,
                cwd=self.order.cwd,
                files=self.order.files,
                boot=first_code.SERVICE if service else first_code.RANK,
                launch=process.spawn if service else self._launch(env),
            )
        except OSError as error:
            return error
        live = _Live(started, self.monotonic(), service)
        if service is not None:
            self._services[rank] = live
        if service is None or service.is_rank:
            self._live[rank] = live
        self._watch(live)
        return self.clock()

    def _launch(self, env: Mapping[str, str]) -> process.Starter:
        """How a rank of this environment is started: as a fork if that makes no difference, else afresh."""
        order = self.order
        if self.zygote is None or order.fresh or self.zygote.why_not(order.python, env, order.folders):
            return process.spawn
        if self._changed is None:
            self._changed = self.zygote.changed()
        if self._changed:
            return process.spawn
        return self.zygote.fork

    def _why_not_started(self, error: OSError) -> tuple[str, int]:
        return linux.start_failure(error, self.order.python, self.order.cwd)

    @property
    def _all(self) -> list[_Live]:
        """Every process that was started; a rank that is a service counts once."""
        return list({id(live): live for live in (*self._live.values(), *self._services.values())}.values())

    def pids(self) -> dict[int, tuple[int, ...]]:
        """The own processes of every rank, for the sampler; called from its thread."""
        found: dict[int, tuple[int, ...]] = {}
        for live in [*self._live.values(), *self._services.values()]:
            pids = found.get(live.rank, ())
            if not live.exited and live.process.pid not in pids:
                found[live.rank] = (*pids, live.process.pid)
        return found

    def on_readable(self, descriptor: int) -> None:
        """Forward what a rank has written; stop watching a closed descriptor."""
        live, stream = self._sources[descriptor]
        is_open = self._pump_line(live) if stream == 0 else self._pump_pipe(descriptor, live.rank, stream)
        if not is_open:
            self._forget(descriptor)

    def pause(self) -> None:
        """Stop reading from the ranks until `resume`: the channel is full."""
        if not self._paused:
            self._paused = True
            self._log_waits.begin(self.monotonic())
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
        by_pid = {live.process.pid: live for live in self._all}
        for pid, status in process.reap():
            if (live := by_pid.get(pid)) is not None:
                self._exited(live, status)

    def stop(self, *, grace_s: float) -> None:
        """Send SIGTERM now, and SIGKILL to the whole process tree after the grace period.

        A rank that has raised is ending already, and is left to finish with its own exit code. Services are
        needed until the ranks have ended; if no rank has begun, they are not.
        """
        now = self.monotonic()
        deadline = now + grace_s
        self._deadline = deadline if self._deadline is None else min(self._deadline, deadline)
        if self._ladder is StopLadder.UP:
            self._ladder = StopLadder.TERMINATING
            running = [v.process.pid for v in self._leading if not v.exited and not v.raised]
            process.send(running, signal.SIGTERM)
            process.send(running, signal.SIGCONT)
            if self._awaiting:
                self.release()

    def request_exceptions(self) -> None:
        """Ask every rank for an exception in flight. A rank inside C code does not answer."""
        for live in self._leading:
            pid = live.process.pid
            if not live.exited and not live.raised and linux.catches(pid, INQUIRE_SIGNAL):
                process.send([pid], INQUIRE_SIGNAL)

    def dump_stacks(self, number: int) -> None:
        """Report the stacks of every rank, as part of the current round if there is one."""
        now = self.monotonic()
        if self._dump is None:
            looks_below = now - self._native_at >= NATIVE_EVERY_S
            self._native_at = now if looks_below else self._native_at
            self._dump = Dump(self.emit, Naming(self.order.copied), looks_below=looks_below)
        ranks = {rank: live.process for rank, live in self._live.items() if not live.exited}
        self._dump.add(ranks, number=number, now=now)

    def poll_timeouts(self) -> None:
        """Do what is due by the clock: escalate, end leftovers, and finish once nothing is alive."""
        now = self.monotonic()
        if self._dump and self._dump.poll(now, self.clock()):
            self._dump = None
        if self._dump and self._all_exited:
            self._dump.close()
        self._tell_log_waits(now)
        if self._all_exited and self._ladder is not StopLadder.KILLING:
            self._end_leftovers(now)
        if now >= self._release_limit and not self._all_exited and self._ladder is not StopLadder.KILLING:
            self._ladder, self._give_up = StopLadder.KILLING, now + GIVE_UP_S
        if self._ladder is StopLadder.TERMINATING and self._deadline is not None and now >= self._deadline:
            self._ladder = StopLadder.KILLING
            self._give_up = now + GIVE_UP_S
        if self._ladder is StopLadder.KILLING:
            self._kill(now)

    def _tell_log_waits(self, now: float) -> None:
        """Report ranks that wait until their output is read, and those that no longer do."""
        pipes = ((live.rank, descriptor) for descriptor, (live, stream) in self._sources.items() if stream)
        for rank, waits in self._log_waits.look(now, pipes):
            from ..state.events import LogAwaited

            self.emit.fact(LogAwaited(time=self.clock(), rank=rank, over=not waits))

    def timeout(self) -> float | None:
        """Seconds until `poll_timeouts` has something to do; None if only an event can change that."""
        if self.finished:
            return None
        waits = (self._stop_timeout(), self._log_waits.timeout(self.monotonic()))
        return min((wait for wait in waits if wait is not None), default=None)

    def _stop_timeout(self) -> float | None:
        """Seconds until the next step of an end, or until stacks are looked for; None: never."""
        if self._ladder is StopLadder.KILLING:
            return 0.01
        if self._all_exited:
            return 0.02
        limit_s = POLL_S if self._dump else SELECT_LIMIT_S
        deadline = min(self._release_limit, float("inf") if self._deadline is None else self._deadline)
        if deadline == float("inf"):
            return POLL_S if self._dump else None
        return min(limit_s, max(0.0, deadline - self.monotonic()))

    @property
    def _leading(self) -> list[_Live]:
        """The ranks that run the target."""
        return [live for live in self._live.values() if live.service is None]

    @property
    def _all_exited(self) -> bool:
        """Whether everything that was started has ended, and nothing more is to be started."""
        waits = self._awaiting and self._ladder is StopLadder.UP
        return not waits and all(live.exited for live in self._all)

    def _end_leftovers(self, now: float) -> None:
        """Send SIGTERM to what ended ranks left running; SIGKILL follows after a short grace period."""
        left = [
            pid for pid in process.descendants(os.getpid()) if self.store is None or pid != self.store.pid
        ]
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
        for live in self._all:
            os.close(live.process.stacks)
        if self._awaiting:
            os.close(self.order.program)
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
        live, stream = self._sources[descriptor]
        if stream == 0:
            self._drain_packets(live)
        else:
            while data := process.read(descriptor):
                self.emit.raw(frames.Kind.OUTPUT, data, rank=live.rank, stream=stream)
        self._forget(descriptor)

    def _watch(self, live: _Live) -> None:
        for descriptor, stream in (
            (live.process.line.fileno(), 0),
            (live.process.stdout, frames.STDOUT),
            (live.process.stderr, frames.STDERR),
        ):
            self._sources[descriptor] = (live, stream)
            if not self._paused:
                self.selector.register(descriptor, selectors.EVENT_READ, self)

    def _forget(self, descriptor: int) -> None:
        live, stream = self._sources.pop(descriptor)
        if not self._paused:
            self.selector.unregister(descriptor)
        if stream == 0:
            live.process.line.close()
        else:
            os.close(descriptor)

    def _pump_pipe(self, descriptor: int, rank: int, stream: int) -> bool:
        """Forward one piece of output; False at the end of the pipe."""
        data = process.read(descriptor)
        if data:
            self.emit.raw(frames.Kind.OUTPUT, data, rank=rank, stream=stream)
        return data != b""

    def _pump_line(self, live: _Live) -> bool:
        """Forward waiting packets; False when the rank has closed its end."""
        for _ in range(64):
            packet = rank_pipe.receive(live.process.line)
            if packet == "empty":
                return not live.exited
            if packet == "closed":
                return False
            self._forward_packet(live, *packet)
        return True

    def _forward_packet(self, live: _Live, kind: bytes, data: bytes) -> None:
        """Forward a packet, or note what it says."""
        # only rankdeck's own code writes here; a malformed packet is dropped
        with contextlib.suppress(ValueError):
            if (forward := _RESULTS.get(kind)) is not None:
                self.emit.raw(forward, data, rank=live.rank)
            elif kind == rank_pipe.LEFT:
                live.left = bool(rank_pipe.parse(data).get("by_exit"))
            elif kind == rank_pipe.FACT:
                self._forward_fact(live, rank_pipe.parse(data))
            elif kind == rank_pipe.READY and live.service:
                self._service_ready(live, live.service, str(rank_pipe.parse(data).get("url", "")))
            elif kind == rank_pipe.LOST and live.service:
                self._service_lost(live, live.service, str(rank_pipe.parse(data).get("reason", "")))

    def _service_ready(self, live: _Live, service: ServiceOrder, url: str) -> None:
        from ..state.events import ServiceReady

        live.ready = True
        self._tell(ServiceReady, live.rank, service, url=url)

    def _service_lost(self, live: _Live, service: ServiceOrder, reason: str) -> None:
        """Report once that a service ends, unless it should."""
        from ..state.events import ServiceLost

        if not live.lost and self._ladder is StopLadder.UP and not self._released:
            live.lost = True
            self._tell(ServiceLost, live.rank, service, reason=reason, started=live.ready)

    def _tell(self, kind: Callable[..., Event], rank: int, service: ServiceOrder, **fields: Any) -> None:
        """Send a fact about a service."""
        place = {"agent": self.agent, "host": self.host, "rank": rank}
        self.emit.fact(kind(time=self.clock(), **place, name=service.name, **fields))

    def _forward_fact(self, live: _Live, fields: dict[str, Any]) -> None:
        """Forward a fact that a rank has reported about itself."""
        from ..state.events import RankRaised, from_wire

        fact = from_wire(fields, "rank", {"rank": live.rank})
        live.raised |= isinstance(fact, RankRaised)
        live.returns |= bool(fields.get("returns"))
        self.emit.fact(fact)

    def _exited(self, live: _Live, status: int) -> None:
        live.exited = True
        self._drain_packets(live)
        code, name = process.outcome(status)
        if live.service is None:
            self._report_exit(live, code, name)
            return
        how = f"it was killed by {name}" if name else f"it ended with code {code}"
        self._service_lost(live, live.service, how)
        if live.service.is_rank:
            ended = (0, None) if self._released and self._ladder is StopLadder.UP else (code, name)
            self._report_exit(live, *ended)

    def _report_exit(self, live: _Live, code: int, name: str | None) -> None:
        from ..state.events import RankExited

        after = process.oom_kills() if name == "SIGKILL" else None
        known = after is not None and self._oom_before is not None
        fact = RankExited(
            time=self.clock(),
            rank=live.rank,
            exit_code=code,
            signal=name,
            duration_s=round(self.monotonic() - live.started, 3),
            oom_kills=(after or 0) - (self._oom_before or 0) if known else None,
            unreturned=code == 0 and live.returns and live.left is None,
            left=code == 0 and live.returns and live.left is True,
            after_return=bool(code or name) and live.left is False,
            collectives=self._last_calls(live) if code or name else (),
        )
        self.emit.fact(fact)

    def _last_calls(self, live: _Live) -> tuple[CollectiveCall, ...]:
        """Its last collectives, if the watchdog of NCCL has written them down."""
        from ..state.events import CollectiveCall
        from . import flight_record

        since = self.clock() - (self.monotonic() - live.started)
        for path in flight_record.files_of(self._environ(live.rank), live.rank):
            if found := flight_record.collectives_in(os.path.join(self.order.cwd, path), since):
                return tuple(CollectiveCall(**call) for call in found)
        return ()

    def _environ(self, rank: int) -> dict[str, str]:
        return {**self.order.env, **self.order.ranks[rank]}

    def _drain_packets(self, live: _Live) -> None:
        """Forward the rank's packets to the last, so that they precede the fact of its end."""
        line = live.process.line
        if line.fileno() >= 0:
            while isinstance(packet := rank_pipe.receive(line), tuple):
                self._forward_packet(live, *packet)

    def _not_started(self, rank: int, kind: str, text: str, code: int) -> None:
        from ..state.events import RankExited, RankRaised

        now = self.clock()
        self.emit.fact(RankRaised(time=now, rank=rank, kind=kind, message=text, traceback=text))
        self.emit.fact(RankExited(time=now, rank=rank, exit_code=code))
