"""Where agents of other hosts come in, and nobody else does.

A connection goes through TLS, in which it must show the agents' certificate, and through the handshake of
`Link`, in which it must show the token; only then is it told of. All of that happens on one thread that
never waits for anybody. Strangers cost a bounded number of descriptors and little memory, and when there
are too many, those that have proven least go first.
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

from ..errors import CannotPlace
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
    """Why a connection was not let in."""

    LEFT = "left before they had said who they are"
    FOREIGN = "had no certificate of this run"
    UNPROVEN = "did not prove that they belong to this run"
    TAKEN = "claimed the number of an agent that is here"
    UNKNOWN = "claimed a number that no agent has"
    LATE = "took too long"
    CROWDED = "were dropped to make room"


class Listener:
    """Listens from its making until `close`.

    Args:
        host: the address to listen at, and at no other.
        ports: which ports will do; ``range(1)`` for any.
        credentials: the engine's.
        token: what agents prove that they hold.
        admit: told of each agent that has joined, on the listener's thread; `hello` is set, and what came
            with it waits in `take_early`.
        agents: how many agents there can be; their numbers are below it.
        lost_after_s: as in `Link`.
        handshake_s: how long a connection may take until it is proven.
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
        self._token, self._admit, self._agents = token, admit, agents
        self._lost_after_s, self._handshake_s, self._clock = lost_after_s, handshake_s, clock
        self._sock = bind_listener(host, ports)
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._selector.register(self._sock, selectors.EVENT_READ)
        self._resume_at: float | None = None
        self._guests: dict[int, UnprovenConnection] = {}
        self._joined: dict[int, AgentConnection] = {}
        self._refused: Counter[Refusal] = Counter()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="rankdeck-listener", daemon=True)
        self._thread.start()

    @property
    def refused(self) -> dict[Refusal, int]:
        """How many connections were not let in, by reason."""
        return dict(self._refused)

    def summary(self) -> str:
        """The refusals in a sentence; empty if there were none."""
        counts = sorted(self.refused.items(), key=lambda item: -item[1])
        total = sum(count for _, count in counts)
        if not total:
            return ""
        what = "1 connection" if total == 1 else f"{total} connections"
        return f"refused {what}: " + ", ".join(f"{count} {reason.value}" for reason, count in counts)

    def close(self) -> None:
        """Stop listening, and close every connection that was not admitted. Not for the listener's thread."""
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
            for guest in self._guests.values():
                guest.close()
            self._guests.clear()

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
            self._receive_guests(now)

    def _timeout(self) -> float | None:
        oldest = next(iter(self._guests.values()), None)
        times = [oldest.since + self._handshake_s] if oldest else []
        if self._resume_at is not None:
            times.append(self._resume_at)
        return max(0.0, min(times) - time.monotonic()) if times else None

    def _expire(self, now: float) -> None:
        """Guests are kept in the order of their coming."""
        while (oldest := next(iter(self._guests.values()), None)) and now >= oldest.since + self._handshake_s:
            self._dismiss(oldest, Refusal.LATE)

    def _receive_guests(self, now: float) -> None:
        for _ in range(BURST):
            if not self._make_room(now):
                return self._pause(now)
            try:
                sock, _ = self._sock.accept()
            except (BlockingIOError, ConnectionError):
                return None
            except OSError:  # no descriptor or no memory is left
                if self._drop_one(now):
                    continue
                return self._pause(now)
            self._receive(sock, now)
        return None

    def _receive(self, sock: socket.socket, now: float) -> None:
        sock.setblocking(False)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        guest = UnprovenConnection(sock, self._tls, self._peer, self._link, now)
        try:
            self._selector.register(guest.fileno(), selectors.EVENT_READ, guest)
        except OSError:  # the kernel watches no more descriptors for this user
            self._refused[Refusal.CROWDED] += 1
            return guest.close()
        self._guests[guest.fileno()] = guest
        return self._serve(guest)

    def _link(self, stream: SocketLike) -> AgentConnection:
        return AgentConnection(stream, None, self._token, lost_after_s=self._lost_after_s, clock=self._clock)

    def _serve(self, guest: UnprovenConnection) -> None:
        """Go on with a guest as far as it lets."""
        try:
            link = guest.proceed()
        except Untrusted:
            self._dismiss(guest, Refusal.FOREIGN)
        except OSError:
            self._dismiss(guest, Refusal.LEFT)
        except ConnectionClosed as error:
            lied = isinstance(error.__cause__, WireError)
            self._dismiss(guest, Refusal.UNPROVEN if lied else Refusal.LEFT)
        else:
            if link is not None:
                self._let_in(guest, link)
            else:
                events = selectors.EVENT_READ | (selectors.EVENT_WRITE if guest.blocked else 0)
                self._selector.modify(guest.fileno(), events, guest)

    def _let_in(self, guest: UnprovenConnection, link: AgentConnection) -> None:
        """A second agent of one number is refused while the first is here: which is true, nobody knows."""
        if link.agent >= self._agents:
            return self._dismiss(guest, Refusal.UNKNOWN)
        former = self._joined.get(link.agent)
        if former is not None and former.fileno() >= 0:
            return self._dismiss(guest, Refusal.TAKEN)
        self._joined[link.agent] = link
        self._forget(guest)
        return self._admit(link)

    # --- room ----------------------------------------------------------------------------------------

    def _make_room(self, now: float) -> bool:
        return len(self._guests) < CROWD or self._drop_one(now)

    def _drop_one(self, now: float) -> bool:
        """Drop the oldest of those that have said least, but nobody who speaks TLS and came just now."""
        victim = min(self._guests.values(), key=lambda guest: guest.stage, default=None)
        if victim is None or (victim.stage is not Proof.ARRIVED and now < victim.since + GRACE_S):
            return False
        self._dismiss(victim, Refusal.CROWDED)
        return True

    def _pause(self, now: float) -> None:
        """Accept nobody for a moment; who comes waits in the kernel's queue."""
        self._selector.unregister(self._sock)
        self._resume_at = now + PAUSE_S

    def _dismiss(self, guest: UnprovenConnection, why: Refusal) -> None:
        self._refused[why] += 1
        self._forget(guest)
        guest.close()

    def _forget(self, guest: UnprovenConnection) -> None:
        self._selector.unregister(guest.fileno())
        del self._guests[guest.fileno()]


