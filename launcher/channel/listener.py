"""The engine's listener: it admits agents of other hosts, and nobody else.

A connection must show the agents' certificate in TLS and prove the token in `AgentConnection`'s handshake;
only then is it reported. All of that happens on one thread that never blocks on a peer. Foreign connections
cost a bounded number of descriptors and little memory; when there are too many, those that have proven least
are dropped first.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from enum import IntEnum, StrEnum

from ..errors import CannotPlace, counted
from .connection import AgentConnection, ConnectionClosed
from .frames import WireError
from .tls import Credentials, SecureStream, SocketLike, Untrusted, context

CROWD = 256
BURST = 64
HANDSHAKE_S = 10.0
GRACE_S = 1.0
PAUSE_S = 0.1
MAX_AGENTS = 1 << 16


class Refusal(StrEnum):
    """Why a connection was refused; the text completes a sentence."""

    LEFT = "left before they identified themselves"
    FOREIGN = "had no certificate of this run"
    UNPROVEN = "did not prove that they belong to this run"
    TAKEN = "claimed the number of an agent that is here"
    UNKNOWN = "claimed a number that no agent has"
    LATE = "took too long"
    CROWDED = "were dropped to make room"


class Listener:
    """Listens from its construction until `close`.

    Args:
        host: the only address to listen at.
        ports: the ports to try; ``range(1)`` for any.
        credentials: the engine's credentials.
        token: the run's token.
        admit: called with each agent that has joined, on the listener's thread; its `hello` is set, and
            `take_early` returns the frames that came with it.
        agents: the limit of agents; their numbers are below it.
        lost_after_s: as in `AgentConnection`.
        handshake_s: seconds in which a connection must have joined.
        clock: the time of day.

    Attributes:
        address: the host and port at which it listens.

    Raises:
        CannotPlace: it cannot listen there.
    """

    def __init__(
        self,
        host: str,
        ports: range,
        credentials: Credentials,
        token: str,
        *,
        admit: Callable[[AgentConnection], None],
        agents: int = MAX_AGENTS,
        lost_after_s: float | None = None,
        handshake_s: float = HANDSHAKE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._tls, self._peer = context(credentials, server=True), credentials.peer
        self._token, self._on_agent, self._agents = token, admit, agents
        self._lost_after_s, self._handshake_s, self._clock = lost_after_s, handshake_s, clock
        self._sock = bind_listener(host, ports)
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._sock, selectors.EVENT_READ)
        self._resume_at: float | None = None
        self._unproven: dict[int, UnprovenConnection] = {}
        self._admitted: dict[int, AgentConnection] = {}
        self._refused: Counter[Refusal] = Counter()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="rankdeck-listener", daemon=True)
        self._thread.start()

    @property
    def refused(self) -> dict[Refusal, int]:
        """How many connections were refused, by reason."""
        return dict(self._refused)

    def summary(self) -> str:
        """The refusals in a sentence; empty if there were none."""
        counts = sorted(self.refused.items(), key=lambda item: -item[1])
        total = sum(count for _, count in counts)
        if not total:
            return ""
        reasons = ", ".join(f"{count} {reason.value}" for reason, count in counts)
        return f"refused {counted(total, 'connection')}: {reasons}"

    def close(self) -> None:
        """Stop listening and close all connections that were not admitted. Not for the listener's thread."""
        if not self._closing:
            self._closing = True
            os.eventfd_write(self._wake, 1)
            self._thread.join()
            os.close(self._wake)

    # --- the thread ----------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while not self._closing:
                self._turn()
        finally:
            self._selector.close()
            self._sock.close()
            for connection in self._unproven.values():
                connection.close()
            self._unproven.clear()

    def _turn(self) -> None:
        arrived = False
        for key, _ in self._selector.select(self._timeout()):
            if isinstance(key.data, UnprovenConnection):
                self._serve(key.data)
            else:
                arrived = arrived or key.fileobj is self._sock
        now = time.monotonic()
        self._expire(now)
        if self._resume_at is not None and now >= self._resume_at:
            self._resume_at = None
            self._selector.register(self._sock, selectors.EVENT_READ)
        elif arrived and not self._closing:
            self._accept_waiting(now)

    def _timeout(self) -> float | None:
        oldest = next(iter(self._unproven.values()), None)
        times = [oldest.since + self._handshake_s] if oldest else []
        if self._resume_at is not None:
            times.append(self._resume_at)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _expire(self, now: float) -> None:
        """Refuse connections that took too long; they are kept in order of arrival."""
        limit = now - self._handshake_s
        while (oldest := next(iter(self._unproven.values()), None)) and oldest.since <= limit:
            self._dismiss(oldest, Refusal.LATE)

    def _accept_waiting(self, now: float) -> None:
        for _ in range(BURST):
            if not self._has_room(now):
                return self._pause(now)
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, ConnectionError):
                return None
            except OSError:  # no descriptors or no memory left
                if self._drop_weakest(now):
                    continue
                return self._pause(now)
            self._accept(sock, now)
        return None

    def _accept(self, sock: socket.socket, now: float) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = UnprovenConnection(sock, self._tls, self._peer, self._make_connection, now)
        try:
            self._selector.register(connection.fileno(), selectors.EVENT_READ, connection)
        except OSError:  # the user's limit of watched descriptors
            self._refused[Refusal.CROWDED] += 1
            return connection.close()
        self._unproven[connection.fileno()] = connection
        return self._serve(connection)

    def _make_connection(self, stream: SocketLike) -> AgentConnection:
        return AgentConnection(stream, None, self._token, lost_after_s=self._lost_after_s, clock=self._clock)

    def _serve(self, connection: UnprovenConnection) -> None:
        """Take a connection's next steps, and admit or refuse it if that is decided."""
        try:
            agent = connection.proceed()
        except Untrusted:
            self._dismiss(connection, Refusal.FOREIGN)
        except OSError:
            self._dismiss(connection, Refusal.LEFT)
        except ConnectionClosed as error:
            lied = isinstance(error.__cause__, WireError)
            self._dismiss(connection, Refusal.UNPROVEN if lied else Refusal.LEFT)
        else:
            if agent is not None:
                self._admit_agent(connection, agent)
            else:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if connection.blocked else 0)
                self._selector.modify(connection.fileno(), events, connection)

    def _admit_agent(self, connection: UnprovenConnection, agent: AgentConnection) -> None:
        """Admit an agent, but not a second one of its number: either might be the real one."""
        if agent.agent >= self._agents:
            return self._dismiss(connection, Refusal.UNKNOWN)
        former = self._admitted.get(agent.agent)
        if former is not None and former.fileno() >= 0:
            return self._dismiss(connection, Refusal.TAKEN)
        self._admitted[agent.agent] = agent
        self._forget(connection)
        return self._on_agent(agent)

    # --- room ----------------------------------------------------------------------------------------

    def _has_room(self, now: float) -> bool:
        return len(self._unproven) < CROWD or self._drop_weakest(now)

    def _drop_weakest(self, now: float) -> bool:
        """Drop the oldest of those that have proven least, but no TLS connection younger than `GRACE_S`."""
        victim = min(self._unproven.values(), key=lambda connection: connection.stage, default=None)
        if victim is None or (victim.stage is not Proof.ARRIVED and now < victim.since + GRACE_S):
            return False
        self._dismiss(victim, Refusal.CROWDED)
        return True

    def _pause(self, now: float) -> None:
        """Accept nothing for a moment; new connections wait in the kernel's queue."""
        self._selector.unregister(self._sock)
        self._resume_at = now + PAUSE_S

    def _dismiss(self, connection: UnprovenConnection, why: Refusal) -> None:
        self._refused[why] += 1
        self._forget(connection)
        connection.close()

    def _forget(self, connection: UnprovenConnection) -> None:
        self._selector.unregister(connection.fileno())
        del self._unproven[connection.fileno()]


