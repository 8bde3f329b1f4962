"""A process on the Connect server's host: agents connect to it, and the engine fetches their bytes by calls.

It listens where executors reach the server, and cannot read the bytes: TLS is between agent and engine. It
ends with the server, or after `LEASE_S` without a call from the engine; agents then see a closed connection.
Standard library only.

A call is one request on a local socket: `HEAD`, then the engine's half of an exchange. It is answered at once
if there are bytes to send, else after the seconds in the request.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import socket
import struct
import sys
import time

from .multiplex import Multiplex

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.channel import relay; relay.main()"
LEASE_S = 9.0
CALL_S = 5.0
ANSWER_BYTES = 2 << 20
FOREIGN_CONNECTIONS = 64  # beyond one for each agent, for others or for agents that connect another way
# Seconds that the answer may wait for bytes to send, and flags.
HEAD = struct.Struct("!dB")
SHUT, LEAVE = 1, 2


def main() -> None:
    """Listen, write the addresses to standard output, and go on as a daemon.

    Standard input is a JSON object: ``hosts``, of which the first that is an address here is listened at;
    ``agents``, the number of expected connections; and ``server``, the pid of the server (0: unknown).
    """
    options = json.load(sys.stdin)
    door = listen(options["hosts"])
    local = socket.socket(socket.AF_UNIX)
    local.bind(b"\0rankdeck-relay-" + os.urandom(16).hex().encode())
    local.listen(16)
    name, port = local.getsockname()[1:].decode(), door.getsockname()[1]
    if os.fork():
        sys.stdout.write(json.dumps({"name": name, "port": port}))
        sys.stdout.flush()
        os._exit(0)
    os.setsid()
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    server = -1
    with contextlib.suppress(OSError):
        server = os.pidfd_open(options["server"]) if options["server"] else -1
    RelayServer(door, local, most=options["agents"] + FOREIGN_CONNECTIONS, server=server).run()
    os._exit(0)


def listen(hosts: list[str]) -> socket.socket:
    """A listening socket at the first of these that is an address of this machine.

    Raises:
        OSError: none of them is.
    """
    refused: OSError | None = None
    for host in hosts:
        try:
            family, _, _, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
            return socket.create_server(address[:2], family=family, backlog=1024)
        except OSError as error:
            refused = error
    raise refused or OSError("no address to listen at")


class RelayServer:
    """The loop, on one thread.

    Args:
        door: the listening socket for agents.
        local: the listening socket for calls.
        most: how many connections there may be at once.
        server: a descriptor that is readable once the server has ended; -1 for none.
        lease_s: seconds without a call after which it ends.
    """

    def __init__(
        self,
        door: socket.socket,
        local: socket.socket,
        *,
        most: int,
        server: int = -1,
        lease_s: float = LEASE_S,
    ) -> None:
        self._door, self._local, self._most, self._lease_s = door, local, most, lease_s
        self._selector = selectors.DefaultSelector()
        self._multiplex = Multiplex(self._selector)
        self._caller: tuple[socket.socket, float] | None = None
        self._called = time.monotonic()
        self._ended = False
        for sock in (door, local):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ, sock)
        if server >= 0:
            self._selector.register(server, selectors.EVENT_READ)

    def run(self) -> None:
        """Forward bytes until the server or the engine's calls end."""
        while not self._ended:
            for key, events in self._selector.select(self._timeout()):
                if key.data is self._multiplex:
                    self._multiplex.on_ready(key.fd, events)
                elif key.data is self._door:
                    self._admit()
                elif key.data is self._local:
                    self._receive_call()
                else:
                    self._ended = True
            self._check_deadlines(time.monotonic())
        self._answer()
        self._multiplex.close()

    def _timeout(self) -> float:
        until = self._called + self._lease_s
        if self._caller is not None:
            until = min(until, self._caller[1])
        return max(0.0, until - time.monotonic())

    def _check_deadlines(self, now: float) -> None:
        if self._caller is not None and (self._multiplex.line.pending or now >= self._caller[1]):
            self._answer()
        elif now >= self._called + self._lease_s:
            self._ended = True

    def _admit(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._door.accept()
            if len(self._multiplex) < self._most:
                self._multiplex.accept(sock)
            else:
                sock.close()

    def _receive_call(self) -> None:
        """Read a request. If another still waits for its answer, the engine has given that one up."""
        with contextlib.suppress(OSError):
            sock, _ = self._local.accept()
            with contextlib.ExitStack() as cleanup:
                cleanup.callback(sock.close)
                if not _is_same_user(sock):
                    return
                sock.settimeout(CALL_S)
                with contextlib.suppress(ValueError, struct.error):
                    hold_s, flags, half = parse(receive_all(sock))
                    self._answer()
                    self._multiplex.take(self._multiplex.line.unpack(half))
                    cleanup.pop_all()
                    self._called = time.monotonic()
                    self._caller = sock, self._called + hold_s
                    self._apply(flags)

    def _apply(self, flags: int) -> None:
        if flags & (SHUT | LEAVE) and self._door.fileno() >= 0:
            self._selector.unregister(self._door)
            self._door.close()
        if flags & LEAVE:
            self._ended = True

    def _answer(self) -> None:
        if self._caller is not None:
            sock, self._caller = self._caller[0], None
            with sock, contextlib.suppress(OSError):
                sock.sendall(self._multiplex.line.pack(ANSWER_BYTES))
            self._called = time.monotonic()


def parse(request: bytes) -> tuple[float, int, bytes]:
    """Seconds that the answer may wait, flags, and the engine's half of an exchange.

    Raises:
        struct.error: it is no request.
    """
    hold_s, flags = HEAD.unpack_from(request)
    return min(max(hold_s, 0.0), CALL_S), flags, request[HEAD.size :]


def receive_all(sock: socket.socket) -> bytes:
    """Read until the other end has finished sending."""
    pieces = []
    while piece := sock.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _is_same_user(sock: socket.socket) -> bool:
    """Whether a process of the same user is at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())
