"""One agent as the engine sees it: a socket that becomes a stream of frames once both ends are proven.

Reading is bounded per turn and writing is queued, so one agent can neither flood nor stall the others.
While the engine is busy it does not read, and the agent and its ranks wait: that is the back-pressure.
"""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from launcher.worker import handshake, wire
from launcher.worker.outbox import Outbox

RECEIVE_BYTES = 1 << 20
CHUNK = 1 << 20


class LinkClosed(Exception):
    """The agent is gone, or said something that an agent does not say."""


@dataclass(frozen=True, slots=True)
class Hello:
    """What an agent says of itself when it joins; `clock_offset` is its clock minus ours, in seconds."""

    agent: int
    host: str
    pid: int
    python: str
    port: int
    clock_offset: float


class Link:
    """The channel to one agent."""

    def __init__(
        self, sock: socket.socket, agent: int, token: str, *, clock: Callable[[], float] = time.time
    ) -> None:
        sock.setblocking(False)
        self.agent = agent
        self.hello: Hello | None = None
        self._sock = sock
        self._token = token
        self._clock = clock
        self._outbox = Outbox(sock)
        self._decoder = wire.Decoder()
        self._nonces: tuple[str, str] | None = None
        self._challenged = 0.0

    def fileno(self) -> int:
        """The socket's descriptor, for a selector."""
        return self._sock.fileno()

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits for room in the socket."""
        return self._outbox.pending > 0

    def receive(self) -> list[wire.Frame]:
        """Read once; the frames that came, without those of the handshake.

        Raises:
            LinkClosed: the agent is gone, is not ours, or broke the protocol.
        """
        try:
            data = self._sock.recv(RECEIVE_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LinkClosed(f"the channel broke: {error.strerror}") from error
        if not data:
            raise LinkClosed("the agent closed the channel")
        try:
            return list(self._admitted(data))
        except wire.WireError as error:
            raise LinkClosed(str(error)) from error

    def send(self, kind: wire.Kind, document: Mapping[str, Any]) -> None:
        """Queue a JSON frame and write what fits."""
        self._outbox.put(wire.document(kind, document))
        self.flush()

    def send_payload(self, data: bytes) -> None:
        """Queue a pickle, in pieces."""
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            piece = bytes(view[start : start + CHUNK])
            self._outbox.put(wire.header(wire.Kind.PAYLOAD, len(piece)), piece)

    def flush(self) -> None:
        """Write what the socket takes. A broken channel is found by reading."""
        try:
            self._outbox.flush()
        except OSError:
            return

    def close(self) -> None:
        """Close the socket; the agent then ends its ranks."""
        self._sock.close()

    def _admitted(self, data: bytes) -> Iterator[wire.Frame]:
        for frame in self._decoder.feed(data):
            if self.hello is not None:
                yield frame
            elif frame.kind is wire.Kind.READY and self._nonces is None:
                self._challenge(frame.document())
            elif frame.kind is wire.Kind.HELLO and self._nonces is not None:
                self._admit(frame.document(), self._nonces)
            else:
                raise wire.WireError(f"a {frame.kind.name} frame before the handshake")

    def _challenge(self, ready: dict[str, Any]) -> None:
        handshake.check_protocol(ready)
        theirs, ours = str(ready.get("nonce")), handshake.new_nonce()
        self._nonces = theirs, ours
        answer = {"nonce": ours, "proof": handshake.proof(self._token, "engine", theirs, ours)}
        self._challenged = self._clock()
        self.send(wire.Kind.CHALLENGE, answer)

    def _admit(self, hello: dict[str, Any], nonces: tuple[str, str]) -> None:
        expected = handshake.proof(self._token, "agent", *nonces)
        handshake.check(hello.get("proof"), expected, "agent")
        middle = (self._challenged + self._clock()) / 2
        try:
            self.hello = _hello(self.agent, hello, middle)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise wire.WireError(f"a HELLO frame that makes no sense: {error!r}") from error


def _hello(agent: int, said: Mapping[str, Any], middle: float) -> Hello:
    time = float(said["time"])
    if not math.isfinite(time):
        raise ValueError(f"the time {time}")
    return Hello(
        agent=agent,
        host=str(said["host"]),
        pid=int(said["pid"]),
        python=str(said["python"]),
        port=int(said["port"]),
        clock_offset=time - middle,
    )
