"""The agent: one process beside its ranks, between them and the engine.

It joins the engine over one stream, starts the ranks it is told to, carries what they say, samples
their devices and ends them: when told, when the engine or Spark's task goes away, or when it is itself
terminated. Started as ``python -P -c BOOT ROOT`` with one JSON line on standard input (`Boot`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from typing import TYPE_CHECKING, Any

from ..channel import frames, network
from ..channel.connection import EngineConnection
from . import linux, process
from .boot import STDIN, Boot, prepare, read_boot
from .hello import Belongings, arrive, belongings, greeting
from .worker_group import WorkerGroup

if TYPE_CHECKING:
    from ..spec.bundle import UnpackedBundle
    from ..state.events import Event
    from .telemetry import Sampling

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.agent import agent; agent.main()"
ORPHANED_GRACE_S = 1.0
REACH_S = 3.0


def main() -> None:
    """Run as an agent, under a warden that outlives it."""
    root = sys.path[0]
    boot = read_boot()
    if boot.inherited:
        boot.inherited.apply()
    process.fork_warden(keep_from_warden=boot.descriptor)
    own = belongings(boot)
    with contextlib.closing(arrive(boot)) as stream:
        Agent(boot, own, EngineConnection(stream, boot.lost_after_s), lasting(root)).run()


def lasting(root: str) -> str:
    """The same place by a name that holds in other processes too, while this one lives."""
    return root.replace("/proc/self/", f"/proc/{os.getpid()}/", 1)


class Agent:
    """The loop: everything happens on this thread but sampling."""

    def __init__(self, boot: Boot, own: Belongings, line: EngineConnection, root: str) -> None:
        self._boot = boot
        self._own = own
        self._line = line
        self._root = root
        self._selector = selectors.DefaultSelector()
        self._payload, self._bundle = bytearray(), bytearray()
        self._unpacked: UnpackedBundle | None = None
        self._group: WorkerGroup | None = None
        self._files = linux.widen()
        self._port = network.hold_port()
        self._sampling: Sampling | None = None
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._terminated = False
        self._quitting = False

    def run(self) -> None:
        """Join, serve until told to quit, and leave nothing running."""
        linux.become_subreaper()
        self._listen_to_signals()
        try:
            said = greeting(self._boot, self._own, port=self._port.number, address=self._line.address)
            self._line.join(self._boot.token, said)
            self._serve()
        except (ConnectionError, frames.WireError):
            self._abandon()
        finally:
            if self._sampling:
                self._sampling.stop()
            process.clear_folders(os.environ, process.SOURCES)

    # --- what the worker group emits -----------------------------------------------------------------

    def fact(self, fact: Event) -> None:
        """Send a fact to the engine."""
        from ..state.events import to_wire

        self._line.put(frames.document(frames.Kind.FACT, to_wire(fact)))

    def raw(self, kind: frames.Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Send a rank's bytes, stamped with the moment at which they were read."""
        self._line.put(frames.header(kind, len(data), rank=rank, stream=stream, time_ns=time.time_ns()), data)

    # --- the loop ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        self._selector.register(self._line, selectors.EVENT_READ, self._on_engine)
        if self._boot.lifeline:
            self._selector.register(STDIN, selectors.EVENT_READ, self._on_lifeline)
        if self._boot.watch:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(self._boot.watch)
                self._selector.register(descriptor, selectors.EVENT_READ, self._on_orphaned)
        while not (self._quitting and self._idle and not self._line.pending):
            self._turn()

    @property
    def _idle(self) -> bool:
        return self._group is None or self._group.finished

    def _turn(self) -> None:
        """One turn of the loop: wait, handle what is ready, advance the worker group, write."""
        self._await_writing()
        for key, _ in self._selector.select(self._timeout()):
            if isinstance(key.data, WorkerGroup):
                self._carry_output(key.fd)
            else:
                key.data()
        if self._group and not self._group.finished:
            self._group.poll_timeouts()
            if self._group.finished:
                self._rest()
        self._line.tend()
        self._flush()

    def _timeout(self) -> float | None:
        times = (self._group.timeout() if self._group else None, self._line.timeout())
        return min((t for t in times if t is not None), default=None)

    def _rest(self) -> None:
        """Report that the worker group has finished, with a fresh port for the next one."""
        self._port.sock.close()
        self._port = network.hold_port()
        self._line.put(frames.document(frames.Kind.IDLE, {"port": self._port.number}))

    def _carry_output(self, descriptor: int) -> None:
        if self._group and not self._line.full:
            self._group.on_readable(descriptor)

    def _await_writing(self) -> None:
        """Listen for room in the stream exactly while something waits for it."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._line.pending else 0)
        self._selector.modify(self._line, events, self._on_engine)

    def _flush(self) -> None:
        self._line.flush()
        if self._group and self._line.full:
            self._group.pause()
        elif self._group and self._line.drained:
            self._group.resume()

    # --- what arrives --------------------------------------------------------------------------------

    def _on_engine(self) -> None:
        for frame in self._line.receive():
            self._obey(frame)

    def _obey(self, frame: frames.Frame) -> None:
        match frame.kind:
            case frames.Kind.PAYLOAD:
                self._payload += frame.payload
            case frames.Kind.BUNDLE:
                self._bundle += frame.payload
            case frames.Kind.REACH:
                self._reach(frame.document())
            case frames.Kind.START:
                self._start(frame.document())
            case frames.Kind.STOP if self._group:
                self._group.stop(grace_s=float(frame.document()["grace_s"]))
            case frames.Kind.INQUIRE if self._group:
                self._group.ask_for_exceptions()
            case frames.Kind.STACKS if self._group:
                self._group.dump_stacks(int(frame.document()["round"]))
            case frames.Kind.QUIT:
                self._quitting = True
                self._stop_group()
            case _:
                pass

    def _reach(self, asked: dict[str, Any]) -> None:
        from ..channel import network

        found = network.reach(asked["addresses"], int(asked["port"]), REACH_S)
        self._line.put(frames.document(frames.Kind.REACHED, {"found": found}))

    def _start(self, start: dict[str, Any]) -> None:
        """Start a worker group. Its program is a JSON line, and the pickle that came before the order."""
        if self._bundle and self._unpacked is None:
            from ..spec.bundle import unpack_bundle

            self._unpacked = unpack_bundle(bytes(self._bundle), process.make_folder(os.environ))
        order = prepare(start, bytes(self._payload), self._unpacked, self._root, files=self._files)
        self._payload.clear()
        self._bundle.clear()
        self._group = WorkerGroup(self._boot.agent, self._boot.host, order, self, self._selector)
        self._group.start()
        os.close(order.program)
        self._sample(self._group)

    def _sample(self, group: WorkerGroup) -> None:
        """Begin to sample; the sensors are imported while the ranks' interpreters start."""
        from .telemetry import Sampling

        if self._sampling is None:
            self._sampling = Sampling(self._boot, self._own.devices, self.fact)
            self._selector.register(self._sampling, selectors.EVENT_READ, self._sampling.deliver)
        self._sampling.start(group.pids)

    def _on_child(self) -> None:
        process.empty(self._wake[0])
        if self._group:
            self._group.reap()
        if self._terminated:
            raise ConnectionError("the agent was terminated")

    def _on_orphaned(self) -> None:
        raise ConnectionError("the engine's process ended")

    def _on_lifeline(self) -> None:
        """Spark has ended the task: its slot, and the GPUs that came with it, are ours no more."""
        if os.read(STDIN, 1):
            return
        self._selector.unregister(STDIN)
        if self._idle:
            raise ConnectionError("Spark ended the task")
        from ..state.events import TaskLost

        self.fact(TaskLost(time=time.time(), task=self._boot.agent, reason="Spark ended the task"))
        self._stop_group()

    def _listen_to_signals(self) -> None:
        """SIGCHLD and SIGTERM wake the loop; Python's own wakeup descriptor does it without a race.

        Handlers, not SIG_IGN: what is ignored here would be ignored in every rank, for ever.
        """
        for signum in (signal.SIGCHLD, signal.SIGINT, signal.SIGHUP):
            signal.signal(signum, lambda *_: None)
        signal.signal(signal.SIGTERM, self._on_terminate)
        signal.set_wakeup_fd(self._wake[1], warn_on_full_buffer=False)
        self._selector.register(self._wake[0], selectors.EVENT_READ, self._on_child)

    def _on_terminate(self, *_: object) -> None:
        self._terminated = True

    # --- the end -------------------------------------------------------------------------------------

    def _stop_group(self) -> None:
        """Nobody waits for the ranks any more: give them a moment at most."""
        if self._group and not self._group.finished:
            self._group.stop(grace_s=min(self._group.order.grace_s, ORPHANED_GRACE_S))

    def _abandon(self) -> None:
        """The engine is gone: end the ranks soon, with nobody left to tell."""
        for source in (self._line, STDIN):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(source)
        self._line.abandon()
        self._terminated = False
        if self._group and not self._group.finished:
            self._group.resume()
        self._stop_group()
        while self._group and not self._group.finished:
            self._abandoned_turn(self._group)

    def _abandoned_turn(self, group: WorkerGroup) -> None:
        for key, _ in self._selector.select(group.timeout()):
            if isinstance(key.data, WorkerGroup):
                group.on_readable(key.fd)
            elif key.fd == self._wake[0]:
                process.empty(self._wake[0])
                group.reap()
            else:
                self._selector.unregister(key.fd)
        group.poll_timeouts()
