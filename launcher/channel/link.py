"""One agent as the engine sees it: a socket that becomes a stream of frames once both ends are proven.

Reading is bounded per turn and writing is queued, so one agent can neither flood nor stall the others.
While the engine is busy it does not read, and the agent and its ranks wait: that is the back-pressure.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launcher.channel.hello import Hello, read_hello
from launcher.worker import handshake, wire
from launcher.worker.outbox import Outbox
from launcher.worker.pulse import Pulse
from launcher.worker.stream import Stream
from launcher.worker.wire import Kind

__all__ = ["Hello", "Link", "LinkClosed"]

RECEIVE_BYTES = 1 << 20
UNPROVEN_BYTES = 64 << 10
CHUNK = 1 << 20
MAX_AGENTS = 1 << 16


class LinkClosed(Exception):
    """The agent is gone, or said something that an agent does not say."""


class Link:
    """The channel to one agent.

    Args:
        sock: a connected stream; the link is its owner.
        agent: the agent's number; None: it says so itself, and proves it.
        token: what both ends hold.
        trusted: whether HELLO is believed without a proof and comes first, as in a file of the agent's own.
        lost_after_s: seconds of silence after which the agent counts as lost; None where the kernel tells
            the end at once.
        clock: the time of day, which is compared with the agent's.

    Attributes:
        agent: the number; -1 until it is known.
        hello: what the agent said when it joined.
    """

    def __init__(
        self,
        sock: Stream,
        agent: int | None,
        token: str,
        *,
        trusted: bool = False,
        lost_after_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        sock.setblocking(False)
        self.agent = -1 if agent is None else agent
        self.hello: Hello | None = None
        self._sock = sock
        self._asks = agent is None
        self._token = token
        self._trusted = trusted
        self._clock = clock
        self._pulse = Pulse(lost_after_s) if lost_after_s is not None else None
        self._heard = self._sent = False
        self._outbox = Outbox(sock)
        self._decoder = wire.Decoder(UNPROVEN_BYTES)
        self._early: list[wire.Frame] = []
        self._ready: tuple[str, str, int] | None = None
        self._challenged = 0.0

    def fileno(self) -> int:
        """The socket's descriptor, for a selector; -1 once closed."""
        return self._sock.fileno()

    @property
    def peer(self) -> Any:
        """The address of the socket's other end, in the form of its family; None once it has gone."""
        try:
            return self._sock.getpeername()
        except OSError:
            return None

    @property
    def wants_to_write(self) -> bool:
        """Whether something waits for room in the socket."""
        return self._outbox.pending > 0

    def join(self) -> bool:
        """Read once for the handshake alone; whether the agent has joined.

        What came with its HELLO is kept for `take_early`.

        Raises:
            LinkClosed: as `receive`.
        """
        self._early += self.receive()
        return self.hello is not None

    def take_early(self) -> list[wire.Frame]:
        """The frames that `join` read beyond the handshake; no selector tells of them."""
        early, self._early = self._early, []
        return early

    def receive(self) -> list[wire.Frame]:
        """Read once; the frames that came, without beats and those of the handshake.

        Raises:
            LinkClosed: the agent is gone, is not ours, or broke the protocol.
        """
        try:
            data = self._sock.recv(RECEIVE_BYTES if self.hello else UNPROVEN_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise LinkClosed(f"the channel broke: {error.strerror or error}") from error
        if not data:
            raise LinkClosed("the agent closed the channel")
        self._heard = True
        try:
            return list(self._admitted(data))
        except wire.WireError as error:
            raise LinkClosed(str(error)) from error

    def send(self, kind: Kind, document: Mapping[str, Any]) -> None:
        """Queue a JSON frame and write what fits."""
        self._outbox.put(wire.document(kind, document))
        self.flush()

    def send_payload(self, data: bytes, *, kind: Kind = Kind.PAYLOAD) -> None:
        """Queue what is large, in pieces."""
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            piece = bytes(view[start : start + CHUNK])
            self._outbox.put(wire.header(kind, len(piece)), piece)

    def flush(self) -> None:
        """Write what the socket takes. A broken channel is found by reading."""
        before = self._outbox.pending
        try:
            self._outbox.flush()
        except OSError:
            return
        self._sent = self._sent or self._outbox.pending < before

    def tend(self, now: float) -> None:
        """Show the agent that we live, where nothing else did, and see whether it lives.

        Args:
            now: on a monotonic clock.

        Raises:
            LinkClosed: it has been silent for too long.
        """
        if (pulse := self._told(now)) is None:
            return
        if pulse.dead(now):
            raise LinkClosed(f"the agent's host was silent for {pulse.silence(now):.0f} s")
        if pulse.due(now):
            if self.hello and not self._outbox.pending:  # what waits for room says as much
                self.send(Kind.BEAT, {})
            pulse.sent(now)

    def deadline(self, now: float) -> float | None:
        """Seconds until `tend` has something to do; None: never."""
        return None if (pulse := self._told(now)) is None else pulse.timeout(now)

    def close(self) -> None:
        """Close the socket; the agent then ends its ranks."""
        self._sock.close()

    def _told(self, now: float) -> Pulse | None:
        """The pulse, once it knows of what was said and heard since the last time."""
        if self._pulse and self._heard:
            self._pulse.heard(now)
        if self._pulse and self._sent:
            self._pulse.sent(now)
        self._heard = self._sent = False
        return self._pulse

    def _admitted(self, data: bytes) -> Iterator[wire.Frame]:
        for frame in self._decoder.feed(data):
            if self.hello is not None:
                if frame.kind is not Kind.BEAT:
                    yield frame
            elif frame.kind is Kind.READY and self._ready is None and not self._trusted:
                self._challenge(frame.document())
            elif frame.kind is Kind.HELLO and (self._ready or self._trusted):
                self._admit(frame.document())
            else:
                raise wire.WireError(f"a {frame.kind.name} frame before the handshake")

    def _challenge(self, ready: dict[str, Any]) -> None:
        handshake.check_protocol(ready)
        claimed = _number(ready.get("agent")) if self._asks else 0
        theirs, ours = str(ready.get("nonce")), handshake.new_nonce()
        self._ready = theirs, ours, claimed
        answer = {"nonce": ours, "proof": handshake.proof(self._token, "engine", *self._ready)}
        self._challenged = self._clock()
        self.send(Kind.CHALLENGE, answer)

    def _admit(self, hello: dict[str, Any]) -> None:
        middle = None
        if self._ready and not self._trusted:
            handshake.check(hello.get("proof"), handshake.proof(self._token, "agent", *self._ready), "agent")
            middle = (self._challenged + self._clock()) / 2
        agent = self._ready[2] if self._ready and self._asks else self.agent
        try:
            self.hello = read_hello(agent, hello, middle)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise wire.WireError(f"a HELLO frame that makes no sense: {error!r}") from error
        self.agent = agent
        self._decoder.max_payload = wire.MAX_PAYLOAD


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_AGENTS:
        raise wire.WireError(f"{value!r:.40} is no agent's number")
    return value
