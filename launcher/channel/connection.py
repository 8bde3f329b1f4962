"""One agent and its engine, both ends of their connection: frames in and out, bounded, with signs of life.

Reading is bounded per turn and writing is queued, so one agent can neither flood nor stall the others.
While the engine is busy it does not read, and the agent and its ranks wait: that is the back-pressure.

When the engine is slower than the ranks the outbox fills, the agent stops reading the ranks' pipes, and
the ranks wait in `write`: nothing is dropped and nothing grows.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from . import frames, handshake
from .frames import Kind
from .handshake import Hello, read_hello
from .tls import SocketLike

ENGINE_RECEIVE_BYTES = 1 << 20
UNPROVEN_BYTES = 64 << 10
CHUNK = 1 << 20
MAX_AGENTS = 1 << 16


class ConnectionClosed(Exception):
    """The agent is gone, or said something that an agent does not say."""


class AgentConnection:
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
        sock: SocketLike,
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
        self._pulse = Heartbeat(lost_after_s) if lost_after_s is not None else None
        self._heard = self._sent = False
        self._outbox = Outbox(sock)
        self._decoder = frames.Decoder(UNPROVEN_BYTES)
        self._early: list[frames.Frame] = []
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

    def take_early(self) -> list[frames.Frame]:
        """The frames that `join` read beyond the handshake; no selector tells of them."""
        early, self._early = self._early, []
        return early

    def receive(self) -> list[frames.Frame]:
        """Read once; the frames that came, without beats and those of the handshake.

        Raises:
            LinkClosed: the agent is gone, is not ours, or broke the protocol.
        """
        try:
            data = self._sock.recv(ENGINE_RECEIVE_BYTES if self.hello else UNPROVEN_BYTES)
        except BlockingIOError:
            return []
        except OSError as error:
            raise ConnectionClosed(f"the channel broke: {error.strerror or error}") from error
        if not data:
            raise ConnectionClosed("the agent closed the channel")
        self._heard = True
        try:
            return list(self._admitted(data))
        except frames.WireError as error:
            raise ConnectionClosed(str(error)) from error

    def send(self, kind: Kind, document: Mapping[str, Any]) -> None:
        """Queue a JSON frame and write what fits."""
        self._outbox.put(frames.document(kind, document))
        self.flush()

    def send_payload(self, data: bytes, *, kind: Kind = Kind.PAYLOAD) -> None:
        """Queue what is large, in pieces."""
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            piece = bytes(view[start : start + CHUNK])
            self._outbox.put(frames.header(kind, len(piece)), piece)

    def flush(self) -> None:
        """Write what the socket takes. A broken channel is found by reading."""
        before = self._outbox.pending
        try:
            self._outbox.flush()
        except OSError:
            return
        self._sent = self._sent or self._outbox.pending < before

    def keep_alive(self, now: float) -> None:
        """Show the agent that we live, where nothing else did, and see whether it lives.

        Args:
            now: on a monotonic clock.

        Raises:
            LinkClosed: it has been silent for too long.
        """
        if (pulse := self._told(now)) is None:
            return
        if pulse.dead(now):
            raise ConnectionClosed(f"the agent's host was silent for {pulse.silence(now):.0f} s")
        if pulse.due(now):
            if self.hello and not self._outbox.pending:  # what waits for room says as much
                self.send(Kind.BEAT, {})
            pulse.sent(now)

    def deadline(self, now: float) -> float | None:
        """Seconds until `keep_alive` has something to do; None: never."""
        return None if (pulse := self._told(now)) is None else pulse.timeout(now)

    def close(self) -> None:
        """Close the socket; the agent then ends its ranks."""
        self._sock.close()

    def _told(self, now: float) -> Heartbeat | None:
        """The pulse, once it knows of what was said and heard since the last time."""
        if self._pulse and self._heard:
            self._pulse.heard(now)
        if self._pulse and self._sent:
            self._pulse.sent(now)
        self._heard = self._sent = False
        return self._pulse

    def _admitted(self, data: bytes) -> Iterator[frames.Frame]:
        for frame in self._decoder.feed(data):
            if self.hello is not None:
                if frame.kind is not Kind.BEAT:
                    yield frame
            elif frame.kind is Kind.READY and self._ready is None and not self._trusted:
                self._challenge(frame.document())
            elif frame.kind is Kind.HELLO and (self._ready or self._trusted):
                self._admit(frame.document())
            else:
                raise frames.WireError(f"a {frame.kind.name} frame before the handshake")

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
            raise frames.WireError(f"a HELLO frame that makes no sense: {error!r}") from error
        self.agent = agent
        self._decoder.max_payload = frames.MAX_PAYLOAD


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_AGENTS:
        raise frames.WireError(f"{value!r:.40} is no agent's number")
    return value


HANDSHAKE_S = 30.0
# An engine whose disk stalls is not dead, and to take it for that would cost a training.
PATIENCE = 2.0
AGENT_RECEIVE_BYTES = 256 << 10


class EngineConnection:
    """One stream to the engine. It blocks while it joins, and never after."""

    def __init__(self, stream: SocketLike, lost_after_s: float | None) -> None:
        self._stream = stream
        self._outbox = Outbox(stream)
        self._decoder = frames.Decoder()
        self._pulse = Heartbeat(PATIENCE * lost_after_s) if lost_after_s else None
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
        ready = {"nonce": nonce, "agent": agent, "protocol": frames.PROTOCOL}
        self._stream.sendall(frames.document(frames.Kind.READY, ready))
        challenge = self._first_frame().document()
        theirs = str(challenge.get("nonce"))
        expected = handshake.proof(token, "engine", nonce, theirs, agent)
        handshake.check(challenge.get("proof"), expected, "engine")
        hello = {**said, "proof": handshake.proof(token, "agent", nonce, theirs, agent), "time": time.time()}
        self._stream.sendall(frames.document(frames.Kind.HELLO, hello))
        self._stream.setblocking(False)

    def put(self, *parts: bytes) -> None:
        """Queue one frame, in parts; dropped once the engine is gone."""
        if not self._abandoned:
            self._outbox.put(*parts)

    def receive(self) -> list[frames.Frame]:
        """The frames that have come, without beats.

        Raises:
            ConnectionError: the engine left.
            wire.WireError: it broke the protocol.
        """
        try:
            data = self._stream.recv(AGENT_RECEIVE_BYTES)
        except BlockingIOError:
            return []
        if not data:
            raise ConnectionError("the engine closed the channel")
        if self._pulse:
            self._pulse.heard(time.monotonic())
        return [f for f in self._decoder.feed(data) if f.kind is not frames.Kind.BEAT]

    def flush(self) -> None:
        """Write what the stream takes.

        Raises:
            ConnectionError: the engine is gone.
        """
        before = self._outbox.pending
        self._outbox.flush()
        if self._pulse and self._outbox.pending < before:
            self._pulse.sent(time.monotonic())

    def keep_alive(self) -> None:
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
                self.put(frames.document(frames.Kind.BEAT, {}))

    def timeout(self) -> float | None:
        """Seconds until `keep_alive` has something to do; None: never."""
        return self._pulse.timeout(time.monotonic()) if self._pulse else None

    def abandon(self) -> None:
        """The engine is gone: close, and let what is still said go nowhere."""
        self._abandoned = True
        self._stream.close()

    def _first_frame(self) -> frames.Frame:
        while True:
            data = self._stream.recv(AGENT_RECEIVE_BYTES)
            if not data:
                raise ConnectionError("the engine closed the channel")
            for frame in self._decoder.feed(data):
                return frame


HIGH = 4 << 20
LOW = 1 << 20
_IOV = 128


class Outbox:
    """Frames on their way out of a non-blocking socket."""

    def __init__(self, sock: SocketLike) -> None:
        self._sock = sock
        self._queue: deque[memoryview] = deque()
        self.pending = 0

    @property
    def full(self) -> bool:
        """Whether sources of frames should pause."""
        return self.pending >= HIGH

    @property
    def drained(self) -> bool:
        """Whether paused sources may go on."""
        return self.pending <= LOW

    def put(self, *parts: bytes) -> None:
        """Queue one frame, in parts that are not joined."""
        for part in parts:
            if part:
                self._queue.append(memoryview(part))
                self.pending += len(part)

    def flush(self) -> bool:
        """Write what the socket takes; whether everything is out.

        Raises:
            ConnectionError: the peer is gone.
        """
        while self._queue:
            buffers = [self._queue[i] for i in range(min(_IOV, len(self._queue)))]
            try:
                self._consume(self._sock.sendmsg(buffers))
            except BlockingIOError:
                return False
        return True

    def _consume(self, count: int) -> None:
        self.pending -= count
        while count:
            first = self._queue[0]
            if count < len(first):
                self._queue[0] = first[count:]
                return
            count -= len(first)
            self._queue.popleft()


BEATS = 5


class Heartbeat:
    """The rhythm of one end of a channel. Pure: what time it is, on a monotonic clock, is an argument.

    It is asked as often as `timeout` says. A longer pause means that this process itself did not run, so
    it could not have heard anything either: such a pause counts as one interval of silence, not more.

    Args:
        limit_s: seconds of silence after which the other end is dead; a beat is due every fifth of it.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit = limit_s
        self._every = limit_s / BEATS
        self._sent: float | None = None
        self._heard = self._asked = 0.0

    def sent(self, now: float) -> None:
        """Something was sent, or is on its way: no beat is needed for an interval."""
        self._notice(now)
        self._sent = now

    def heard(self, now: float) -> None:
        """Something came from the other end."""
        self._notice(now)
        self._heard = now

    def due(self, now: float) -> bool:
        """Whether a beat should be sent."""
        return now - self._notice(now) >= self._every

    def dead(self, now: float) -> bool:
        """Whether the other end has been silent for too long."""
        return self.silence(now) >= self._limit

    def silence(self, now: float) -> float:
        """Seconds since the other end was heard."""
        self._notice(now)
        return now - self._heard

    def timeout(self, now: float) -> float:
        """Seconds until a beat is due or the other end is dead."""
        sent = self._notice(now)
        return max(0.0, min(sent + self._every, self._heard + self._limit) - now)

    def _notice(self, now: float) -> float:
        """When something was last sent. The first question of all starts the clock."""
        if self._sent is None:
            self._sent = self._heard = now
        elif now - self._asked > 2 * self._every:
            self._heard = max(self._heard, now - self._every - (self._asked - self._heard))
        self._asked = now
        return self._sent
