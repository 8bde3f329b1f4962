"""Horovod: what each rank must know, its store beside rank 0, and what is not served."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.frameworks import horovod
from launcher.frameworks.base import Peer, Rendezvous
from launcher.frameworks.horovod import ELASTIC, HOROVOD
from launcher.spec.places import Assignment

RENDEZVOUS = Rendezvous(
    "10.0.0.7",
    43210,
    "run-1",
    peers=tuple(Peer(f"10.0.0.{7 + rank // 2}", (5000 + rank,)) for rank in range(5)),
    node_sizes=(1, 2, 2),
)


def place(rank: int, local: int, size: int, node: int) -> Assignment:
    return Assignment(rank, 5, local, size, node, 3, agent=node, host=f"host{node}")


def test_a_rank_knows_its_place_and_the_store() -> None:
    env = HOROVOD.environ(place(4, 1, 2, 2), RENDEZVOUS)

    assert {
        "HOROVOD_RANK": "4",
        "HOROVOD_SIZE": "5",
        "HOROVOD_LOCAL_RANK": "1",
        "HOROVOD_LOCAL_SIZE": "2",
        "HOROVOD_CROSS_RANK": "1",
        "HOROVOD_CROSS_SIZE": "2",
        "HOROVOD_HOSTNAME": "node2",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": "10.0.0.7",
        "HOROVOD_GLOO_RENDEZVOUS_PORT": "5000",
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
    } == {name: value for name, value in env.items() if name.startswith("HOROVOD_")}
    assert ("4", "5", "43210") == (env["RANK"], env["WORLD_SIZE"], env["MASTER_PORT"])


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (place(0, 0, 1, 0), ("0", "3")),
        (place(1, 0, 2, 1), ("1", "3")),
        (place(2, 1, 2, 1), ("0", "2")),
        (place(3, 0, 2, 2), ("2", "3")),
    ],
)
def test_hosts_with_fewer_ranks_do_not_count_across(given: Assignment, expected: tuple[str, str]) -> None:
    env = HOROVOD.environ(given, RENDEZVOUS)
    assert expected == (env["HOROVOD_CROSS_RANK"], env["HOROVOD_CROSS_SIZE"])


def test_gloo_uses_the_interface_that_leads_to_rank_0() -> None:
    assert "eth1" == HOROVOD.defaults("eth1")["HOROVOD_GLOO_IFACE"]
    assert "HOROVOD_GLOO_IFACE" not in HOROVOD.defaults("")


def test_the_store_is_beside_rank_0_on_its_held_port() -> None:
    command = HOROVOD.service(place(0, 0, 1, 0), RENDEZVOUS)

    assert command is not None
    assert ("horovod_store", 5000) == (command.module, command.settings["port"])
    assert {
        "global": 5,
        "local_node0": 1,
        "local_node1": 2,
        "local_node2": 2,
        "cross_0": 3,
        "cross_1": 2,
    } == command.settings["members"]
    assert all(HOROVOD.service(place(rank, 0, 2, 1), RENDEZVOUS) is None for rank in range(1, 5))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import horovod.torch as hvd\nhvd.init()\n", ""),
        ("import horovod.torch as hvd\nstate = hvd.elastic.TorchState(model)\n", ELASTIC),
        ("from horovod.torch import elastic\n", ELASTIC),
        ("import horovod.torch.elastic\n", ELASTIC),
        ("import horovod.torch as hvd\nprint('an elastic net')\n", ""),
        ("from nets import elastic\n", ""),
    ],
)
def test_elastic_training_is_told_before_the_start(source: str, expected: str) -> None:
    assert expected == HOROVOD.caution(source)


@pytest.mark.parametrize(
    ("addresses", "own", "refused"),
    [
        ("2", "127.0.1.1", True),
        ("2", "::1", True),
        ("2", "10.0.0.8", False),
        ("2", "", False),
        ("1", "127.0.1.1", False),
    ],
)
def test_a_host_whose_name_stands_for_itself_alone_is_told_before_ranks_wait(
    addresses: str, own: str, refused: bool
) -> None:
    why = horovod.unreachable({"RANKDECK_HOST_ADDRESSES": addresses}, "node7", lambda _: own)

    assert refused is ("and 'node7' is " in why) is bool(why)


def test_ranks_know_whether_they_are_on_hosts_of_their_own() -> None:
    alone = replace(RENDEZVOUS, peers=(Peer("10.0.0.7", (5000,)),) * 5)
    found = [
        HOROVOD.environ(place(4, 1, 2, 2), each)["RANKDECK_HOST_ADDRESSES"] for each in (RENDEZVOUS, alone)
    ]

    assert ["3", "1"] == found


def test_the_address_of_a_name_is_the_first() -> None:
    assert ("127.0.0.1", "") == (horovod.own_address("127.0.0.1"), horovod.own_address("no such host"))
