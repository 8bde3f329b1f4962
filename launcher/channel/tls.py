"""TLS over a socket, for an agent and its engine: each trusts one certificate, the other's.

A run's certificates are made for it alone and travel as texts; they are in no file system at any time.
OpenSSL works in memory and the socket is ours, so that what the kernel says of it (readable, writable)
is the whole truth: no decrypted byte waits where a selector cannot see it.
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
    """A socket's part that channels use: plain sockets have it, and so has `launcher.channel.tls`'s."""

    def fileno(self) -> int:
        """The descriptor for a selector; -1 once closed."""
        ...

    def recv(self, size: int, /) -> bytes:
        """What has come, about `size` bytes at most; empty at the end. BlockingIOError: nothing yet."""
        ...

    def sendmsg(self, buffers: Sequence[memoryview], /) -> int:
        """Send from the front of `buffers`; how many bytes were taken. BlockingIOError: none, for now.

        After a BlockingIOError the next call begins with the same bytes.
        """
        ...

    def sendall(self, data: bytes, /) -> None:
        """Send everything; for blocking streams."""
        ...

    def setblocking(self, blocking: bool, /) -> None:
        """Whether calls wait."""
        ...

    def settimeout(self, seconds: float | None, /) -> None:
        """How long each call waits."""
        ...

    def getsockname(self) -> Any:
        """This end's address, in the form of its family."""
        ...

    def getpeername(self) -> Any:
        """The other end's address, in the form of its family."""
        ...

    def close(self) -> None:
        """Close it, at once."""
        ...


SEND_BYTES = 256 << 10
RECORD_BYTES = 16 << 10


class Untrusted(ConnectionError):
    """The other end does not speak TLS, or does not hold this run's certificate, or refused ours."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """One end's, as PEM texts.

    Attributes:
        certificate, key: what this end proves itself with.
        peer: the one certificate that the other end must have.
    """

    certificate: str
    key: str = field(repr=False)
    peer: str


def context(credentials: Credentials, *, server: bool) -> ssl.SSLContext:
    """TLS 1.3 with certificates at both ends; names are not looked at, since the certificates are pinned.

    Raises:
        Untrusted: the credentials are no certificates, or do not belong together.
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
        made.num_tickets = 0  # nobody comes back
    return made


@contextlib.contextmanager
def _nameless_file(text: str) -> Iterator[str]:
    """A path for what only takes paths."""
    descriptor = os.memfd_create("rankdeck-certificate", os.MFD_CLOEXEC)
    try:
        with open(descriptor, "w", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class SecureStream:
    """A `Stream` with TLS in it. It is the socket's owner; one thread at a time uses it.

    Args:
        sock: a connected socket.
        tls: what `context` made, for this end.
        peer: the one certificate that will do, as in `Credentials`.
        server: whether this end accepted the connection.
    """

    def __init__(self, sock: socket.socket, tls: ssl.SSLContext, peer: str, *, server: bool) -> None:
        self._sock = sock
        self._peer = peer
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = tls.wrap_bio(self._in, self._out, server_side=server)
        self._cipher = memoryview(b"")
        self._taken = 0
        self._early = b""
        self._shaken = False
        self.answered = False

    @property
    def blocked(self) -> bool:
        """Whether something encrypted waits for room in the socket."""
        return bool(self._cipher) or self._out.pending > 0

    def shake(self) -> bool:
        """Go on with the handshake as far as the socket lets; whether it is done.

        `answered` is then whether the other end has said something that TLS 1.3 begins with.

        Raises:
            Untrusted: it is not the other end of this run.
            ConnectionError: it left.
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
        """What can be decrypted with the next `size` bytes that the kernel has; empty at the end.

        A record whose beginning came before may come on top. Call it once after the handshake, with which
        the first bytes may have come.

        Raises:
            BlockingIOError: nothing has come.
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
        """Encrypt from the front of `buffers` and send; how many bytes are with the kernel.

        What is encrypted is not taken before all of it is out, and must come first again until then.

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
        """Whether calls wait."""
        self._sock.setblocking(blocking)

    def settimeout(self, seconds: float | None, /) -> None:
        """How long each wait for the other end may be."""
        self._sock.settimeout(seconds)

    def getsockname(self) -> Any:
        """This end's address."""
        return self._sock.getsockname()

    def getpeername(self) -> Any:
        """The other end's address."""
        return self._sock.getpeername()

    def close(self) -> None:
        """Close the connection. No farewell is said: frames tell their own end."""
        self._sock.close()

    def _step(self) -> bool:
        """One step of the handshake; whether it is the last. What TLS has to say to a stranger is said."""
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
        """Exactly that certificate, and not one that it might have signed."""
        if self._tls.getpeercert(binary_form=True) != ssl.PEM_cert_to_DER_cert(self._peer):
            raise ValueError("another certificate than this run's")

    def _decrypted(self) -> tuple[bytes, bool]:
        """What can be read, and whether the other end has said that it will write no more."""
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
        """Give the kernel what is encrypted.

        Raises:
            BlockingIOError: there is more than it takes.
        """
        while self.blocked:
            if not self._cipher:
                self._cipher = memoryview(self._out.read())
            self._cipher = self._cipher[self._sock.send(self._cipher) :]


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
    """OpenSSL's own words, without its source files."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)
