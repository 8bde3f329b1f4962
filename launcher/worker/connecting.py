"""Connecting to several addresses at once: the first that answers does not wait for those that never will."""

from __future__ import annotations

import errno
import os
import selectors
import socket
import time
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """An address as it was given, and one of the socket addresses that it stands for."""

    name: str
    family: int
    address: tuple[object, ...]


Outcome = socket.socket | OSError


def targets(host: str, port: int) -> list[Target]:
    """What a name or an address stands for.

    Raises:
        OSError: nothing.
    """
    name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [Target(name, family, address) for family, _, _, _, address in found]


def connect(
    wanted: Iterable[Target], timeout_s: float, *, stagger_s: float = 0.0
) -> Generator[tuple[Target, Outcome], None, None]:
    """Connect to all, and tell each outcome as it comes: a non-blocking socket, or why there is none.

    Sockets that were told belong to the caller. Closing the generator gives up the rest.

    Args:
        wanted: whom to connect to, the best first; taken one by one, as their turn comes.
        timeout_s: how long each attempt may take.
        stagger_s: the head start of each attempt over the next; a failure ends it.
    """
    waiting, more = iter(wanted), True
    with _Attempts(timeout_s) as attempts:
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


class _Attempts:
    """Sockets that are on their way."""

    def __init__(self, timeout_s: float) -> None:
        self._timeout = timeout_s
        self._selector = selectors.DefaultSelector()
        self._until: dict[socket.socket, tuple[Target, float]] = {}

    def __enter__(self) -> _Attempts:
        return self

    def __exit__(self, *_: object) -> None:
        for sock in self._until:
            sock.close()
        self._selector.close()

    def __bool__(self) -> bool:
        return bool(self._until)

    def begin(self, target: Target) -> OSError | None:
        """Start one; why it failed, if it did at once."""
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
        self._until[sock] = target, time.monotonic() + self._timeout
        self._selector.register(sock, selectors.EVENT_WRITE)
        return None

    def ended(self, until: float | None) -> Iterator[tuple[Target, Outcome]]:
        """Wait for some to end, but not beyond `until`, on the monotonic clock."""
        now = time.monotonic()
        limits = [limit for _, limit in self._until.values()] + ([until] if until is not None else [])
        ready = {key.fileobj for key, _ in self._selector.select(max(0.0, min(limits) - now))}
        now = time.monotonic()
        over = [s for s, (_, limit) in self._until.items() if s in ready or now >= limit]
        for sock in over:
            yield self._end(sock, in_time=sock in ready)

    def _end(self, sock: socket.socket, *, in_time: bool) -> tuple[Target, Outcome]:
        target, _ = self._until.pop(sock)
        self._selector.unregister(sock)
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) if in_time else errno.ETIMEDOUT
        if not code:
            return target, sock
        sock.close()
        why = os.strerror(code) if in_time else f"no answer within {self._timeout:.3g} s"
        return target, OSError(code, why)
