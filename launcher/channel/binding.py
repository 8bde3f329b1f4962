"""Listening at one address, on one of several ports."""

from __future__ import annotations

import errno
import os
import socket

from launcher.errors import CannotPlace

BACKLOG = 4096


def bind(host: str, ports: range) -> socket.socket:
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
