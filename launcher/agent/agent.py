"""The agent: one process beside its ranks, between them and the engine.

It connects to the engine over one stream, starts ranks, forwards their output, samples their devices and
ends them: on the engine's order, when the engine or Spark's task ends, or when the agent itself is
terminated. Started as ``python -P -c BOOT ROOT`` with one JSON line on standard input (`Boot`).
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import sys
import time
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from ..channel import frames, network
from ..channel.connection import EngineConnection
from ..pacing import TurnPacer
from . import leftovers, linux, process
from .boot import STDIN, Boot, prepare, read_boot
from .hello import AgentGpus, agent_gpus, connect_to_engine, greeting
from .worker_group import WorkerGroup

if TYPE_CHECKING:
    from ..state.events import Event
    from .files.collector import Collector
    from .files.preparation import Preparation
    from .host_probe import HostProbe
    from .shares import TaskShares
    from .telemetry import Sampling
    from .warm.forking import Fork, Zygote
    from .warm.store import GangStore

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.agent import agent; agent.main()"
ORPHANED_GRACE_S = 1.0
REACH_S = 3.0
GATHER_S, AT_ONCE = 0.2, 64
MUCH, MUCH_GATHER_S = 16 << 10, 0.005  # in 0.2 s, a rank that writes less than 3 MB/s fills no pipe
PACKET = 512


def main() -> None:
    """Run as an agent of a fresh process, under a warden that outlives it."""
    root = sys.path[0]
    boot = read_boot()
    linux.rename(process.WARDEN)
    process.fork_warden(keep_from_warden=boot.descriptor)
    work(boot, root)


def work(boot: Boot, root: str, zygote: Zygote | None = None) -> Fork | None:
    """Run as an agent under its warden. Returns, besides at its end, in each fork of `zygote`.

    Args:
        boot: its settings.
        root: the folder or zip that holds `launcher`.
        zygote: this process as one whose forks become ranks; None if each rank is to be a fresh process.

    Returns:
        What a fork is to do; None at the agent's end.
    """
    linux.rename(process.AGENT)
    if boot.inherited:
        boot.inherited.apply()
    gpus = agent_gpus(boot)
    stream = connect_to_engine(boot)
    wake = process.wake_on(signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM)

    def run() -> None:
        with contextlib.closing(stream):
            line = EngineConnection(stream, boot.lost_after_s)
            Agent(boot, gpus, line, shareable_path(root), wake, zygote).run()

    if zygote is not None:
        return zygote.forker.serve(run)
    run()
    return None


def shareable_path(root: str) -> str:
    """The path in a form that other processes can use too, while this process lives."""
    return root.replace("/proc/self/", f"/proc/{os.getpid()}/", 1)


class Agent:
    """The agent's loop. Everything but sampling happens on its thread."""

    def __init__(
        self,
        boot: Boot,
        gpus: AgentGpus,
        line: EngineConnection,
        root: str,
        wake: int,
        zygote: Zygote | None = None,
    ) -> None:
        self._boot = boot
        self._gpus = gpus
        self._line = line
        self._root = root
        self._wake = wake
        self._zygote = zygote
        self._selector = selectors.DefaultSelector()
        self._payload, self._bundle = bytearray(), bytearray()
        self._preparation: Preparation | None = None
        self._collector: Collector | None = None
        self._scratch = ""
        self._group: WorkerGroup | None = None
        self._files = linux.raise_file_limit()
        self._port = network.hold_port()
        self._held: list[network.HeldPort] = []
        self._sampling: Sampling | None = None
        self._shares: TaskShares | None = None
        self._pacer = TurnPacer(GATHER_S, AT_ONCE, much=MUCH, busy_pause_s=MUCH_GATHER_S, urgent=(wake, line))
        self._forwarded = 0
        self._quitting = False
        self._store: GangStore | None = None
        self._probe: HostProbe | None = None

    def run(self) -> None:
        """Join, serve until told to quit, and leave nothing running."""
        linux.become_subreaper()
        self._selector.register(self._wake, selectors.EVENT_READ, self._on_signal)
        try:
            hello = greeting(
                self._boot,
                self._gpus,
                port=self._port.number,
                address=self._line.address,
                store=self._zygote is not None and self._zygote.has_torch,
            )
            self._line.join(self._boot.token, hello)
            self._serve()
        except (ConnectionError, frames.WireError):
            self._abandon()
        finally:
            if self._sampling:
                self._sampling.stop()
            if self._preparation:
                self._preparation.close()
            if self._collector:
                self._collector.close()
            self._end_store()
            leftovers.clear(os.environ)

    # --- what the worker group emits -----------------------------------------------------------------

    def fact(self, fact: Event) -> None:
        """Send a fact to the engine."""
        from ..state.events import to_wire

        self._forwarded += PACKET
        self._line.put(frames.document(frames.Kind.FACT, to_wire(fact)))

    def raw(self, kind: frames.Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Send a rank's bytes with the time at which they were read."""
        self._forwarded += PACKET + len(data)
        self._line.put(frames.header(kind, len(data), rank=rank, stream=stream, time_ns=time.time_ns()), data)

    # --- the loop ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        self._selector.register(self._line, selectors.EVENT_READ, self._on_engine)
        if self._boot.ledger:
            self._share(self._boot.ledger)
        if self._boot.lifeline:
            self._selector.register(STDIN, selectors.EVENT_READ, self._on_lifeline)
        if self._boot.watch:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(self._boot.watch)
                self._selector.register(descriptor, selectors.EVENT_READ, self._on_engine_ended)
        while not (self._quitting and self._idle and not self._line.pending):
            self._turn()

    @property
    def _idle(self) -> bool:
        return self._group is None or self._group.finished

    def _turn(self) -> None:
        """One turn of the loop: wait, handle what is ready, advance the worker group, write."""
        self._watch_for_room()
        ready = self._selector.select(self._timeout())
        if any(isinstance(key.data, WorkerGroup) for key, _ in ready):
            self._pacer.gather()
        before = self._forwarded
        for key, _ in ready:
            if isinstance(key.data, WorkerGroup):
                self._forward_output(key.fd)
            else:
                key.data()
        self._pacer.handled(self._forwarded - before)
        if self._group and not self._group.finished:
            self._group.poll_timeouts()
            if self._group.finished:
                self._report_idle()
        if self._collector:
            self._collector.advance()
        if self._shares:
            self._shares.advance()
        self._line.keep_alive()
        self._flush()

    def _timeout(self) -> float | None:
        sources = (self._group, self._line, self._collector, self._shares)
        times = (each.timeout() for each in sources if each)
        return min((t for t in times if t is not None), default=None)

    def _report_idle(self) -> None:
        """Report that the worker group has finished, with a fresh port for the next one."""
        if self._sampling:
            self._sampling.on_ranks_ended()
        self._let_go()
        self._port.sock.close()
        self._port = network.hold_port()
        self._line.put(frames.document(frames.Kind.IDLE, {"port": self._port.number}))

    def _forward_output(self, descriptor: int) -> None:
        if self._group and not self._line.full:
            self._group.on_readable(descriptor)

    def _watch_for_room(self) -> None:
        """Watch the stream for room only while frames wait to be written."""
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
            self._handle(frame)

    def _handle(self, frame: frames.Frame) -> None:
        match frame.kind:
            case frames.Kind.PAYLOAD:
                self._payload += frame.payload
            case frames.Kind.BUNDLE:
                self._bundle += frame.payload
            case frames.Kind.PREPARE:
                document = frame.document()
                self._prepare(str(document["folder"]), collect=document.get("collect") is not False)
            case frames.Kind.CONTENT if self._preparation:
                self._preparation.on_content(frame.payload)
            case frames.Kind.SWEEP if self._collector:
                self._collector.sweep([float(time) for time in frame.document()["deaths"]])
            case frames.Kind.REFUSE if self._collector:
                self._collector.on_refused(str(frame.document()["path"]))
            case frames.Kind.REACH:
                self._reach(frame.document())
            case frames.Kind.AGREED if self._shares:
                self._shares.on_agreed(frame.document())
            case frames.Kind.HOLD:
                self._hold(int(frame.document()["count"]))
            case frames.Kind.PROCEED if self._group:
                self._group.proceed()
            case frames.Kind.RELEASE if self._group:
                self._group.release()
            case frames.Kind.START:
                self._start(frame.document())
            case frames.Kind.STOP if self._group:
                self._group.stop(grace_s=float(frame.document()["grace_s"]))
            case frames.Kind.INQUIRE if self._group:
                self._group.request_exceptions()
            case frames.Kind.STACKS if self._group:
                self._group.dump_stacks(int(frame.document()["round"]))
            case frames.Kind.CHECK if self._group is None and self._probe is None:
                self._check(frame.document())
            case frames.Kind.QUIT:
                self._quitting = True
                self._stop_group()
            case _:
                pass

    def _share(self, ledger: str) -> None:
        """Report what the task deals to its ranks from now on."""
        from ..data.shares import ShareLedger
        from .shares import TaskShares

        self._shares = TaskShares(ShareLedger(ledger), self._line.put, self.fact)

    def _reach(self, request: dict[str, Any]) -> None:
        reached = network.reach(request["addresses"], int(request["port"]), REACH_S)
        found = {address: [way.interface, way.source] for address, way in reached.items()}
        self._line.put(frames.document(frames.Kind.REACHED, {"found": found}))

    def _check(self, document: Mapping[str, Any]) -> None:
        """Begin to find out about this host. Such an agent starts no ranks."""
        from .. import serialization
        from ..state.host_facts import HostQuestions
        from .host_probe import HostProbe

        questions = serialization.from_plain(HostQuestions, document)
        self._probe = HostProbe(questions, self._root, self._boot.agent, self._port.sock, self._files)
        self._selector.register(self._probe, selectors.EVENT_READ, self._on_probed)

    def _on_probed(self) -> None:
        from .. import serialization

        assert self._probe is not None
        for facts in self._probe.take():
            self._line.put(frames.document(frames.Kind.CHECKED, serialization.to_plain(facts)))

    def _hold(self, count: int) -> None:
        """Hold ports for the ranks' framework, in place of those of the last attempt."""
        self._let_go()
        self._held = [network.hold_port() for _ in range(count)]
        self._line.put(frames.document(frames.Kind.HELD, {"ports": [held.number for held in self._held]}))

    def _let_go(self) -> None:
        while self._held:
            self._held.pop().sock.close()

    def _prepare(self, folder: str, *, collect: bool) -> None:
        """Begin to get the run's files, whose manifest has arrived; `folder` may hold them already.

        With `collect`, what ranks write in copies of them is sent home.
        """
        from ..spec.files.bundle import Manifest
        from .files.preparation import Preparation

        manifest = Manifest.decode(bytes(self._bundle))
        self._bundle.clear()
        self._end_preparation()
        self._preparation = Preparation(
            manifest,
            self._folder(),
            folder,
            os.environ,
            self._answer,
            partial(self._on_prepared, manifest.workdir if collect else None),
        )
        self._selector.register(self._preparation, selectors.EVENT_READ, self._preparation.advance)

    def _end_preparation(self) -> None:
        """Forget the last attempt's: what is laid out for another one is not what ranks wrote."""
        if self._preparation:
            self._selector.unregister(self._preparation)
            self._preparation.close()
        if self._collector:
            for source in self._collector.sources:
                self._selector.unregister(source)
            self._collector.close()
            self._collector = None

    def _on_prepared(self, workdir: str | None, prepared: Preparation) -> None:
        """Watch the working folder before a rank can write to it, if what ranks write is to come home."""
        if workdir is not None and prepared.leads and prepared.layout and not prepared.layout.shared:
            from .files.collector import Collector

            put, pending = self._line.put, partial(getattr, self._line, "pending")
            self._collector = Collector(prepared.layout.copied, workdir, put, pending)
            for source, handle in self._collector.sources.items():
                self._selector.register(source, selectors.EVENT_READ, handle)
        prepared.answer(collects=self._collector is not None)

    def _answer(self, kind: frames.Kind, document: Mapping[str, Any]) -> None:
        self._line.put(frames.document(kind, document))

    def _start(self, start: dict[str, Any]) -> None:
        """Start a worker group. Its program is a JSON line and the pickle that arrived before the order."""
        layout = self._preparation.layout if self._preparation else None
        config = self._config_file(start["program"].get("config", ""))
        payload, folder = bytes(self._payload), partial(leftovers.make_short_folder, os.environ)
        order = prepare(
            start,
            payload,
            layout,
            self._root,
            files=self._files,
            config=config,
            ledger=self._boot.ledger,
            folder=folder,
        )
        self._payload.clear()
        if order.shared_memory:
            leftovers.note_segments(self._folder(), order.shared_memory)
        self._group = WorkerGroup(
            self._boot.agent, self._boot.host, order, self, self._selector, self._zygote
        )
        if self._sampling and self._zygote:
            self._sampling.stop()  # a process with threads must not be forked
        self._end_store()
        if order.store and self._zygote:
            from .warm.store import GangStore  # a zygote has it

            self._store = self._group.store = GangStore(self._zygote, self._port.sock)
        self._group.start()
        if self._shares:
            self._shares.begin(sorted(order.ranks))
        self._sample(self._group)

    def _end_store(self) -> None:
        """End the store of an attempt whose ranks have ended on all hosts."""
        if self._store:
            self._store.end()

    def _folder(self) -> str:
        """The agent's own folder, which ends with it."""
        self._scratch = self._scratch or leftovers.make_folder(os.environ)
        return self._scratch

    def _config_file(self, text: str) -> str:
        """The path of a file with the framework's configuration; empty without one."""
        if not text:
            return ""
        path = os.path.join(self._folder(), "config.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def _sample(self, group: WorkerGroup) -> None:
        """Start sampling; the sensors are imported while the ranks' interpreters start."""
        from .telemetry import Sampling

        if self._sampling is None:
            self._sampling = Sampling(self._boot, self._gpus.devices, self.fact)
            self._selector.register(self._sampling, selectors.EVENT_READ, self._sampling.deliver)
        self._sampling.start(group.pids)

    def _on_signal(self) -> None:
        came = process.drain(self._wake)
        if self._group:
            self._group.reap()
        if signal.SIGTERM in came:
            raise ConnectionError("the agent was terminated")

    def _on_engine_ended(self) -> None:
        raise ConnectionError("the engine's process ended")

    def _on_lifeline(self) -> None:
        """End the ranks when Spark ends the task: its slot and GPUs no longer belong to this agent."""
        if os.read(STDIN, 1):
            return
        self._selector.unregister(STDIN)
        if self._idle:
            raise ConnectionError("Spark ended the task")
        from ..state.events import TaskLost

        self.fact(TaskLost(time=time.time(), task=self._boot.agent, reason="Spark ended the task"))
        self._stop_group()

    # --- the end -------------------------------------------------------------------------------------

    def _stop_group(self) -> None:
        """Stop ranks that nobody waits for any more, after a short grace period at most."""
        if self._group and not self._group.finished:
            self._group.stop(grace_s=min(self._group.order.grace_s, ORPHANED_GRACE_S))

    def _abandon(self) -> None:
        """End the ranks soon after the engine is lost. Nothing can be reported any more."""
        for source in (self._line, STDIN):
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(source)
        self._line.abandon()
        if self._group and not self._group.finished:
            self._group.resume()
        self._stop_group()
        while self._group and not self._group.finished:
            self._abandoned_turn(self._group)

    def _abandoned_turn(self, group: WorkerGroup) -> None:
        for key, _ in self._selector.select(group.timeout()):
            if isinstance(key.data, WorkerGroup):
                group.on_readable(key.fd)
            elif key.fd == self._wake:
                process.drain(self._wake)
                group.reap()
            else:
                self._selector.unregister(key.fd)
        group.poll_timeouts()
