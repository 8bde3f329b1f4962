"""Back-pressure: nothing is dropped, nothing is reordered, and a full outbox says so."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.channel import connection
from launcher.channel.connection import Outbox


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    near, far = narrow_pair()
    with near, far:
        yield near, far


def narrow_pair() -> tuple[socket.socket, socket.socket]:
    near, far = socket.socketpair()
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    near.setblocking(False)
    far.setblocking(False)
    return near, far


def drain(box: Outbox, far: socket.socket, *, piece: int = 1 << 16) -> bytes:
    received = bytearray()
    while True:
        done = box.flush()
        try:
            received += far.recv(piece)
        except BlockingIOError:
            if done:
                return bytes(received)


@given(
    st.lists(st.lists(st.integers(0, 9000), min_size=1, max_size=3), max_size=20),
    st.integers(1, 5000),
    st.booleans(),
)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_byte_arrives_once_and_in_order(sizes: list[list[int]], piece: int, often: bool) -> None:
    near, far = narrow_pair()
    with near, far:
        box, expected, letters = Outbox(near), bytearray(), itertools.cycle(b"abcdefg")
        for parts in sizes:
            frame = [bytes([next(letters)]) * size for size in parts]
            box.put(*frame)
            expected += b"".join(frame)
            if often:
                box.flush()
        assert bytes(expected) == drain(box, far, piece=piece)
        assert 0 == box.pending


def test_many_small_frames_arrive(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    box = Outbox(near)
    for i in range(5000):
        box.put(b"%d" % (i % 10), b"")
    assert b"0123456789" * 500 == drain(box, far)


def test_a_full_outbox_stays_closed_until_it_has_drained(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    box = Outbox(near)
    assert (False, True) == (box.full, box.drained)
    box.put(bytes(connection.HIGH - 1))
    assert (False, False) == (box.full, box.drained)
    box.put(b"x")
    assert (True, False) == (box.full, box.drained)
    states = set()
    while box.pending:
        box.flush()
        states.add((box.full, box.drained))
        far.recv(1 << 16)
    assert {(False, False), (False, True)} == states


def test_a_stalled_peer_is_no_error_and_no_loss(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    box = Outbox(near)
    box.put(b"x" * 100_000)
    assert not box.flush()
    before = box.pending
    assert not box.flush()
    assert 0 < before == box.pending < 100_000
    assert b"x" * 100_000 == drain(box, far)


def test_a_peer_that_is_gone_is_a_connection_error(ends: tuple[socket.socket, socket.socket]) -> None:
    near, far = ends
    far.close()
    box = Outbox(near)
    box.put(b"x")
    with pytest.raises(ConnectionError):
        box.flush()


def test_nothing_to_write_is_written_at_once(ends: tuple[socket.socket, socket.socket]) -> None:
    assert Outbox(ends[0]).flush()
