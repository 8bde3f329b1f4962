"""Both ends of the connection between an agent and its engine: frames in and out, bounded, with heartbeats.

Reading is bounded per turn and writing is queued, so one agent can neither flood nor stall the others.

Back-pressure: when the engine is slower than the ranks, the agent's outbox fills, the agent stops reading
the ranks' pipes, and the ranks wait in `write`. Nothing is dropped and no buffer grows without bound.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import frames, handshake
from .connecting import SILENT
from .frames import Kind
from .handshake import Hello, read_hello

if TYPE_CHECKING:
    from .tls import SocketLike

ENGINE_RECEIVE_BYTES = 1 << 20
UNPROVEN_BYTES = 64 << 10
CHUNK = 1 << 20
MAX_AGENTS = 1 << 16


class ConnectionClosed(Exception):
    """The agent is gone, or violated the protocol."""


class AgentConnection:
    """The engine's end of the connection to one agent.

    Args:
        sock: a connected stream, which this object closes.
        agent: the agent's number; None: the agent claims one and proves it.
        token: the run's token.
        trusted: whether HELLO comes first and needs no proof, as in a file of the agent's own.
        lost_after_s: seconds of silence after which the agent counts as lost; None where the kernel reports
            its end at once.
        clock: the time of day, which is compared with the agent's.

    Attributes:
        agent: the agent's number; -1 until known.
        hello: the agent's hello; None until it has joined.
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
        self._claims_number = agent is None
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
        """Whether frames wait for room in the socket."""
        return self._outbox.pending > 0

    def join(self) -> bool:
        """Read once for the handshake alone; return whether the agent has joined.

        Frames that came with its HELLO are kept for `take_early`.

        Raises:
            ConnectionClosed: as `receive`.
        """
        self._early += self.receive()
        return self.hello is not None

    def take_early(self) -> list[frames.Frame]:
        """Return the frames that `join` read beyond the handshake; no selector reports them."""
        early, self._early = self._early, []
        return early

    def receive(self) -> list[frames.Frame]:
        """Read once; return the frames, without heartbeats and the handshake's.

        Raises:
            ConnectionClosed: the agent is gone, is of another run, or violated the protocol.
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
            return list(self._frames_after_handshake(data))
        except frames.WireError as error:
            raise ConnectionClosed(str(error)) from error

    def send(self, kind: Kind, document: Mapping[str, Any]) -> None:
        """Queue a JSON frame and write what fits."""
        self._outbox.put(frames.document(kind, document))
        self.flush()

    def send_payload(self, data: bytes | memoryview, *, kind: Kind = Kind.PAYLOAD) -> None:
        """Queue a large payload in pieces, as frames of this kind."""
        view = memoryview(data)
        for start in range(0, len(view), CHUNK):
            piece = bytes(view[start : start + CHUNK])
            self._outbox.put(frames.header(kind, len(piece)), piece)

    def flush(self) -> None:
        """Write what the socket accepts. A broken channel is noticed when reading."""
        before = self._outbox.pending
        try:
            self._outbox.flush()
        except OSError:
            return
        self._sent = self._sent or self._outbox.pending < before

    def keep_alive(self, now: float) -> None:
        """Send a heartbeat if nothing else was sent, and check that the agent is not silent.

        Args:
            now: monotonic time.

        Raises:
            ConnectionClosed: the agent has been silent for too long.
        """
        if (pulse := self._updated_pulse(now)) is None:
            return
        if pulse.dead(now):
            raise ConnectionClosed(f"{SILENT} for {pulse.silence(now):.0f} s")
        if pulse.due(now):
            if self.hello and not self._outbox.pending:  # queued frames show the same
                self.send(Kind.BEAT, {})
            pulse.sent(now)

    def deadline(self, now: float) -> float | None:
        """Seconds until `keep_alive` has something to do; None: never."""
        return None if (pulse := self._updated_pulse(now)) is None else pulse.timeout(now)

    def close(self) -> None:
        """Close the socket; the agent then ends its ranks."""
        self._sock.close()

    def _updated_pulse(self, now: float) -> Heartbeat | None:
        """The heartbeat, updated by what was sent and received since the last call; None without one."""
        if self._pulse and self._heard:
            self._pulse.heard(now)
        if self._pulse and self._sent:
            self._pulse.sent(now)
        self._heard = self._sent = False
        return self._pulse

    def _frames_after_handshake(self, data: bytes) -> Iterator[frames.Frame]:
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
        claimed = _number(ready.get("agent")) if self._claims_number else 0
        theirs, ours = str(ready.get("nonce")), handshake.new_nonce()
        self._ready = theirs, ours, claimed
        answer = {"nonce": ours, "proof": handshake.proof(self._token, "engine", *self._ready)}
        self._challenged = self._clock()
        self.send(Kind.CHALLENGE, answer)

    def _admit(self, hello: dict[str, Any]) -> None:
        middle, error = None, 0.0
        if self._ready and not self._trusted:
            handshake.check(hello.get("proof"), handshake.proof(self._token, "agent", *self._ready), "agent")
            now = self._clock()
            middle, error = (self._challenged + now) / 2, max(0.0, now - self._challenged) / 2
        agent = self._ready[2] if self._ready and self._claims_number else self.agent
        try:
            self.hello = read_hello(agent, hello, middle, error)
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            raise frames.WireError(f"an invalid HELLO frame: {error!r}") from error
        self.agent = agent
        self._decoder.max_payload = frames.MAX_PAYLOAD


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < MAX_AGENTS:
        raise frames.WireError(f"{value!r:.40} is no agent's number")
    return value


HANDSHAKE_S = 30.0
# An agent waits longer: an engine whose disk stalls is not dead, and to give it up would end a training.
AGENT_FACTOR = 2.0
AGENT_RECEIVE_BYTES = 256 << 10


class EngineConnection:
    """The agent's end of the stream to its engine. It blocks in `join`, and never after that."""

    def __init__(self, stream: SocketLike, lost_after_s: float | None) -> None:
        self._stream = stream
        self._outbox = Outbox(stream)
        self._decoder = frames.Decoder()
        self._pulse = Heartbeat(AGENT_FACTOR * lost_after_s) if lost_after_s else None
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
        """Bytes that wait for room in the stream."""
        return self._outbox.pending

    @property
    def full(self) -> bool:
        """Whether sources of frames should pause."""
        return self._outbox.full

    @property
    def drained(self) -> bool:
        """Whether paused sources may go on."""
        return self._outbox.drained

    def join(self, token: str, greeting: Mapping[str, Any]) -> None:
        """Send HELLO with a proof of the run's token, after the engine has proven that it holds the token.

        Raises:
            ConnectionError: the engine left.
            frames.WireError: it is not this run's engine.
        """
        self._stream.settimeout(HANDSHAKE_S)
        nonce, agent = handshake.new_nonce(), int(greeting["agent"])
        ready = {"nonce": nonce, "agent": agent, "protocol": frames.PROTOCOL}
        self._stream.sendall(frames.document(frames.Kind.READY, ready))
        challenge = self._first_frame().document()
        theirs = str(challenge.get("nonce"))
        expected = handshake.proof(token, "engine", nonce, theirs, agent)
        handshake.check(challenge.get("proof"), expected, "engine")
        proof = handshake.proof(token, "agent", nonce, theirs, agent)
        hello = {**greeting, "proof": proof, "time": time.time()}
        self._stream.sendall(frames.document(frames.Kind.HELLO, hello))
        self._stream.setblocking(False)

    def put(self, *parts: bytes) -> None:
        """Queue one frame, given in parts; dropped after `abandon`."""
        if not self._abandoned:
            self._outbox.put(*parts)

    def receive(self) -> list[frames.Frame]:
        """Read once; return the frames, without heartbeats.

        Raises:
            ConnectionError: the engine left.
            frames.WireError: it violated the protocol.
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
        """Write what the stream accepts.

        Raises:
            ConnectionError: the engine is gone.
        """
        before = self._outbox.pending
        self._outbox.flush()
        if self._pulse and self._outbox.pending < before:
            self._pulse.sent(time.monotonic())

    def keep_alive(self) -> None:
        """Send a heartbeat if nothing else was sent, and check that the engine is not silent.

        Raises:
            ConnectionError: the engine was silent for too long.
        """
        if self._pulse is None:
            return
        now = time.monotonic()
        if self._pulse.dead(now):
            raise ConnectionError("the engine was silent for too long")
        if self._pulse.due(now):
            self._pulse.sent(now)  # queued frames serve as a heartbeat
            if not self._outbox.pending:
                self.put(frames.document(frames.Kind.BEAT, {}))

    def timeout(self) -> float | None:
        """Seconds until `keep_alive` has something to do; None: never."""
        return self._pulse.timeout(time.monotonic()) if self._pulse else None

    def abandon(self) -> None:
        """Close the stream of a lost engine, and drop further frames."""
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
    """Frames queued for a non-blocking socket."""

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
        """Queue one frame, given in parts, which are not copied."""
        for part in parts:
            if part:
                self._queue.append(memoryview(part))
                self.pending += len(part)

    def flush(self) -> bool:
        """Write what the socket accepts; return whether everything is written.

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
    """When one end of a channel must send a heartbeat, and when the other end is dead. Pure.

    `now` is monotonic time. Callers come back as often as `timeout` demands. A longer pause means that this
    process did not run and could not receive, so it counts as one interval of silence at most.

    Args:
        limit_s: seconds of silence after which the other end is dead; a heartbeat is due every fifth of it.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit = limit_s
        self._every = limit_s / BEATS
        self._sent: float | None = None
        self._heard = self._checked_at = 0.0

    def sent(self, now: float) -> None:
        """Note that something was sent or queued: no heartbeat is due for an interval."""
        self._update(now)
        self._sent = now

    def heard(self, now: float) -> None:
        """Note that something was received."""
        self._update(now)
        self._heard = now

    def due(self, now: float) -> bool:
        """Whether a heartbeat is due."""
        return now - self._update(now) >= self._every

    def dead(self, now: float) -> bool:
        """Whether the other end has been silent for too long."""
        return self.silence(now) >= self._limit

    def silence(self, now: float) -> float:
        """Seconds since something was received."""
        self._update(now)
        return now - self._heard

    def timeout(self, now: float) -> float:
        """Seconds until a heartbeat is due or the other end is dead."""
        sent = self._update(now)
        return max(0.0, min(sent + self._every, self._heard + self._limit) - now)

    def _update(self, now: float) -> float:
        """Account for a pause of this process; return the time of the last send, or of the first call."""
        if self._sent is None:
            self._sent = self._heard = now
        elif now - self._checked_at > 2 * self._every:
            self._heard = max(self._heard, now - self._every - (self._checked_at - self._heard))
        self._checked_at = now
        return self._sent
