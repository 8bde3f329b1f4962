"""TLS over a socket, for an agent and its engine: each trusts one certificate, the other's.

A run's certificates are made for that run only and are sent as texts; they are never in a file system.
OpenSSL works in memory and this module reads and writes the socket itself, so that no decrypted byte waits
where a selector cannot see it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class SocketLike(Protocol):
    """The methods of a socket that channels use; plain sockets and `SecureStream` have them."""

    def fileno(self) -> int:
        """The descriptor for a selector; -1 once closed."""
        ...

    def recv(self, size: int, /) -> bytes:
        """Read about `size` bytes at most; empty at the end. BlockingIOError: nothing yet."""
        ...

    def sendmsg(self, buffers: Sequence[memoryview], /) -> int:
        """Send from the front of `buffers`; return how many bytes. BlockingIOError: none, for now.

        After a BlockingIOError the next call must begin with the same bytes.
        """
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send everything; for blocking streams."""
        ...

    def setblocking(self, blocking: bool, /) -> None:
        """Set whether calls block."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """Set how long each call may block."""
        ...

    def getsockname(self) -> Any:
        """This end's address, in the form of its family."""
        ...

    def getpeername(self) -> Any:
        """The other end's address, in the form of its family."""
        ...

    def close(self) -> None:
        """Close it at once."""
        ...


SEND_BYTES = 256 << 10
RECORD_BYTES = 16 << 10


class Untrusted(ConnectionError):
    """The other end does not use TLS, does not have this run's certificate, or refused ours."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials of one end, as PEM texts.

    Attributes:
        certificate, key: this end's own.
        peer: the certificate that the other end must have.
    """

    certificate: str
    key: str = field(repr=False)
    peer: str


