"""The agent's end of the channel to its engine: joining, frames in and out, signs of life."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from launcher.worker import handshake, wire
from launcher.worker.outbox import Outbox
from launcher.worker.pulse import Pulse

if TYPE_CHECKING:
    from launcher.worker.stream import Stream

HANDSHAKE_S = 30.0
# An engine whose disk stalls is not dead, and to take it for that would cost a training.
PATIENCE = 2.0
RECEIVE_BYTES = 256 << 10


class EngineLine:
    """One stream to the engine. It blocks while it joins, and never after."""

    def __init__(self, stream: Stream, lost_after_s: float | None) -> None:
        self._stream = stream
        self._outbox = Outbox(stream)
        self._decoder = wire.Decoder()
        self._pulse = Pulse(PATIENCE * lost_after_s) if lost_after_s else None
        self._abandoned = False

    def fileno(self) -> int:
        """The descriptor for a selector."""
        return self._stream.fileno()

    @property
    def address(self) -> str:
        """This end's own address; empty for a pair of local sockets."""
        name = self._stream.getsockname()
        return str(name[0]) if isinstance(name, tuple) else ""

    @property
    def pending(self) -> int:
        """Bytes that wait for room."""
        return self._outbox.pending

    @property
    def full(self) -> bool:
        """Whether sources of frames should pause."""
        return self._outbox.full

    @property
    def drained(self) -> bool:
        """Whether paused sources may go on."""
        return self._outbox.drained

    def join(self, token: str, said: Mapping[str, Any]) -> None:
        """Prove to the engine that we belong to the run, after it has proven the same, and introduce us.

        Raises:
            ConnectionError: the engine left.
            wire.WireError: it is not ours.
        """
        self._stream.settimeout(HANDSHAKE_S)
        nonce, agent = handshake.new_nonce(), int(said["agent"])
        ready = {"nonce": nonce, "agent": agent, "protocol": wire.PROTOCOL}
        self._stream.sendall(wire.document(wire.Kind.READY, ready))
        challenge = self._first_frame().document()
        theirs = str(challenge.get("nonce"))
        expected = handshake.proof(token, "engine", nonce, theirs, agent)
        handshake.check(challenge.get("proof"), expected, "engine")
        hello = {**said, "proof": handshake.proof(token, "agent", nonce, theirs, agent), "time": time.time()}
        self._stream.sendall(wire.document(wire.Kind.HELLO, hello))
        self._stream.setblocking(False)

    def put(self, *parts: bytes) -> None:
        """Queue one frame, in parts; dropped once the engine is gone."""
        if not self._abandoned:
            self._outbox.put(*parts)

    def receive(self) -> list[wire.Frame]:
        """The frames that have come, without beats.

        Raises:
            ConnectionError: the engine left.
            wire.WireError: it broke the protocol.
        """
        try:
            data = self._stream.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the engine closed the channel")
        if self._pulse:
            self._pulse.heard(time.monotonic())
        return [f for f in self._decoder.feed(data) if f.kind is not wire.Kind.BEAT]

    def flush(self) -> None:
        """Write what the stream takes.

        Raises:
            ConnectionError: the engine is gone.
        """
        before = self._outbox.pending
        self._outbox.flush()
        if self._pulse and self._outbox.pending < before:
            self._pulse.sent(time.monotonic())

    def tend(self) -> None:
        """Show that we live where nothing else did, and see whether the engine does.

        Raises:
            ConnectionError: the engine was silent for too long.
        """
        if self._pulse is None:
            return
        now = time.monotonic()
        if self._pulse.dead(now):
            raise ConnectionError("the engine was silent for too long")
        if self._pulse.due(now):
            self._pulse.sent(now)  # what waits for room will be sign enough
            if not self._outbox.pending:
                self.put(wire.document(wire.Kind.BEAT, {}))

    def timeout(self) -> float | None:
        """Seconds until `tend` has something to do; None: never."""
        return self._pulse.timeout(time.monotonic()) if self._pulse else None

    def abandon(self) -> None:
        """The engine is gone: close, and let what is still said go nowhere."""
        self._abandoned = True
        self._stream.close()

    def _first_frame(self) -> wire.Frame:
        while True:
            data = self._stream.recv(RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the engine closed the channel")
            for frame in self._decoder.feed(data):
                return frame
