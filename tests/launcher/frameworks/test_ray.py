"""Ray: the nodes of a run's own cluster, what each offers, and where the driver finds them."""

from __future__ import annotations

import types
from dataclasses import replace

import pytest

from launcher.agent.program import FOLDER, IMPORTS, PYTHON
from launcher.errors import SpecError
from launcher.frameworks import ray
from launcher.frameworks.base import Peer, Rendezvous
from launcher.frameworks.ray import RAY
from launcher.frameworks.registry import require_framework
from launcher.placement.plan import rank_environ
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment, Device


def rendezvous(*addresses: str) -> Rendezvous:
    peers = tuple(Peer(address, (5000 + n, 6000 + n, 7000 + n)) for n, address in enumerate(addresses))
    return Rendezvous(addresses[0], 43210, "run-1", peers=peers)


def place(rank: int, *devices: Device, visible: str | None = None) -> Assignment:
    return Assignment(rank, 2, rank, 2, 0, 1, agent=0, host="a", devices=devices, visible=visible, threads=4)


def request(**options: str) -> JobSpec:
    return JobSpec(Target(TargetKind.SCRIPT, "absent.py"), framework="ray", ray_options=options)


def test_a_node_offers_what_its_rank_was_given() -> None:
    gpus = Device(0, "GPU-a"), Device(1, "GPU-b")
    command = RAY.service(place(1, *gpus), rendezvous("10.0.0.1", "10.0.0.2"))

    assert command is not None
    assert ("Ray's node", "ray_node") == (command.name, command.module)
    assert {
        "head": False,
        "cluster": "10.0.0.1:5000",
        "address": "10.0.0.2",
        "ports": [5001, 6001, 7001],
        "cpus": 4,
        "gpus": 2,
        "python": PYTHON,
        "folder": FOLDER,
        "imports": IMPORTS,
        "options": {},
    } == command.settings


def test_the_head_is_beside_rank_0_which_alone_runs_the_target() -> None:
    command = RAY.service(place(0), rendezvous("10.0.0.1", "10.0.0.2"))

    assert command is not None
    assert ("Ray's head node", True) == (command.name, command.settings["head"])
    assert [True, False] == [RAY.leads(rank) for rank in range(2)]
    assert ["head", "node"] == [RAY.role(rank, 2, request()) for rank in range(2)]
    assert ["node", "node"] == [RAY.role(rank, 2, request(address="10.0.0.9:1")) for rank in range(2)]


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (("127.0.0.1",) * 300, ["127.0.0.2", "127.0.0.3", "127.0.1.45"]),
        (("10.0.0.1", "10.0.0.2", *["10.0.0.3"] * 298), ["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
    ],
)
def test_nodes_on_one_host_have_addresses_of_their_own(
    addresses: tuple[str, ...], expected: list[str]
) -> None:
    gang = rendezvous(*addresses)
    assert expected == [ray.node_address(gang, rank) for rank in (0, 1, 299)]
    assert f"{expected[0]}:5000" == ray.address_of(gang)


def test_nodes_may_join_a_cluster_that_there_is() -> None:
    gang = replace(rendezvous("10.0.0.1", "10.0.0.2"), options={"address": "10.9.9.9:6379", "num-cpus": "1"})
    commands = [RAY.service(place(rank), gang) for rank in range(2)]

    assert ["Ray's node"] * 2 == [each.name for each in commands if each]
    settings = [each.settings for each in commands if each]
    assert [(False, "10.9.9.9:6379", {"num-cpus": "1"})] * 2 == [
        (each["head"], each["cluster"], each["options"]) for each in settings
    ]
    env = RAY.environ(place(0), gang)
    assert ("10.9.9.9:6379", "") == (env["RAY_ADDRESS"], env["RANKDECK_RAY_CLIENT"])