def context(credentials: Credentials, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 with certificates at both ends; host names are not checked, since the certificates are pinned.

    Raises:
        Untrusted: the credentials are invalid or do not belong together.
    """
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    made.check_hostname = False
    made.verify_mode = ssl.CERT_REQUIRED
    made.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        made.load_verify_locations(cadata=credentials.peer)
        with _nameless_file(credentials.certificate + credentials.key) as path:
            made.load_cert_chain(path)
    except (ssl.SSLError, ValueError, TypeError) as error:
        raise Untrusted(f"the run's certificates cannot be used: {_reason(error)}") from error
    if server:
        made.num_tickets = 0  # sessions are never resumed
    return made


@contextlib.contextmanager
def _nameless_file(text: str) -> Iterator[str]:
    """A path to a text in memory, for `load_cert_chain`, which accepts paths only."""
    descriptor = os.memfd_create("rankdeck-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class SecureStream:
    """A `SocketLike` with TLS. It owns the socket; one thread at a time may use it.

    Args:
        sock: a connected socket.
        tls: this end's `context`.
        peer: the only certificate to accept, as in `Credentials`.
        server: whether this end accepted the connection.
    """

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext, peer: str, *, server: bool) -> None:
        self._sock = sock
        self._peer = peer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._in, self._out, server_side=server)
        self._encrypted = memoryview(b"")
        self._taken = 0
        self._early = b""
        self._shaken = False
        self.answered = False

    @property
    def blocked(self) -> bool:
        """Whether encrypted bytes wait for room in the socket."""
        return bool(self._encrypted) or self._out.pending > 0

    def shake(self) -> bool:
        """Take the steps of the handshake that are possible now; return whether it is done.

        `answered` is then whether the other end has sent a valid first message of TLS 1.3.

        Raises:
            Untrusted: the other end is not of this run.
            ConnectionError: the other end left.
        """
        while not self._shaken:
            done = self._step()
            try:
                self._push()
                if done:
                    break
                data = self._sock.recv(RECORD_BYTES)
            except BlockingIOError:
                return False
            if not data:
                raise ConnectionResetError("it closed the connection")
            self._in.write(data)
        if not self._shaken:
            self._shaken = True
            self._early, _ = self._decrypted()
        return True

    def recv(self, size: int, /) -> bytes:
        """Read `size` bytes from the socket at most and return what can be decrypted; empty at the end.

        The result can be longer by a record that had begun to arrive before. Call it once right after the
        handshake, with which the first bytes may have arrived.

        Raises:
            BlockingIOError: nothing has arrived.
            ConnectionError: the connection broke.
        """
        if self._early:
            early, self._early = self._early, b""
            return early
        while True:
            data = self._sock.recv(size)
            if not data:
                return b""
            self._in.write(data)
            plain, ended = self._decrypted()
            if plain or ended:
                return plain

    def sendmsg(self, buffers: Sequence[memoryview], /) -> int:
        """Encrypt from the front of `buffers` and send; return how many bytes the kernel has accepted.

        Encrypted bytes count only once all of them are sent; until then each call must begin with them.

        Raises:
            BlockingIOError: there is no room.
            ConnectionError: the connection broke.
        """
        if not self._taken:
            self._taken = self._encrypt(_front(buffers))
        self._push()
        taken, self._taken = self._taken, 0
        return taken

    def sendall(self, data: bytes, /) -> None:
        """Send everything, as a blocking socket does."""
        rest = memoryview(data)
        while rest:
            rest = rest[self.sendmsg([rest]) :]

    def fileno(self) -> int:
        """The socket's descriptor; -1 once closed."""
        return self._sock.fileno()

    def setblocking(self, blocking: bool, /) -> None:
        """Set whether calls block."""
        self._sock.setblocking(blocking)

    def settimeout(self, seconds: float | None, /) -> None:
        """Set how long each wait for the other end may be."""
        self._sock.settimeout(seconds)

    def getsockname(self) -> Any:
        """This end's address."""
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        """The other end's address."""
        return self._sock.getpeername()

    def close(self) -> None:
        """Close the connection without TLS's closing message, which frames do not need."""
        self._sock.close()

    def _step(self) -> bool:
        """Take one step of the handshake; return whether it was the last. TLS's alerts are still sent."""
        try:
            self._tls.do_handshake()
            self._check_peer()
        except ssl.SSLWantReadError:
            self.answered = self.answered or self._out.pending > 0
            return False
        except (ssl.SSLError, ValueError) as error:
            with contextlib.suppress(OSError):
                self._push()
            raise Untrusted(_reason(error)) from error
        return True

    def _check_peer(self) -> None:
        """Accept exactly the pinned certificate, and none that it has signed."""
        if self._tls.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(self._peer):
            raise ValueError("another certificate than this run's")

    def _decrypted(self) -> tuple[bytes, bool]:
        """All decrypted bytes, and whether the other end has finished writing."""
        pieces = []
        try:
            while piece := self._tls.read(RECORD_BYTES):
                pieces.append(piece)
        except ssl.SSLWantReadError:
            return b"".join(pieces), False
        except ssl.SSLZeroReturnError:
            pass
        except ssl.SSLError as error:
            raise Untrusted(f"the encrypted channel broke: {_reason(error)}") from error
        return b"".join(pieces), True

    def _encrypt(self, plain: memoryview) -> int:
        size = len(plain)
        try:
            while plain:
                plain = plain[self._tls.write(plain) :]
        except ssl.SSLError as error:
            raise Untrusted(f"the encrypted channel broke: {_reason(error)}") from error
        return size

    def _push(self) -> None:
        """Send the encrypted bytes.

        Raises:
            BlockingIOError: the kernel did not accept all of them.
        """
        while self.blocked:
            if not self._encrypted:
                self._encrypted = memoryview(self._out.read())
            self._encrypted = self._encrypted[self._sock.send(self._encrypted) :]


def _front(buffers: Sequence[memoryview]) -> memoryview:
    """The first bytes of `buffers` in one piece, so that small frames share a record."""
    if len(buffers[0]) >= SEND_BYTES:
        return buffers[0][:SEND_BYTES]
    pieces, room = [], SEND_BYTES
    for buffer in buffers:
        pieces.append(buffer[:room])
        room -= len(pieces[-1])
        if not room:
            break
    return memoryview(b"".join(pieces))


def _reason(error: Exception) -> str:
    """OpenSSL's own message, without its source files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
