"""Rank 0's port: nobody gets it while the ranks live, and rank 0's own store does."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.channel import network
from launcher.distributor import Distributor
from tests.commands import Gate, until

# Another program that asks for any port, again and again, without giving one back.
GREEDY = """
import socket
held = []
try:
    while len(held) < 12_000:
        held.append(socket.socket())
        held[-1].bind(("{address}", 0))
except OSError:
    pass
print(len(held), *(s.getsockname()[1] for s in held if s.fileno() >= 0))
"""


def grabbed(address: str) -> set[int]:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16_000), hard))
    try:
        code = GREEDY.format(address=address)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    count, *ports = map(int, done.stdout.split())
    assert count > 1000
    return set(ports)


@pytest.mark.process
@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0"])
def test_a_held_port_is_given_to_nobody_who_asks_for_any(address: str) -> None:
    held = network.hold_port()
    try:
        assert held.number not in grabbed(address)
    finally:
        held.sock.close()


def test_a_held_port_can_be_listened_on_by_a_store() -> None:
    held = network.hold_port()
    with held.sock, socket.socket(socket.AF_INET6) as store, socket.socket() as client:
        store.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        store.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        store.bind(("::", held.number))
        store.listen()
        client.connect(("127.0.0.1", held.number))

        assert held.number == client.getpeername()[1]


def test_nobody_is_answered_on_a_held_port_before_the_store_listens() -> None:
    held = network.hold_port()
    with held.sock, socket.socket() as client, pytest.raises(ConnectionRefusedError):
        client.connect(("127.0.0.1", held.number))


def test_two_held_ports_differ() -> None:
    first, second = network.hold_port(), network.hold_port()
    with first.sock, second.sock:
        assert first.number != second.number


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_the_port_of_a_run_is_held_while_its_ranks_live(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    source = (
        "import os, sys, launcher\n"
        "launcher.publish(int(os.environ['MASTER_PORT']))\n"
        "open(sys.argv[1] + '.0').read()\n"
    )
    script = tmp_path / "train.py"
    script.write_text(source)
    job = Distributor(1).start(str(script), str(gate.path))
    until(lambda: job.state.ranks[0].returned is not None if job.state.ranks else False)
    taken = grabbed("0.0.0.0")
    gate.open()

    assert job.result() not in taken


@pytest.mark.process
@pytest.mark.frameworks
@pytest.mark.usefixtures("mark")
def test_the_store_of_torch_listens_on_the_held_port(targets: Path) -> None:
    results = Distributor(2).start(str(targets / "store.py")).results()

    assert [2, 2] == [r["sum"] for r in results]
    assert 1 == len({r["port"] for r in results})
