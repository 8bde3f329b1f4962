"""Many connections over exchanges: whatever becomes of an exchange, every byte arrives once and in order."""

from __future__ import annotations

import random
import selectors
import socket
from collections.abc import Iterator

import pytest

from launcher.channel.multiplex import WINDOW, Multiplex, MuxStream

LIMIT = 300 << 10


class Ends:
    """Both ends in one thread; what becomes of each exchange is a die's to say."""

    def __init__(self, seed: int = 0, *, unlucky: float = 0.0) -> None:
        self._dice, self._unlucky = random.Random(seed), unlucky
        self._selectors = selectors.DefaultSelector(), selectors.DefaultSelector()
        self.served: list[socket.socket] = []
        self.far = Multiplex(self._selectors[0])
        self.home = Multiplex(self._selectors[1], self._connect)

    def _connect(self) -> socket.socket:
        near, far = socket.socketpair()
        far.setblocking(False)
        self.served.append(far)
        return near

    def dial(self) -> socket.socket:
        """A connection from afar, as an agent has it."""
        near, far = socket.socketpair()
        near.setblocking(False)
        self.far.accept(far)
        return near

    def turn(self) -> None:
        for selector, end in zip(self._selectors, (self.far, self.home), strict=True):
            for key, events in selector.select(0):
                end.on_ready(key.fd, events)
        question = self.home.line.pack(self._dice.choice((1, 100, LIMIT)))
        if self._dice.random() < self._unlucky:  # it never arrived
            return
        self.far.take(self.far.line.unpack(question))
        answer = self.far.line.pack(self._dice.choice((1, 100, LIMIT)))
        if self._dice.random() < self._unlucky:  # its answer did not, and it is asked again
            self.far.take(self.far.line.unpack(question))
            return
        self.home.take(self.home.line.unpack(answer))

    def close(self) -> None:
        self.far.close()
        self.home.close()
        for selector in self._selectors:
            selector.close()
        for sock in self.served:
            sock.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    made = Ends()
    yield made
    made.close()


def say(sock: socket.socket, data: memoryview) -> memoryview:
    try:
        return data[sock.send(data[: 64 << 10]) :] if data else data
    except BlockingIOError:
        return data


def hear(sock: socket.socket, into: bytearray) -> bool:
    """Read what there is; whether that was all there will be."""
    try:
        data = sock.recv(1 << 20)
    except BlockingIOError:
        return False
    into += data
    return not data


@pytest.mark.parametrize("seed", range(6))
def test_bytes_are_exact_both_ways_whatever_becomes_of_exchanges(seed: int) -> None:
    dice = random.Random(seed)
    ends = Ends(seed, unlucky=0.3 * (seed % 3))
    dialled = [ends.dial() for _ in range(3)]
    while len(ends.served) < 3:
        ends.turn()
    sent = {sock: dice.randbytes(dice.choice((0, 1, 5000, 300_000))) for sock in (*dialled, *ends.served)}
    rest = {sock: memoryview(data) for sock, data in sent.items()}
    pairs = [*zip(dialled, ends.served, strict=True), *zip(ends.served, dialled, strict=True)]
    got = {sock: bytearray() for sock in sent}
    open_ = set(sent)
    closed: set[socket.socket] = set()
    for _ in range(200_000):
        for sock in sent:
            rest[sock] = say(sock, rest[sock])
            if not rest[sock] and sock not in closed:  # half of it ends, and the other goes on
                closed.add(sock)
                sock.shutdown(socket.SHUT_WR)
        ends.turn()
        open_ = {sock for sock in open_ if not hear(sock, got[sock])}
        if not open_:
            break
    assert all(got[there] == sent[here] for here, there in pairs)
    while len(ends.home) or len(ends.far):
        ends.turn()
    for sock in dialled:
        sock.close()
    ends.close()


def test_one_that_nobody_reads_holds_up_no_other_and_grows_no_further(ends: Ends) -> None:
    slow, quick = ends.dial(), ends.dial()
    while len(ends.served) < 2:
        ends.turn()
    got = bytearray()
    for _ in range(3000):
        say(slow, memoryview(bytes(64 << 10)))
        say(quick, memoryview(b"tick"))
        ends.turn()
        hear(ends.served[1], got)

    assert b"tick" * 2900 == got[: 4 * 2900]
    held = ends.far.line.pending + sum(len(c.waiting) for c in ends.home._connections.values())
    assert held <= WINDOW + LIMIT
    for sock in (slow, quick):
        sock.close()


def test_a_hundred_megabytes_pass_through_little_memory(ends: Ends) -> None:
    agent = ends.dial()
    while not ends.served:
        ends.turn()
    piece, left, most, got = bytes(range(256)) * 256, 100 << 20, 0, 0
    rest = memoryview(piece)
    while got < 100 << 20:
        if left:
            before = len(rest)
            rest = say(agent, rest)
            left -= before - len(rest)
            rest = rest or memoryview(piece)
        ends.turn()
        most = max(most, ends.far.line.pending)
        heard = bytearray()
        hear(ends.served[0], heard)
        assert heard == (piece * (2 + len(heard) // len(piece)))[got % 256 :][: len(heard)]
        got += len(heard)
    assert most <= WINDOW + (64 << 10)
    agent.close()


def test_what_cannot_be_connected_is_closed_at_the_other_end(ends: Ends) -> None:
    ends.home._connect = nobody
    agent = ends.dial()
    for _ in range(5):
        ends.turn()
    assert b"" == agent.recv(1)
    agent.close()


def nobody() -> socket.socket:
    raise ConnectionRefusedError


@pytest.mark.parametrize("message", [b"", b"short", bytes(8) + b"\xff" * 8, b"\xff" * 8 + bytes(8)])
def test_what_is_no_half_of_this_exchange_is_refused(message: bytes) -> None:
    with pytest.raises(ValueError, match="exchange"):
        MuxStream().unpack(message)


@pytest.mark.parametrize("frame", [b"\x09" + bytes(8), b"\x02" + bytes(4) + b"\xff" * 4])
def test_frames_that_make_no_sense_are_refused(ends: Ends, frame: bytes) -> None:
    with pytest.raises(ValueError, match="frame"):
        ends.home.take(frame)