def test_options_that_ray_takes_for_a_head_alone_go_to_that_one() -> None:
    options = {"include-dashboard": "false", "verbose": ""}
    gang = replace(rendezvous("10.0.0.1", "10.0.0.2"), options=options)
    commands = [RAY.service(place(rank), gang) for rank in range(2)]

    assert [options, {"verbose": ""}] == [each.settings["options"] for each in commands if each]


def test_a_node_may_have_an_address_that_others_reach() -> None:
    gang = replace(rendezvous("127.0.0.1"), options={"node-ip-address": "10.0.0.9"})
    env = RAY.environ(place(0), gang)

    assert ("10.0.0.9:5000", "ray://10.0.0.9:7000") == (env["RAY_ADDRESS"], env["RANKDECK_RAY_CLIENT"])


@pytest.mark.parametrize(
    ("options", "nodes", "why"),
    [
        ({"port": "1"}, 1, "--port of ray start is for rankdeck to choose"),
        ({"temp-dir": "/tmp"}, 1, "for rankdeck to choose"),
        ({"object_store": "1"}, 1, "'object_store' is no option of ray start"),
        ({"--num-cpus": "1"}, 1, "is no option of ray start"),
        ({"node-ip-address": "10.0.0.1"}, 2, "is for one node, not for 2"),
        (
            {"include-dashboard": "false", "address": "10.9.9.9:6379"},
            1,
            "for a head node, and this run joins",
        ),
    ],
)
def test_options_that_nobody_can_choose_are_refused(options: dict[str, str], nodes: int, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        ray.require_options(options, nodes)
    ray.require_options({"object-store-memory": "1", "node-ip-address": "10.0.0.1"})


def test_options_of_ray_are_for_ray() -> None:
    spec = replace(request(memory="1"), framework="torch")
    with pytest.raises(SpecError, match="--ray-option is for Ray, and the target uses torch"):
        require_framework(spec)


def test_an_ipv6_address_is_in_brackets() -> None:
    assert "[fd00::1]:5000" == ray.address_of(rendezvous("fd00::1"))


def test_a_node_sees_its_own_gpus_and_chooses_its_workers_threads() -> None:
    gang, both = rendezvous("10.0.0.1", "10.0.0.2"), "GPU-a,GPU-b"
    env = rank_environ(place(1, Device(1, "GPU-b"), visible=both), gang, {}, framework=RAY, interface="eth1")

    assert ("GPU-b", "10.0.0.1:5000", "eth1") == (
        env["CUDA_VISIBLE_DEVICES"],
        env["RAY_ADDRESS"],
        env["GLOO_SOCKET_IFNAME"],
    )
    assert {"OMP_NUM_THREADS", "RANK", "WORLD_SIZE", "MASTER_ADDR"}.isdisjoint(env)
    hidden = rank_environ(place(1, visible=""), gang, {}, framework=RAY)
    assert "" == hidden["CUDA_VISIBLE_DEVICES"]


def test_a_cluster_is_for_those_with_the_attempts_token_or_as_the_user_says() -> None:
    gang = replace(rendezvous("10.0.0.1", "10.0.0.2"), token="secret")

    def who(**base: str) -> tuple[str | None, ...]:
        env = rank_environ(place(1), gang, base, framework=RAY)
        return tuple(env.get(name) for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"))

    assert ("token", "secret") == who()
    assert ("token", None) == who(RAY_AUTH_TOKEN="own")
    assert (None, "secret") == who(RAY_AUTH_MODE="disabled")
    assert "secret" not in repr(gang)


def test_a_driver_that_connects_has_met_the_nodes() -> None:
    module = types.ModuleType("ray")
    module.init = lambda: None  # type: ignore[attr-defined]
    module.nodes = lambda: [{"Alive": True}, {"Alive": False}, {"Alive": True}]  # type: ignore[attr-defined]
    sizes: list[int] = []
    ray.on_import(module, sizes.append)

    module.init()
    assert [2] == sizes