class Proof(IntEnum):
    """How much a connection has proven."""

    ARRIVED = 0
    SPEAKS_TLS = 1
    HOLDS_CERTIFICATE = 2


class UnprovenConnection:
    """A connection on its way through TLS and the handshake.

    Attributes:
        since: when it came, on a monotonic clock.
        stage: how far it is.
    """

    def __init__(
        self,
        sock: socket.socket,
        tls: ssl.SSLContext,
        peer: str,
        make_link: Callable[[SocketLike], AgentConnection],
        since: float,
    ) -> None:
        self.since = since
        self.stage = Proof.ARRIVED
        self._stream = SecureStream(sock, tls, peer, server=True)
        self._make_link = make_link
        self._link: AgentConnection | None = None

    def fileno(self) -> int:
        """The connection's descriptor; -1 once closed."""
        return self._stream.fileno()

    @property
    def blocked(self) -> bool:
        """Whether what we have to say waits for room."""
        return self._stream.blocked or (self._link is not None and self._link.wants_to_write)

    def proceed(self) -> AgentConnection | None:
        """Go on as far as it lets; the link once the agent has joined.

        Raises:
            OSError, LinkClosed: it left, or is not ours.
        """
        if self._link is None:
            if not self._stream.shake():
                self.stage = Proof.SPEAKS_TLS if self._stream.answered else Proof.ARRIVED
                return None
            self.stage = Proof.HOLDS_CERTIFICATE
            self._link = self._make_link(self._stream)
        self._link.flush()
        return self._link if self._link.join() else None

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()


BACKLOG = 4096


def bind_listener(host: str, ports: range) -> socket.socket:
    """A listening, non-blocking socket at this address alone, on the first of the ports that is free.

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
    asked = f"port {ports[0]} is" if len(ports) == 1 else f"all of the ports {ports[0]}-{ports[-1]} are"
    raise CannotPlace(f"cannot listen at {host}: {asked} in use")


def _resolve(host: str) -> tuple[int, tuple[str, ...]]:
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise CannotPlace(f"cannot listen at {host!r}: {why}") from error
    return found[0][0], found[0][4]  # type: ignore[return-value]  # typed for every family there is


def _sentence(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRNOTAVAIL:
        return f"cannot listen at {host}: it is not an address of this machine"
    if error.errno == errno.EACCES:
        return f"cannot listen at {host}: port {port} is reserved for the superuser"
    return f"cannot listen at {host} port {port}: {os.strerror(error.errno or 0)}"
