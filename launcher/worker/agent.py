"""The agent: one process beside its ranks, between them and the engine.

It joins the engine over one socket, starts the ranks it is told to, streams what they say, samples
their devices and ends them: when told, when the engine goes away, or when it is itself terminated.
Started as ``python -P -c BOOT ROOT`` with one JSON line on standard input (`Boot`).
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher import codec
from launcher.spec import Device
from launcher.worker import handshake, kernel, port, process, warden, wire
from launcher.worker.gang import Gang
from launcher.worker.order import Order
from launcher.worker.outbox import Outbox
from launcher.worker.sampling import Sampling

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.worker import agent; agent.main()"
ORPHANED_GRACE_S = 1.0
HANDSHAKE_S = 30.0
RECEIVE_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Boot:
    """What an agent is born with; it comes by a pipe, so the token is on no command line.

    Attributes:
        agent: the agent's number.
        token: what proves that both ends belong to one run.
        descriptor: an inherited socket to the engine.
        watch: a process whose end is the engine's end (its socket may live on in forked children).
        sample_s: seconds between samples.
        devices: the GPUs to sample.
    """

    agent: int
    token: str
    descriptor: int
    watch: int = 0
    sample_s: float = 1.0
    host: str = field(default_factory=socket.gethostname)
    devices: tuple[Device, ...] = ()


def main() -> None:
    """Run as an agent, under a warden that outlives it."""
    root = sys.path[0]
    boot = codec.from_plain(Boot, json.loads(sys.stdin.readline()))
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    warden.split(keep_from_warden=boot.descriptor)
    sock = socket.socket(fileno=boot.descriptor)
    os.set_inheritable(boot.descriptor, False)
    Agent(boot, sock, root).run()


class Agent:
    """The loop: everything happens on this thread but sampling."""

    def __init__(self, boot: Boot, sock: socket.socket, root: str) -> None:
        self._boot = boot
        self._sock = sock
        self._root = root
        self._selector = selectors.DefaultSelector()
        self._outbox = Outbox(sock)
        self._decoder = wire.Decoder()
        self._payload = bytearray()
        self._gang: Gang | None = None
        self._port = port.hold()
        self._sampling = Sampling(boot, self.fact)
        self._wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._terminated = False
        self._quitting = False

    def run(self) -> None:
        """Join, serve until told to quit, and leave nothing running."""
        kernel.become_subreaper()
        self._listen_to_signals()
        try:
            self._join()
            self._serve()
        except (ConnectionError, wire.WireError):
            self._abandon()
        finally:
            self._sampling.stop()

    # --- what the gang emits -------------------------------------------------------------------------

    def fact(self, tag: str, fields: Mapping[str, Any]) -> None:
        """Send a fact to the engine."""
        self._outbox.put(wire.document(wire.Kind.FACT, {"event": tag, **fields}))

    def raw(self, kind: wire.Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Send a rank's bytes, stamped with the moment at which they were read."""
        self._outbox.put(wire.header(kind, len(data), rank=rank, stream=stream, time_ns=time.time_ns()), data)

    # --- joining -------------------------------------------------------------------------------------

    def _join(self) -> None:
        self._sock.settimeout(HANDSHAKE_S)
        nonce = handshake.new_nonce()
        ready = {"nonce": nonce, "agent": self._boot.agent, "protocol": wire.PROTOCOL}
        self._sock.sendall(wire.document(wire.Kind.READY, ready))
        challenge = self._first_frame().document()
        token, theirs = self._boot.token, str(challenge.get("nonce"))
        handshake.check(challenge.get("proof"), handshake.proof(token, "engine", nonce, theirs), "engine")
        hello = {
            "proof": handshake.proof(token, "agent", nonce, theirs),
            "time": time.time(),
            "host": self._boot.host,
            "pid": os.getpid(),
            "warden": os.getppid(),
            "python": ".".join(map(str, sys.version_info[:3])),
            "port": self._port.number,
        }
        self._sock.sendall(wire.document(wire.Kind.HELLO, hello))
        self._sock.setblocking(False)

    def _first_frame(self) -> wire.Frame:
        while True:
            data = self._sock.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the engine closed the channel")
            for frame in self._decoder.feed(data):
                return frame

    # --- the loop ------------------------------------------------------------------------------------

    def _serve(self) -> None:
        self._selector.register(self._sock, selectors.EVENT_READ, self._on_engine)
        if self._boot.watch:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(self._boot.watch)
                self._selector.register(descriptor, selectors.EVENT_READ, self._on_orphaned)
        while not (self._quitting and self._idle and not self._outbox.pending):
            self._turn()

    @property
    def _idle(self) -> bool:
        return self._gang is None or self._gang.finished

    def _turn(self) -> None:
        """One turn of the loop: wait, handle what is ready, move the gang on, write."""
        self._await_writing()
        timeout = self._gang.timeout() if self._gang else None
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, Gang):
                self._pump(key.fd)
            else:
                key.data()
        self._sampling.deliver()
        if self._gang and not self._gang.finished:
            self._gang.tick()
            if self._gang.finished:
                self._outbox.put(wire.document(wire.Kind.IDLE, {}))
        self._flush()

    def _pump(self, descriptor: int) -> None:
        if self._gang and not self._outbox.full:
            self._gang.pump(descriptor)

    def _await_writing(self) -> None:
        """Listen for room in the socket exactly while something waits for it."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._outbox.pending else 0)
        self._selector.modify(self._sock, events, self._on_engine)

    def _flush(self) -> None:
        self._outbox.flush()
        if self._gang and self._outbox.full:
            self._gang.pause()
        elif self._gang and self._outbox.drained:
            self._gang.resume()

    # --- what arrives --------------------------------------------------------------------------------

    def _on_engine(self) -> None:
        try:
            data = self._sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return
        if not data:
            raise ConnectionError("the engine closed the channel")
        for frame in self._decoder.feed(data):
            self._obey(frame)

    def _obey(self, frame: wire.Frame) -> None:
        if frame.kind is wire.Kind.PAYLOAD:
            self._payload += frame.payload
        elif frame.kind is wire.Kind.START:
            self._start(frame.document())
        elif frame.kind is wire.Kind.STOP and self._gang:
            self._gang.stop(grace_s=float(frame.document()["grace_s"]))
        elif frame.kind is wire.Kind.QUIT:
            self._quitting = True
            self._stop_gang()

    def _start(self, order: dict[str, Any]) -> None:
        """Start a gang. Its program is a JSON line, and the pickle that came before the order."""
        head = json.dumps(order["program"]).encode()
        program = process.memory_file(b"%s\n%s" % (head, bytes(self._payload)))
        self._payload.clear()
        asked = Order(
            python=order["python"],
            root=self._root,
            cwd=order["cwd"],
            env=order["env"],
            ranks={int(rank): env for rank, env in order["ranks"].items()},
            program=program,
            grace_s=float(order["grace_s"]),
        )
        self._gang = Gang(asked, self, self._selector)
        self._gang.start()
        os.close(program)
        self._sampling.start(self._gang.pids, self._wake[1])

    def _on_child(self) -> None:
        _empty(self._wake[0])
        if self._gang:
            self._gang.reap()
        if self._terminated:
            raise ConnectionError("the agent was terminated")

    def _on_orphaned(self) -> None:
        raise ConnectionError("the engine's process ended")

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

    def _stop_gang(self) -> None:
        """Nobody waits for the ranks any more: give them a moment at most."""
        if self._gang and not self._gang.finished:
            self._gang.stop(grace_s=min(self._gang.order.grace_s, ORPHANED_GRACE_S))

    def _abandon(self) -> None:
        """The engine is gone: end the ranks soon, with nobody left to tell."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(self._sock)
        self._sock.close()
        self._terminated = False
        if self._gang and not self._gang.finished:
            self._gang.resume()
        self._stop_gang()
        while self._gang and not self._gang.finished:
            self._abandoned_turn(self._gang)

    def _abandoned_turn(self, gang: Gang) -> None:
        for key, _ in self._selector.select(gang.timeout()):
            if isinstance(key.data, Gang):
                gang.pump(key.fd)
            elif key.fd == self._wake[0]:
                _empty(self._wake[0])
                gang.reap()
            else:
                self._selector.unregister(key.fd)
        self._outbox = Outbox(self._sock)
        gang.tick()


def _empty(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
