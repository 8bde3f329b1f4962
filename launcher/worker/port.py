"""A port for rank 0's store: bound, so that nobody else gets it, and not listened on, so that rank 0 can.

Linux lets two sockets with SO_REUSEADDR bind one port as long as neither listens; torch's store (and
libuv under it) sets that option. The kernel gives a bound port to nobody who asks for any port. So the
port is held from before the ranks exist until they have ended, instead of being guessed and hoped for.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port that is ours while `sock` is open."""

    sock: socket.socket
    number: int


def hold() -> HeldPort:
    """Hold a port on every address, IPv6 included where there is any."""
    sock = _bound(socket.AF_INET6, "::") or _bound(socket.AF_INET, "0.0.0.0")
    if sock is None:
        raise OSError("this host has no port left to bind")
    return HeldPort(sock, sock.getsockname()[1])


def _bound(family: socket.AddressFamily, address: str) -> socket.socket | None:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address, 0))
    except OSError:
        sock.close()
        return None
    return sock
