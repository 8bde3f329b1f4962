"""One connection that has yet to prove that it is an agent's."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from enum import IntEnum

from launcher.channel.link import Link
from launcher.worker.secure import SecureStream
from launcher.worker.stream import Stream


class Stage(IntEnum):
    """How much a connection has proven."""

    ARRIVED = 0
    SPEAKS_TLS = 1
    HOLDS_CERTIFICATE = 2


class Guest:
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
        make_link: Callable[[Stream], Link],
        since: float,
    ) -> None:
        self.since = since
        self.stage = Stage.ARRIVED
        self._stream = SecureStream(sock, tls, peer, server=True)
        self._make_link = make_link
        self._link: Link | None = None

    def fileno(self) -> int:
        """The connection's descriptor; -1 once closed."""
        return self._stream.fileno()

    @property
    def blocked(self) -> bool:
        """Whether what we have to say waits for room."""
        return self._stream.blocked or (self._link is not None and self._link.wants_to_write)

    def proceed(self) -> Link | None:
        """Go on as far as it lets; the link once the agent has joined.

        Raises:
            OSError, LinkClosed: it left, or is not ours.
        """
        if self._link is None:
            if not self._stream.shake():
                self.stage = Stage.SPEAKS_TLS if self._stream.answered else Stage.ARRIVED
                return None
            self.stage = Stage.HOLDS_CERTIFICATE
            self._link = self._make_link(self._stream)
        self._link.flush()
        return self._link if self._link.join() else None

    def close(self) -> None:
        """Close the connection."""
        self._stream.close()