class Proof(IntEnum):
    """How much a connection has proven."""

    ARRIVED = 0
    SPEAKS_TLS = 1
    HOLDS_CERTIFICATE = 2


class UnprovenConnection:
    """A connection in TLS's and the channel's handshake.

    Attributes:
        since: when it was accepted, in monotonic time.
        stage: what it has proven so far.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        peer: str,
        make_connection: Callable[[SocketLike], AgentConnection],
        since: float,
    ) -> None:
        self.since = since
        self.stage = Proof.ARRIVED
        self._stream = SecureStream(sock, tls, peer, server=True)
        self._make_connection = make_connection
        self._agent: AgentConnection | None = None

    def fileno(self) -> int:
        """The connection's descriptor; -1 once closed."""
        return self._stream.fileno()

    @property
    def blocked(self) -> bool:
        """Whether something waits for room in the socket."""
        return self._stream.blocked or (self._agent is not None and self._agent.wants_to_write)

    def proceed(self) -> AgentConnection | None:
        """Take the steps that are possible now; return the agent once it has joined.

        Raises:
            OSError, ConnectionClosed: it left, or is of another run.
        """
        if self._agent is None:
            if not self._stream.shake():
                self.stage = Proof.SPEAKS_TLS if self._stream.answered else Proof.ARRIVED
                return None
            self.stage = Proof.HOLDS_CERTIFICATE
            self._agent = self._make_connection(self._stream)
        self._agent.flush()
        return self._agent if self._agent.join() else None

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


BACKLOG = 4096


def bind_listener(host: str, ports: range) -> socket.socket:
    """A listening, non-blocking socket at this address only, on the first of the ports that is free.

    Raises:
        CannotPlace: there is no such address here, or no free port.
    """
    family, address = _resolve(host)
    for port in ports:
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind((address[0], port, *address[2:]))
            sock.listen(BACKLOG)
            sock.setblocking(False)
        except OSError as error:
            sock.close()
            if error.errno != errno.EADDRINUSE:
                raise CannotPlace(_sentence(error, host, port)) from error
        else:
            return sock
    tried = f"port {ports[0]} is" if len(ports) == 1 else f"all of the ports {ports[0]}-{ports[-1]} are"
    raise CannotPlace(f"cannot listen at {host}: {tried} in use")


def _resolve(host: str) -> tuple[int, tuple[str, ...]]:
    try:
        resolved = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotPlace(f"cannot listen at {host!r}: {why}") from error
    return resolved[0][0], resolved[0][4]  # type: ignore[return-value]  # typed for every family there is


def _sentence(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen at {host}: it is not an address of this machine"
    if error.errno == errno.EACCES:
        return f"cannot listen at {host}: port {port} is reserved for the superuser"
    return f"cannot listen at {host} port {port}: {os.strerror(error.errno or 0)}"
