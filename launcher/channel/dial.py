"""How an agent connects to its engine: by the first of the engine's addresses that answers."""

from __future__ import annotations

import contextlib
import ipaddress
import selectors
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence

from . import network
from .connecting import DialAddress, Unreachable, connect, dial_addresses
from .tls import Credentials, SecureStream, Untrusted, context

STAGGER_S = 0.25
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.05, 1.0


def dial(
    addresses: Sequence[tuple[str, int]],
    credentials: Mapping[str, str],
    timeout_s: float,
    *,
    namespace: str = "",
) -> SecureStream:
    """A secure stream to the engine, non-blocking.

    Addresses are tried in order, each a quarter of a second after the last, or at once when that has failed.
    Names come after numeric addresses, since their look-up may take long. An engine that is flooded with
    connections may drop ours before the handshake; then it is tried again.

    A loopback address means the engine within its own network namespace only. In another one it is somebody
    else's, who may be harmed: a JVM that expects a length takes our first four bytes for 353 MiB, allocates
    them, and its executor ends with "Command exited with code 52".

    Args:
        addresses: where the engine may listen: (host, port).
        credentials: the fields of this end's `Credentials`.
        timeout_s: seconds that all attempts together may take.
        namespace: the engine's network namespace (`network.namespace`); empty if unknown.

    Raises:
        Unreachable: no engine of this run answers.
    """
    deadline = time.monotonic() + timeout_s
    afar = bool(namespace) and network.namespace() not in ("", namespace)
    dialler = _Dialler(Credentials(**credentials), deadline, afar=afar)
    targets: Iterable[DialAddress] = dialler.look_up(sorted(addresses, key=lambda a: not _is_number(a[0])))
    pause_s = FIRST_PAUSE_S
    while True:
        if (stream := dialler.try_all(targets, len(addresses))) is not None:
            return stream
        targets = dialler.dropped
        if not dialler.dropped or time.monotonic() + pause_s >= deadline:
            break
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
    tried = "; ".join(f"{name} ({why})" for name, why in dialler.why.items())
    raise Unreachable(f"cannot reach the engine at {tried or 'no address'}")


def secure(sock: socket.socket, credentials: Mapping[str, str], timeout_s: float) -> SecureStream:
    """A secure stream over another kind of connection to the engine; the stream closes `sock`.

    Raises:
        Unreachable: no engine of this run answers.
    """
    try:
        own = Credentials(**credentials)
        stream = SecureStream(sock, context(own, server=False), own.peer, server=False)
        sock.setblocking(False)
        _shake(stream, time.monotonic() + timeout_s)
    except OSError as error:
        sock.close()
        raise Unreachable(f"the engine does not answer: {_reason(error)}") from error
    return stream


class _Dialler:
    """One call of `dial`: why addresses failed, and which may be tried again."""

    def __init__(self, credentials: Credentials, deadline: float, *, afar: bool) -> None:
        self.why: dict[str, str] = {}
        self.dropped: list[DialAddress] = []
        self._peer = credentials.peer
        self._deadline = deadline
        self._afar = afar
        try:
            self._tls = context(credentials, server=False)
        except Untrusted as error:
            raise Unreachable(str(error)) from error

    def look_up(self, addresses: Sequence[tuple[str, int]]) -> Iterator[DialAddress]:
        for host, port in addresses:
            try:
                yield from (found for found in dial_addresses(host, port) if self._may_be_engine(found))
            except (OSError, UnicodeError) as error:
                self.why[f"{host}:{port}"] = f"no such name: {_reason(error)}"

    def _may_be_engine(self, target: DialAddress) -> bool:
        if self._afar and network.is_loopback(str(target.address[0])):
            self.why[target.name] = "a loopback address, valid on the engine's host only"
            return False
        return True

    def try_all(self, targets: Iterable[DialAddress], count: int) -> SecureStream | None:
        """Try about `count` targets once; return the first secure stream."""
        self.dropped = []
        attempts = connect(targets, self._left(), stagger_s=STAGGER_S)
        with contextlib.closing(attempts):
            for tried, (target, outcome) in enumerate(attempts):
                share_s = self._left() / max(1, count - tried)
                if isinstance(outcome, OSError):
                    self.why[target.name] = _reason(outcome)
                elif (stream := self._secured(target, outcome, share_s)) is not None:
                    return stream
        return None

    def _secured(self, target: DialAddress, sock: socket.socket, limit_s: float) -> SecureStream | None:
        stream = SecureStream(sock, self._tls, self._peer, server=False)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _shake(stream, time.monotonic() + limit_s)
        except OSError as error:
            stream.close()
            foreign = isinstance(error, Untrusted)
            self.why[target.name] = f"not this run's engine: {error}" if foreign else _reason(error)
            if isinstance(error, ConnectionError) and not foreign:
                self.dropped.append(target)
            return None
        return stream

    def _left(self) -> float:
        return max(0.0, self._deadline - time.monotonic())


def _shake(stream: SecureStream, deadline: float) -> None:
    """Do the TLS handshake, at most until the deadline, however slowly the other end sends."""
    with selectors.DefaultSelector() as selector:
        key = selector.register(stream, selectors.EVENT_READ)
        while not stream.shake():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("it accepted the connection, but sends nothing that is TLS")
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.blocked else 0)
            selector.modify(key.fileobj, events)
            selector.select(left)


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
