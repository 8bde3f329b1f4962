"""Connecting to several at once: each outcome once, in the order of its coming, and no socket left open."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator

import pytest

from launcher.channel.connecting import DialAddress, connect, dial_addresses


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def full() -> Iterator[int]:
    """A port that takes no connection and refuses none: its queue is full."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        port = server.getsockname()[1]
        held = []
        for _ in range(4):
            held.append(socket.socket())
            held[-1].setblocking(False)
            held[-1].connect_ex(("127.0.0.1", port))
        yield port
        for sock in held:
            sock.close()


def refused() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def at(port: int, host: str = "127.0.0.1") -> list[DialAddress]:
    return dial_addresses(host, port)


def test_a_name_stands_for_its_addresses() -> None:
    assert [DialAddress("127.0.0.1:80", socket.AF_INET, ("127.0.0.1", 80))] == dial_addresses("127.0.0.1", 80)
    (six,) = dial_addresses("::1", 80)
    assert ("[::1]:80", socket.AF_INET6) == (six.name, six.family)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a b", ""])
def test_a_name_of_nothing_is_an_error_or_this_host(host: str) -> None:
    try:
        found = dial_addresses(host, 80)
    except OSError:
        return
    assert {"127.0.0.1", "::1"} >= {t.address[0] for t in found}


def test_who_answers_is_told_with_a_socket(listening: int) -> None:
    ((target, sock),) = connect(at(listening), 5.0)
    assert isinstance(sock, socket.socket)
    assert target.address == sock.getpeername()
    assert 0.0 == sock.gettimeout()
    sock.close()


def test_who_refuses_is_told_with_the_reason() -> None:
    ((_, error),) = connect(at(refused()), 5.0)
    assert isinstance(error, ConnectionRefusedError)


def test_who_never_answers_is_given_up_in_time(full: int) -> None:
    began = time.monotonic()
    ((_, error),) = connect(at(full), 0.3)
    assert isinstance(error, TimeoutError)
    assert "no answer within 0.3 s" in str(error)
    assert 0.3 <= time.monotonic() - began < 3


def test_who_never_answers_holds_nobody_up(full: int, listening: int) -> None:
    attempts = connect([*at(full), *at(full), *at(listening)], 30.0, stagger_s=0.05)
    began = time.monotonic()
    _, sock = next(attempts)
    assert isinstance(sock, socket.socket)
    assert sock.getpeername() == ("127.0.0.1", listening)
    assert time.monotonic() - began < 5
    sock.close()
    attempts.close()


def test_a_refusal_ends_the_head_start(listening: int) -> None:
    began = time.monotonic()
    outcomes = [o for _, o in connect([*at(refused()), *at(refused()), *at(listening)], 30.0, stagger_s=20.0)]
    assert time.monotonic() - began < 10
    assert [True, True, False] == [isinstance(o, OSError) for o in outcomes]
    for outcome in outcomes:
        if isinstance(outcome, socket.socket):
            outcome.close()


def test_the_best_has_a_head_start(listening: int) -> None:
    attempts = connect(at(listening) * 5, 30.0, stagger_s=30.0)
    _, sock = next(attempts)
    assert isinstance(sock, socket.socket)
    sock.close()
    attempts.close()


def test_to_stop_early_leaves_nothing_open(full: int, listening: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    attempts = connect([*at(listening) * 10, *at(full) * 10], 30.0)
    _, sock = next(attempts)
    assert isinstance(sock, socket.socket)
    sock.close()
    attempts.close()
    assert before == len(os.listdir("/proc/self/fd"))


def test_a_family_that_this_host_lacks_is_an_outcome() -> None:
    ((_, error),) = connect([DialAddress("x", 10_000, ("127.0.0.1", 1))], 5.0)
    assert isinstance(error, OSError)


def test_nobody_is_nobody() -> None:
    assert [] == list(connect([], 5.0))
