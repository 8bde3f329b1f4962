"""Where to listen: there and nowhere else, or one sentence that says why not."""

from __future__ import annotations

import socket

import pytest

from launcher.channel.listener import bind_listener
from launcher.errors import CannotPlace

ANY = range(1)


def free() -> int:
    with bind_listener("127.0.0.1", ANY) as sock:
        return int(sock.getsockname()[1])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_it_listens_at_that_address(host: str) -> None:
    with bind_listener(host, ANY) as sock:
        assert sock.getsockname()[1] > 0
        with socket.create_connection((host, sock.getsockname()[1]), timeout=5):
            pass


def test_it_listens_at_no_other_address() -> None:
    with bind_listener("127.0.0.2", ANY) as sock, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", sock.getsockname()[1]), timeout=5)


def test_the_first_free_port_of_a_range_is_taken() -> None:
    with bind_listener("127.0.0.1", ANY) as held:
        first = held.getsockname()[1]
        with bind_listener("127.0.0.1", range(first, first + 20)) as sock:
            assert first < sock.getsockname()[1] < first + 20


def test_a_port_in_use_is_named() -> None:
    with bind_listener("127.0.0.1", ANY) as held:
        port = held.getsockname()[1]
        with pytest.raises(CannotPlace, match=f"^cannot listen at 127.0.0.1: port {port} is in use$"):
            bind_listener("127.0.0.1", range(port, port + 1))


def test_a_range_in_use_is_named() -> None:
    with bind_listener("127.0.0.1", ANY) as one:
        port = one.getsockname()[1]
        try:
            two = bind_listener("127.0.0.1", range(port + 1, port + 2))
        except CannotPlace:
            two = None
        with pytest.raises(CannotPlace, match=f"all of the ports {port}-{port + 1} are in use"):
            bind_listener("127.0.0.1", range(port, port + 2))
        if two:
            two.close()


def test_a_port_that_was_just_given_back_can_be_taken_at_once() -> None:
    with bind_listener("127.0.0.1", ANY) as sock:
        port = sock.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), timeout=5):
            served, _ = sock.accept()
            served.close()
    with bind_listener("127.0.0.1", range(port, port + 1)):
        pass


@pytest.mark.parametrize("host", ["198.51.100.7", "2001:db8::7"])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(CannotPlace, match="it is not an address of this machine"):
        bind_listener(host, ANY)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "a b", "x" * 300, "1.2.3.4.5"])
def test_a_name_of_nothing_is_refused(host: str) -> None:
    with pytest.raises(CannotPlace, match="cannot listen at"):
        bind_listener(host, ANY)
