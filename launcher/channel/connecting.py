"""Open TCP connections to several addresses at once; each attempt starts a little after the one before."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass

SILENT = "the agent's host was silent"
"""What is said of a connection from whose other end nothing came any more; for how long follows."""


class Unreachable(OSError):
    """No address of the engine could be reached; the message names each with the reason."""


@dataclass(frozen=True, slots=True)
class DialAddress:
    """A configured address, and one of the socket addresses that it resolves to."""

    name: str
    family: int
    address: tuple[object, ...]


Outcome = socket.socket | OSError


def endpoint(host: str, port: int | str) -> str:
    """A host and a port in one text, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial_addresses(host: str, port: int) -> list[DialAddress]:
    """Resolve a name or an address.

    Raises:
        OSError: it cannot be resolved.
    """
    name = endpoint(host, port)
    resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [DialAddress(name, family, address) for family, _, _, _, address in resolved]


def connect(
    targets: Iterable[DialAddress], timeout_s: float, *, stagger_s: float = 0.0
) -> Generator[tuple[DialAddress, Outcome], None, None]:
    """Connect to all targets, and yield each outcome as it comes: a non-blocking socket, or the error.

    Yielded sockets belong to the dialler. Closing the generator cancels the rest.

    Args:
        targets: where to connect, the best first; taken from the iterable one by one, when it is their turn.
        timeout_s: seconds that each attempt may take.
        stagger_s: the head start of each attempt over the next; a failure ends it.
    """
    waiting, more = iter(targets), True
    with _Pending(timeout_s) as attempts:
        next_start = time.monotonic()
        while more or attempts:
            if more and (time.monotonic() >= next_start or not attempts):
                begun = next(waiting, None)
                more = begun is not None
                next_start = time.monotonic() + stagger_s
                if begun is not None and (failed := attempts.begin(begun)) is not None:
                    next_start = time.monotonic()
                    yield begun, failed
                continue
            for target, outcome in attempts.ended(next_start if more else None):
                if isinstance(outcome, OSError):
                    next_start = time.monotonic()
                yield target, outcome


class _Pending:
    """Sockets that are being connected."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout = timeout_s
        self._selector = selectors.DefaultSelector()
        self._deadlines: dict[socket.socket, tuple[DialAddress, float]] = {}

    def __enter__(self) -> _Pending:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._deadlines:
            sock.close()
        self._selector.close()

    def __bool__(self) -> bool:
        return bool(self._deadlines)

    def begin(self, target: DialAddress) -> OSError | None:
        """Start to connect; return the error if it fails at once."""
        try:
            sock = socket.socket(target.family, socket.SOCK_STREAM)
        except OSError as error:
            return error
        sock.setblocking(False)
        try:
            code = sock.connect_ex(target.address)
        except OSError as error:
            sock.close()
            return error
        if code not in (0, errno.EINPROGRESS):
            sock.close()
            return OSError(code, os.strerror(code))
        self._deadlines[sock] = target, time.monotonic() + self._timeout
        self._selector.register(sock, selectors.EVENT_WRITE)
        return None

    def ended(self, until: float | None) -> Iterator[tuple[DialAddress, Outcome]]:
        """Wait for attempts to end, at most until the monotonic time `until`."""
        now = time.monotonic()
        limits = [limit for _, limit in self._deadlines.values()] + ([until] if until is not None else [])
        ready = {key.fileobj for key, _ in self._selector.select(max(0.0, min(limits) - now))}
        now = time.monotonic()
        over = [s for s, (_, limit) in self._deadlines.items() if s in ready or now >= limit]
        for sock in over:
            yield self._end(sock, in_time=sock in ready)

    def _end(self, sock: socket.socket, *, in_time: bool) -> tuple[DialAddress, Outcome]:
        target, _ = self._deadlines.pop(sock)
        self._selector.unregister(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if in_time else errno.ETIMEDOUT
        if not code:
            return target, sock
        sock.close()
        why = os.strerror(code) if in_time else f"no answer within {self._timeout:.3g} s"
        return target, OSError(code, why)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An address at which an engine listens."""

    host: str
    port: int
