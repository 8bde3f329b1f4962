"""torchrun's worker contract, compared as a whole."""

from __future__ import annotations

from launcher.agent.boot import base_environ
from launcher.frameworks.base import Rendezvous
from launcher.frameworks.torch import TORCH, environ, network
from launcher.placement.plan import rank_environ
from launcher.spec.places import Assignment

PLACE = Assignment(
    rank=5,
    world_size=8,
    local_rank=1,
    local_world_size=4,
    node_rank=1,
    node_count=2,
    agent=3,
    host="beta",
    visible="GPU-a,GPU-b",
    threads=6,
)
RENDEZVOUS = Rendezvous("10.0.0.7", 43210, "run-1", restart_count=2, max_restarts=3)

WHAT_TORCHRUN_SETS = {
    "RANK",
    "LOCAL_RANK",
    "GROUP_RANK",
    "GROUP_WORLD_SIZE",
    "ROLE_RANK",
    "ROLE_WORLD_SIZE",
    "ROLE_NAME",
    "LOCAL_WORLD_SIZE",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_MAX_RESTARTS",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
    "TORCHELASTIC_ERROR_FILE",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "OMP_NUM_THREADS",
    "CUDA_VISIBLE_DEVICES",
}
WHAT_WE_ADD = {"NODE_RANK", "PYTHONUNBUFFERED", "PATH"}


def whole(caller: dict[str, str], extra: dict[str, str] | None = None) -> dict[str, str]:
    base = base_environ(caller, extra or {}, python="/opt/py/bin/python")
    return {**base, **rank_environ(PLACE, RENDEZVOUS, base, framework=TORCH)}


def test_a_rank_sees_all_that_torchrun_sets_and_no_more_than_we_say() -> None:
    assert WHAT_TORCHRUN_SETS | WHAT_WE_ADD == whole({}).keys()


def test_every_variable_has_the_value_that_torchrun_would_give() -> None:
    expected = {
        "RANK": "5",
        "WORLD_SIZE": "8",
        "LOCAL_RANK": "1",
        "LOCAL_WORLD_SIZE": "4",
        "GROUP_RANK": "1",
        "GROUP_WORLD_SIZE": "2",
        "NODE_RANK": "1",
        "ROLE_NAME": "default",
        "ROLE_RANK": "5",
        "ROLE_WORLD_SIZE": "8",
        "MASTER_ADDR": "10.0.0.7",
        "MASTER_PORT": "43210",
        "TORCHELASTIC_RUN_ID": "run-1",
        "TORCHELASTIC_RESTART_COUNT": "2",
        "TORCHELASTIC_MAX_RESTARTS": "3",
        "TORCHELASTIC_USE_AGENT_STORE": "False",
        "TORCHELASTIC_ERROR_FILE": "",
    }
    assert expected == environ(PLACE, RENDEZVOUS)
    assert "GPU-a,GPU-b" == whole({})["CUDA_VISIBLE_DEVICES"]


def test_devices_are_left_alone_where_there_is_nothing_to_choose() -> None:
    place = Assignment(0, 1, 0, 1, 0, 1, 0, "a", visible=None)
    assert "CUDA_VISIBLE_DEVICES" not in rank_environ(place, RENDEZVOUS, {}, framework=TORCH)


def test_what_an_outer_launcher_left_behind_does_not_reach_a_rank() -> None:
    left = dict.fromkeys(environ(PLACE, RENDEZVOUS), "stale")
    assert "stale" not in whole(left).values()


def test_the_run_s_environment_wins_over_the_callers() -> None:
    env = whole({"A": "1", "B": "1", "OMP_NUM_THREADS": "9"}, {"B": "2"})
    assert ("1", "2", "9") == (env["A"], env["B"], env["OMP_NUM_THREADS"])


def test_a_choice_about_nccl_is_kept() -> None:
    assert "3" == whole({"TORCH_NCCL_ASYNC_ERROR_HANDLING": "3"})["TORCH_NCCL_ASYNC_ERROR_HANDLING"]


def test_a_known_interface_is_named_to_gloo_and_exactly_to_nccl() -> None:
    assert {"GLOO_SOCKET_IFNAME": "eth1", "NCCL_SOCKET_IFNAME": "=eth1"} == network("eth1")
    assert {} == network("")


def test_an_interface_that_the_user_has_chosen_is_left_alone() -> None:
    chosen = {"GLOO_SOCKET_IFNAME": "ib0"}
    env = rank_environ(PLACE, RENDEZVOUS, chosen, framework=TORCH, interface="eth1")
    assert (False, "=eth1") == ("GLOO_SOCKET_IFNAME" in env, env["NCCL_SOCKET_IFNAME"])
