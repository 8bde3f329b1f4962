"""A process beside the Connect server: agents connect to it, and the engine fetches what they say by calls.

It listens where executors reach the server, and knows nothing of what passes: TLS is between agent and
engine. It lives as long as the engine calls: after `LEASE_S` without a call, or with the server, it ends,
and agents then see their engine gone. Standard library only.

A call comes by a local socket, as one question: `HEAD`, then the engine's half of an exchange. It is answered
at once if there is something to say, else after the time that the question gives.
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
CROWD = 64  # connections beyond the agents', of strangers or of agents that found another way
# How long the answer may wait for something to say, in seconds, and what else is wanted.
HEAD = struct.Struct("!dB")
SHUT, LEAVE = 1, 2


def main() -> None:
    """Listen, say where on standard output, and go on without a parent.

    Standard input: a JSON object of ``hosts`` to listen at, the first that is an address here, ``agents``,
    how many connections are meant to come, and ``server``, a process whose end is ours too (0: none known).
    """
    given = json.load(sys.stdin)
    door = listen(given["hosts"])
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
        server = os.pidfd_open(given["server"]) if given["server"] else -1
    RelayServer(door, local, crowd=given["agents"] + CROWD, server=server).run()
    os._exit(0)


def listen(hosts: list[str]) -> socket.socket:
    """A listening socket at the first of these that is an address of this machine.

    Raises:
        OSError: none is.
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
        door: where agents come in.
        local: where calls come in.
        crowd: how many connections there may be at once.
        server: a descriptor that is readable when the server has gone; -1 for none.
        lease_s: seconds without a call after which it ends.
    """

    def __init__(
        self,
        door: socket.socket,
        local: socket.socket,
        *,
        crowd: int,
        server: int = -1,
        lease_s: float = LEASE_S,
    ) -> None:
        self._door, self._local, self._crowd, self._lease_s = door, local, crowd, lease_s
        self._selector = selectors.DefaultSelector()
        self._multiplex = Multiplex(self._selector)
        self._caller: tuple[socket.socket, float] | None = None
        self._called = time.monotonic()
        self._over = False
        for sock in (door, local):
            sock.setblocking(False)
            self._selector.register(sock, selectors.EVENT_READ, sock)
        if server >= 0:
            self._selector.register(server, selectors.EVENT_READ)

    def run(self) -> None:
        """Carry until nobody calls any more."""
        while not self._over:
            for key, events in self._selector.select(self._timeout()):
                if key.data is self._multiplex:
                    self._multiplex.on_ready(key.fd, events)
                elif key.data is self._door:
                    self._admit()
                elif key.data is self._local:
                    self._hear()
                else:
                    self._over = True
            self._tend(time.monotonic())
        self._answer()
        self._multiplex.close()

    def _timeout(self) -> float:
        until = self._called + self._lease_s
        if self._caller is not None:
            until = min(until, self._caller[1])
        return max(0.0, until - time.monotonic())

    def _tend(self, now: float) -> None:
        if self._caller is not None and (self._multiplex.line.pending or now >= self._caller[1]):
            self._answer()
        elif now >= self._called + self._lease_s:
            self._over = True

    def _admit(self) -> None:
        with contextlib.suppress(OSError):
            sock, _ = self._door.accept()
            if len(self._multiplex) < self._crowd:
                self._multiplex.accept(sock)
            else:
                sock.close()

    def _hear(self) -> None:
        """Take a question. One that still waits for its answer was given up, else this one would not come."""
        with contextlib.suppress(OSError):
            sock, _ = self._local.accept()
            with contextlib.ExitStack() as unless:
                unless.callback(sock.close)
                if not _is_ours(sock):
                    return
                sock.settimeout(CALL_S)
                with contextlib.suppress(ValueError, struct.error):
                    hold_s, wanted, half = parse(receive_all(sock))
                    self._answer()
                    self._multiplex.take(self._multiplex.line.unpack(half))
                    unless.pop_all()
                    self._called = time.monotonic()
                    self._caller = sock, self._called + hold_s
                    self._obey(wanted)

    def _obey(self, wanted: int) -> None:
        if wanted & (SHUT | LEAVE) and self._door.fileno() >= 0:
            self._selector.unregister(self._door)
            self._door.close()
        if wanted & LEAVE:
            self._over = True

    def _answer(self) -> None:
        if self._caller is not None:
            sock, self._caller = self._caller[0], None
            with sock, contextlib.suppress(OSError):
                sock.sendall(self._multiplex.line.pack(ANSWER_BYTES))
            self._called = time.monotonic()


def parse(question: bytes) -> tuple[float, int, bytes]:
    """Seconds that the answer may wait, what else is wanted, and the half of an exchange.

    Raises:
        struct.error: it is none.
    """
    hold_s, wanted = HEAD.unpack_from(question)
    return min(max(hold_s, 0.0), CALL_S), wanted, question[HEAD.size :]


def receive_all(sock: socket.socket) -> bytes:
    """What the other end says until it has said its last."""
    pieces = []
    while piece := sock.recv(1 << 20):
        pieces.append(piece)
    return b"".join(pieces)


def _is_ours(sock: socket.socket) -> bool:
    """Whether a process of the same user is at the other end."""
    credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", credentials)[1] == os.getuid())
