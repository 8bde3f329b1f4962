"""The pipe between a rank and its agent: small packets on an inherited socket.

SOCK_SEQPACKET keeps packets whole, so several threads may send and a report can be dropped in one piece
when the agent is busy: telemetry must never slow a training. Results and failures wait instead.

A packet's first byte is its kind. All facts are of one kind and hold their tag of `launcher.state.events`:
that module is not imported here, because its import would delay every rank.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

PACKET = 64 << 10
DATA = PACKET - 1

FACT = b"F"
RESULT_BEGIN = b"B"
RESULT_DATA = b"D"
RESULT_END = b"Z"
RESULT_ABORT = b"A"
LEFT = b"L"
READY = b"Y"
LOST = b"X"
"""A service beside a rank says that it can be used, or why it will end."""


def pair() -> tuple[socket.socket, socket.socket]:
    """The agent's end, which does not block, and the rank's."""
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    near.setblocking(False)
    return near, far


@dataclass(frozen=True, slots=True)
class RankPipe:
    """The rank's end. Only the process that opened it sends: forked DataLoader workers do not."""

    sock: socket.socket
    owner: int

    @classmethod
    def adopt(cls, descriptor: int) -> RankPipe:
        """Take over an inherited descriptor and keep it from the rank's own children."""
        os.set_inheritable(descriptor, False)
        return cls(socket.socket(fileno=descriptor), os.getpid())

    @property
    def mine(self) -> bool:
        """Whether the calling process is the rank itself."""
        return os.getpid() == self.owner

    def send(self, kind: bytes, data: bytes | memoryview = b"") -> None:
        """Send one packet, waiting for room. A lost agent or closed socket is not the training's error."""
        self._send(kind, data, 0)

    def send_document(self, kind: bytes, value: Mapping[str, Any]) -> None:
        """Send a JSON object."""
        self.send(kind, json.dumps(value, separators=(",", ":")).encode())

    def send_fact(self, tag: str, fields: Mapping[str, Any]) -> None:
        """Send a fact about this rank, waiting for room."""
        self.send_document(FACT, {"event": tag, **fields})

    def offer_fact(self, tag: str, fields: Mapping[str, Any]) -> bool:
        """Send a fact if there is room now; return whether there was.

        A fact that is too large is dropped, and so is one that nobody reads any more.
        """
        data = json.dumps({"event": tag, **fields}, separators=(",", ":")).encode()
        return len(data) > DATA or self._send(FACT, data, socket.MSG_DONTWAIT)

    def _send(self, kind: bytes, data: bytes | memoryview, flags: int) -> bool:
        if not self.mine:
            return False
        try:
            self.sock.sendmsg([kind, data], [], flags)
        except BlockingIOError:
            return False
        except OSError:  # the agent is gone, or the program has closed the socket
            pass
        return True


def receive(sock: socket.socket) -> tuple[bytes, bytes] | Literal["empty", "closed"]:
    """The next packet at the agent's end as (kind, data), or why there is none."""
    try:
        packet = sock.recv(PACKET * 2)
    except BlockingIOError:
        return "empty"
    except ConnectionError:
        return "closed"
    return (packet[:1], packet[1:]) if packet else "closed"


def close_to_rank(sock: socket.socket) -> None:
    """Send nothing more from the agent's end: a service takes that for its release."""
    with contextlib.suppress(OSError):  # closed already, or its peer is gone
        sock.shutdown(socket.SHUT_WR)


def parse(data: bytes) -> dict[str, Any]:
    """A packet's JSON object.

    Raises:
        ValueError: the packet holds no JSON object.
    """
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deep") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004  one error for every malformed packet
    return value
