"""The relay's process, real, and the engine's side: what passes, and who ends when the other is gone."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import relay as home
from launcher.backends.spark.relay import Relay
from launcher.channel import relay
from tests.commands import until

pytestmark = pytest.mark.process

ROOT = str(Path(relay.__file__).parents[2])


class FakeCalls:
    """Calls without a server: each is made here, by what a Python worker would do."""

    def __init__(self, server: int = 0) -> None:
        self._server = server
        self.fails = 0
        self.count = 0

    def start(self, asked: dict[str, Any]) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", relay.BOOT, ROOT],
            input=json.dumps({**asked, "server": self._server}).encode(),
            capture_output=True,
            timeout=20,
            check=True,
        )
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def exchange(self, name: str, question: bytes) -> bytes:
        self.count += 1
        if self.fails:
            self.fails -= 1
            raise RuntimeError("UNAVAILABLE")
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect("\0" + name)
            sock.sendall(question)
            sock.shutdown(socket.SHUT_WR)
            answer = relay.receive_all(sock)
        if self.count % 7 == 3:  # it was done, and nobody learns of it
            raise RuntimeError("UNAVAILABLE")
        return answer


class Echo:
    """An engine's listener that says everything back."""

    def __init__(self) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self.sock.getsockname()
        self.peers: list[Any] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                sock, peer = self.sock.accept()
            except OSError:
                return
            self.peers.append(peer)
            threading.Thread(target=self._echo, args=(sock,), daemon=True).start()

    def _echo(self, sock: socket.socket) -> None:
        with sock:
            while data := sock.recv(1 << 16):
                sock.sendall(data)


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made.sock.close()


def opened(calls: FakeCalls, echo: Echo, agents: int = 4) -> tuple[Relay, tuple[str, int]]:
    made = Relay(calls, host="127.0.0.1", hosts=["198.51.100.7", "127.0.0.1"], agents=agents)
    made.start()
    endpoint = made.open(echo.address, 20)
    assert endpoint is not None, made.why
    return made, (endpoint.host, endpoint.port)


def relays() -> set[int]:
    """Processes of relays that are alive."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if relay.BOOT.encode() in line:
                found.add(int(entry.name))
    return found


@pytest.fixture
def before() -> set[int]:
    return relays()


def test_what_agents_say_comes_to_the_engine_and_back(echo: Echo, before: set[int]) -> None:
    calls = FakeCalls()
    made, address = opened(calls, echo)
    data = os.urandom(3 << 20)
    got = bytearray()
    with socket.create_connection(address) as agent:
        writer = threading.Thread(target=_say_all, args=(agent, data))
        writer.start()
        while piece := agent.recv(1 << 16):
            got += piece
        writer.join()

    assert data == got
    assert made.brings(echo.peers[0])
    assert not made.brings(("127.0.0.1", 1))
    made.close()
    until(lambda: relays() <= before)


def _say_all(sock: socket.socket, data: bytes) -> None:
    sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def test_nobody_is_let_in_once_all_are_here(echo: Echo, before: set[int]) -> None:
    made, address = opened(FakeCalls(), echo)
    with socket.create_connection(address) as agent:
        agent.sendall(b"one")
        assert b"one" == agent.recv(3)
        made.shut()
        until(lambda: _refused(address))
        agent.sendall(b"two")
        assert b"two" == agent.recv(3)
    made.close()
    until(lambda: relays() <= before)


def _refused(address: tuple[str, int]) -> bool:
    try:
        socket.create_connection(address).close()
    except OSError:
        return True
    return False


def test_calls_that_fail_for_a_while_lose_nothing(echo: Echo) -> None:
    calls = FakeCalls()
    made, address = opened(calls, echo)
    with socket.create_connection(address) as agent:
        calls.fails = 5
        agent.sendall(b"hello")
        assert b"hello" == agent.recv(5)
    made.close()


def test_a_relay_that_is_killed_is_told_and_its_connections_end(echo: Echo, before: set[int]) -> None:
    made, address = opened(FakeCalls(), echo)
    with socket.create_connection(address) as agent:
        agent.sendall(b"hello")
        assert b"hello" == agent.recv(5)
        for pid in relays() - before:
            os.kill(pid, signal.SIGKILL)
        assert b"" == agent.recv(1)
    until(lambda: bool(made.lost))
    assert "has ended" in made.lost
    made.close()


def test_a_relay_that_nobody_calls_ends_with_its_connections(
    echo: Echo, before: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = FakeCalls()
    made, address = opened(calls, echo)
    monkeypatch.setattr(home, "LEASE_S", 0.1)
    with socket.create_connection(address) as agent:
        agent.settimeout(relay.LEASE_S + 10)
        calls.fails = 1_000_000
        assert b"" == agent.recv(1)
    until(lambda: relays() <= before)
    made.close()


def test_a_relay_ends_with_its_server(echo: Echo, before: set[int]) -> None:
    server = subprocess.Popen(["sleep", "600"])
    made, address = opened(FakeCalls(server.pid), echo)
    with socket.create_connection(address) as agent:
        agent.sendall(b"hello")
        assert b"hello" == agent.recv(5)
        server.kill()
        server.wait()
        assert b"" == agent.recv(1)
    until(lambda: relays() <= before)
    made.close()


def test_where_there_can_be_none_it_is_said_why(echo: Echo) -> None:
    class Strict(FakeCalls):
        def start(self, asked: dict[str, Any]) -> dict[str, Any]:
            raise RuntimeError("[INVALID_COMMAND] no data sources here\n\nJVM stacktrace")

    made = Relay(Strict(), host="h", hosts=[], agents=1)
    made.start()
    assert made.open(echo.address, 20) is None
    assert "[INVALID_COMMAND] no data sources here" == made.why
    made.close()


def test_a_stranger_of_another_kind_is_not_answered(echo: Echo) -> None:
    calls = FakeCalls()
    made, _ = opened(calls, echo)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("\0" + made._name)
        sock.sendall(b"nonsense")
        sock.shutdown(socket.SHUT_WR)
        assert b"" == sock.recv(1)
    made.close()
