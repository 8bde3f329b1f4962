"""A host's addresses and who it can reach: on this machine, and between two that share one of two wires."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from launcher.channel import network
from launcher.channel.network import Way

ROOT = Path(__file__).parent.parent.parent.parent


def test_every_address_is_on_its_interface() -> None:
    found = network.addresses()
    assert ("lo", "127.0.0.1") in found
    assert {name for name, _ in found} <= {name for _, name in socket.if_nameindex()}
    for interface, address in found:
        assert interface == network.interface_of(address)


def test_loopback_comes_last() -> None:
    ranks = [address.startswith("127.") or address == "::1" for _, address in network.addresses()]
    assert sorted(ranks) == ranks


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("node1", False),
        ("", False),
    ],
)
def test_loopback_is_known_in_all_its_forms(address: str, expected: bool) -> None:
    assert expected == network.is_loopback(address)


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.0.2", "127.255.255.254", "::1", "::ffff:127.0.0.1"])
def test_all_of_loopback_is_on_one_interface(address: str) -> None:
    assert "lo" == network.interface_of(address)


@pytest.mark.parametrize(
    "address", ["198.51.100.7", "2001:db8::7", "", "localhost", "1.2.3", "%lo", "\ud800"]
)
def test_what_is_no_address_of_ours_is_on_no_interface(address: str) -> None:
    assert "" == network.interface_of(address)


@pytest.mark.parametrize(
    ("address", "source"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", None)]
)
def test_our_own_address_on_the_way_to_another(address: str, source: str | None) -> None:
    assert network.source_for(address) in ([source] if source else ["127.0.0.1", "::1"])


def test_no_way_is_an_error() -> None:
    with pytest.raises(OSError, match=r".+"):
        network.source_for("no.such.host.invalid")


def test_a_machine_is_the_same_to_all_its_processes() -> None:
    code = "from launcher.channel import network; print(network.machine({}))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert network.machine({}) == done.stdout.strip()
    assert "\n" not in network.machine({})


def test_sparks_names_make_hosts_of_one_machine() -> None:
    environs: list[dict[str, str]] = [
        {},
        {"SPARK_LOCAL_HOSTNAME": "w1"},
        {"SPARK_LOCAL_HOSTNAME": "w2"},
        {"SPARK_LOCAL_IP": "127.0.0.2"},
        {"SPARK_LOCAL_IP": "127.0.0.3"},
    ]
    assert len(environs) == len({network.machine(e) for e in environs})
    names = [network.host_name(e) for e in environs]
    assert [socket.gethostname(), "w1", "w2", "127.0.0.2", "127.0.0.3"] == names


def test_a_port_that_is_held_or_listened_on_is_reached_and_the_way_is_told() -> None:
    held = network.hold_port()
    with held.sock, socket.create_server(("127.0.0.1", 0)) as server:
        ways = {address: Way("lo", address) for address in ("127.0.0.1", "::1")}
        assert ways == network.reach(["127.0.0.1", "::1"], held.number, 5.0)
        assert network.reach(["127.0.0.1"], server.getsockname()[1], 5.0)


def test_an_address_of_ours_is_not_the_other_hosts_if_the_port_is_not_held_here() -> None:
    held = network.hold_port()
    held.sock.close()
    assert {} == network.reach(["127.0.0.1", "::1", "127.0.0.7"], held.number, 5.0)
    assert not network.reach(["127.0.0.1"], held.number, 5.0)


def test_to_reach_nobody_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    assert {} == network.reach([], 80, 1.0)
    assert {} == network.reach(["no.such.host.invalid", "a b", "\ud800"], 80, 1.0)
    assert before == len(os.listdir("/proc/self/fd"))


# --- two machines --------------------------------------------------------------------------------------


class Wires:
    """Two network namespaces, `a` and `b`. Both have `good0` on one wire, `dead0` on a wire each that ends
    nowhere, and `bridge0` with the same address.
    """

    def __init__(self) -> None:
        self.a, self.b = (f"rdn{os.getpid()}{end}" for end in "ab")
        self._processes: list[subprocess.Popen[str]] = []
        for name in (self.a, self.b):
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("link", "add", "good0", "netns", self.a, "type", "veth", "peer", "good0", "netns", self.b)
        for name, number in ((self.a, 1), (self.b, 2)):
            for other in ("dead", "bridge"):
                _ip("-n", name, "link", "add", f"{other}0", "type", "veth", "peer", f"{other}1")
                _ip("-n", name, "link", "set", f"{other}1", "up")
            self._add(name, "good0", f"10.93.1.{number}/24", f"fd93:1::{number}/64", f"10.93.3.{number}/24")
            self._add(name, "dead0", f"10.93.2.{number}/24", f"fd93:2::{number}/64")
            self._add(name, "bridge0", "172.17.0.1/16")

    def _add(self, name: str, interface: str, *addresses: str) -> None:
        _ip("-n", name, "link", "set", interface, "up")
        for address in addresses:
            nodad = ["nodad"] if ":" in address else []
            _ip("-n", name, "addr", "add", address, "dev", interface, *nodad)

    def hold(self, name: str) -> int:
        """The port that a process there holds from now on."""
        code = (
            "from launcher.channel.network import hold_port\n"
            "held = hold_port(); print(held.number, flush=True); input()"
        )
        process = subprocess.Popen(
            _python(name, code), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._processes.append(process)
        assert process.stdout is not None
        return int(process.stdout.readline())

    def ask(self, name: str, expression: str) -> Any:
        """The value of an expression about `network` there."""
        code = f"import json\nfrom launcher.channel import network\nprint(json.dumps({expression}))"
        done = subprocess.run(_python(name, code), cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def reach(self, name: str, port: int) -> dict[str, tuple[str, str]]:
        """The interface and the source address there for each address of `B` that is reached."""
        reached = f"network.reach({B}, {port}, 1.0)"
        found = self.ask(name, f"{{a: (w.interface, w.source) for a, w in {reached}.items()}}")
        return {address: tuple(way) for address, way in found.items()}

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.communicate()
        for name in (self.a, self.b):
            subprocess.run(["ip", "netns", "del", name], check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True)


def _python(name: str, code: str) -> Sequence[str]:
    return ["ip", "netns", "exec", name, sys.executable, "-c", code]


@pytest.fixture(scope="module")
def wires() -> Iterator[Wires]:
    if os.geteuid() or not shutil.which("ip"):
        pytest.skip("network namespaces need root and the ip command")
    made = Wires()
    yield made
    made.close()


B = ["10.93.1.2", "10.93.2.2", "10.93.3.2", "172.17.0.1", "fd93:1::2", "fd93:2::2", "127.0.0.1", "::1"]


@pytest.mark.netns
@pytest.mark.process
def test_a_host_says_all_its_addresses(wires: Wires) -> None:
    found = [tuple(pair) for pair in wires.ask(wires.b, "network.addresses()")]
    assert set(B) == {address for _, address in found}
    assert {"good0", "dead0", "bridge0", "lo"} == {interface for interface, _ in found}
    assert {("lo", "127.0.0.1"), ("lo", "::1")} == set(found[-2:])
    assert ("good0", "10.93.3.2") in found


@pytest.mark.netns
@pytest.mark.process
def test_only_the_wire_that_is_connected_is_reached(wires: Wires) -> None:
    held = wires.hold(wires.b)
    began = time.monotonic()
    reached = wires.reach(wires.a, held)
    sources = {"10.93.1.2": "10.93.1.1", "10.93.3.2": "10.93.3.1", "fd93:1::2": "fd93:1::1"}
    assert {address: ("good0", source) for address, source in sources.items()} == reached
    assert time.monotonic() - began < 8


@pytest.mark.netns
@pytest.mark.process
def test_a_host_reaches_itself_at_all_its_addresses(wires: Wires) -> None:
    held = wires.hold(wires.b)
    reached = wires.reach(wires.b, held)
    assert {address: address for address in B} == {address: way[1] for address, way in reached.items()}
    assert ["dead0", "bridge0", "lo"] == [reached[each][0] for each in ("fd93:2::2", "172.17.0.1", "::1")]


@pytest.mark.netns
@pytest.mark.process
def test_the_source_is_on_the_wire_that_leads_there(wires: Wires) -> None:
    ask = "[network.source_for(a) for a in ('10.93.1.2', '10.93.2.2', 'fd93:1::2')]"
    assert ["10.93.1.1", "10.93.2.1", "fd93:1::1"] == wires.ask(wires.a, ask)


@pytest.mark.netns
@pytest.mark.process
def test_link_local_addresses_are_known_but_not_offered(wires: Wires) -> None:
    _ip("-n", wires.a, "addr", "add", "fe80::93:1/64", "dev", "good0", "nodad")
    assert "good0" == wires.ask(wires.a, "network.interface_of('fe80::93:1%good0')")
    assert "good0" == wires.ask(wires.a, "network.interface_of('fe80::93:1')")
    assert not [a for _, a in wires.ask(wires.a, "network.addresses()") if a.startswith("fe80")]


@pytest.mark.netns
@pytest.mark.process
def test_namespaces_of_one_machine_are_several(wires: Wires) -> None:
    assert 3 == len({network.machine(), *(wires.ask(n, "network.machine()") for n in (wires.a, wires.b))})


@pytest.mark.netns
@pytest.mark.process
def test_an_interface_that_is_down_is_not_offered(wires: Wires) -> None:
    _ip("-n", wires.a, "link", "set", "dead0", "down")
    try:
        found = wires.ask(wires.a, "network.addresses()")
    finally:
        _ip("-n", wires.a, "link", "set", "dead0", "up")
    assert {"good0", "bridge0", "lo"} == {interface for interface, _ in found}
