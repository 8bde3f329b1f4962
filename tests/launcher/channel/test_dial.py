"""Dialling the engine: the address that answers is found among the others, and failure is explained."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict

import pytest

from launcher.channel import network
from launcher.channel.certificates import Issued, issue
from launcher.channel.connecting import DialAddress, Unreachable, dial_addresses
from launcher.channel.dial import dial
from launcher.channel.tls import SecureStream, context
from tests.peers import issued, wait

AGENTS = asdict(issued().agents)
Serve = Callable[[socket.socket], None]


class Engine:
    """Listens, and does with each connection what it is told to; the last of `acts` goes on for ever."""

    def __init__(self, *acts: Serve, host: str = "127.0.0.1") -> None:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._sock = socket.create_server((host, 0), family=family)
        self.address: tuple[str, int] = self._sock.getsockname()[:2]
        self.connections = 0
        self._acts = list(acts)
        self._kept: list[socket.socket] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._sock.accept()
                self._kept.append(sock)
                self.connections += 1
                act = self._acts.pop(0) if len(self._acts) > 1 else self._acts[0]
                with contextlib.suppress(OSError):
                    act(sock)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for sock in (self._sock, *self._kept):
            sock.close()


def secure(made: Issued) -> Serve:
    def act(sock: socket.socket) -> None:
        sock.settimeout(5)
        stream = SecureStream(sock, context(made.engine, server=True), made.engine.peer, server=True)
        stream.shake()
        stream.sendall(b"hello")

    return act


def drop(sock: socket.socket) -> None:
    sock.close()


def drop_later(sock: socket.socket) -> None:
    sock.recv(10)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    sock.close()


def say_nothing(_: socket.socket) -> None: ...


def babble(sock: socket.socket) -> None:
    sock.sendall(b"220 mail.example ESMTP\r\n" * 10)


def drip(sock: socket.socket) -> None:
    for byte in b"\x16\x03\x03\x40\x00" + bytes(200):
        sock.sendall(bytes([byte]))
        time.sleep(0.05)


@pytest.fixture
def engines() -> Iterator[Callable[..., Engine]]:
    made: list[Engine] = []

    def start(*acts: Serve, host: str = "127.0.0.1") -> Engine:
        made.append(Engine(*acts, host=host))
        return made[-1]

    yield start
    for engine in made:
        engine.close()


def refused() -> tuple[str, int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return "127.0.0.1", int(sock.getsockname()[1])


def greeted(stream: SecureStream) -> bool:
    with contextlib.closing(stream):
        return wait(stream) and stream.recv(100) == b"hello"


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.0.0.9"])
def test_the_engine_is_reached(engines: Callable[..., Engine], host: str) -> None:
    engine = engines(secure(issued()), host=host)
    stream = dial([engine.address], AGENTS, 5.0)
    assert host == stream.getsockname()[0] or host == "127.0.0.9"
    assert stream._sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
    assert 0.0 == stream._sock.gettimeout()
    assert greeted(stream)


def test_the_engine_is_reached_by_name(engines: Callable[..., Engine]) -> None:
    engine = engines(secure(issued()))
    assert greeted(dial([("localhost", engine.address[1])], AGENTS, 5.0))


@pytest.mark.parametrize("first", [drop, babble, say_nothing, drip], ids=lambda f: f.__name__)
def test_the_engine_is_found_behind_what_is_none(engines: Callable[..., Engine], first: Serve) -> None:
    engine, other = engines(secure(issued())), engines(first)
    began = time.monotonic()
    addresses = [("no.such.host.invalid", 5), refused(), other.address, engine.address]
    assert greeted(dial(addresses, AGENTS, 4.0))
    assert time.monotonic() - began < 4.5


def test_an_engine_that_drops_us_in_a_crowd_is_dialled_again(engines: Callable[..., Engine]) -> None:
    engine = engines(drop, drop_later, drop_later, secure(issued()))
    assert greeted(dial([engine.address], AGENTS, 10.0))
    assert 4 == engine.connections


def test_only_one_connection_is_made_where_the_first_is_good(engines: Callable[..., Engine]) -> None:
    good, other = engines(secure(issued())), engines(say_nothing)
    assert greeted(dial([good.address, other.address], AGENTS, 5.0))
    assert (1, 0) == (good.connections, other.connections)


def test_no_name_is_looked_up_where_a_number_will_do(
    engines: Callable[..., Engine], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, asked = engines(secure(issued())), list[str]()

    def look_up(host: str, port: int) -> list[DialAddress]:
        asked.append(host)
        return dial_addresses(host, port)

    monkeypatch.setattr("launcher.channel.dial.dial_addresses", look_up)
    assert greeted(dial([("no.such.host.invalid", 5), good.address], AGENTS, 5.0))
    assert ["127.0.0.1"] == asked


def test_each_address_and_its_reason_is_named(engines: Callable[..., Engine]) -> None:
    away, mail, foreign = refused(), engines(babble), engines(secure(issue()))
    addresses = [("no.such.host.invalid", 5), away, mail.address, foreign.address]
    with pytest.raises(Unreachable) as caught:
        dial(addresses, AGENTS, 3.0)
    text = str(caught.value)
    assert "no.such.host.invalid:5 (no such name: " in text
    assert f"127.0.0.1:{away[1]} (Connection refused)" in text
    assert f"127.0.0.1:{mail.address[1]} (not this run's engine: " in text
    assert f"127.0.0.1:{foreign.address[1]} (not this run's engine: its certificate: " in text
    assert "\n" not in text


def test_an_engine_of_another_run_is_not_dialled_again(engines: Callable[..., Engine]) -> None:
    foreign = engines(secure(issue()))
    began = time.monotonic()
    with pytest.raises(Unreachable):
        dial([foreign.address], AGENTS, 20.0)
    assert time.monotonic() - began < 10
    assert 1 == foreign.connections


@pytest.mark.parametrize("act", [say_nothing, drop, drip], ids=lambda f: f.__name__)
def test_dialling_ends_in_time(engines: Callable[..., Engine], act: Serve) -> None:
    engine = engines(act)
    began = time.monotonic()
    with pytest.raises(Unreachable, match=f"127.0.0.1:{engine.address[1]}"):
        dial([engine.address], AGENTS, 0.7)
    assert time.monotonic() - began < 3


def test_nothing_stays_open_after_a_failure(engines: Callable[..., Engine]) -> None:
    away = refused()
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(Unreachable):
        dial([away] * 3, AGENTS, 1.0)
    assert before == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_on_another_host_a_loopback_address_is_not_tried(engines: Callable[..., Engine], host: str) -> None:
    stranger = engines(secure(issued()))
    with pytest.raises(Unreachable, match=f"{host}:{stranger.address[1]} \\(a loopback address, valid on"):
        dial([(host, stranger.address[1])], AGENTS, 5.0, namespace="another host's")
    assert 0 == stranger.connections


def test_on_the_engines_own_host_it_is(engines: Callable[..., Engine]) -> None:
    engine = engines(secure(issued()))
    assert greeted(dial([engine.address], AGENTS, 5.0, namespace=network.namespace()))


def test_no_address_is_an_error() -> None:
    with pytest.raises(Unreachable, match="no address"):
        dial([], AGENTS, 1.0)


def test_credentials_that_are_none_are_an_error() -> None:
    with pytest.raises(Unreachable, match="certificates cannot be used"):
        dial([refused()], {"certificate": "", "key": "", "peer": ""}, 1.0)
