"""The document that an agent starts its ranks by."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from launcher.agent.boot import base_environ
from launcher.channel.network import Way
from launcher.frameworks.base import Rendezvous
from launcher.frameworks.registry import FrameworkChoice
from launcher.frameworks.torch import TORCH
from launcher.placement.plan import Plan, make_plan, thread_note
from launcher.serialization import from_plain
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Offer
from launcher.spec.request import Request
from launcher.supervisor import attempt
from launcher.supervisor.attempt import chosen_environ, shared_environ
from tests.growth import grows_in_a_straight_line

TARGET = Target(TargetKind.FUNCTION, "/w/train.py", "main", kwargs=(("lr", "0.1"),))
MEETING = Rendezvous("10.0.0.1", 4000, "run-1", restart_count=1, max_restarts=2)
OFFERS = [Offer(0, "a", 8, slots=2), Offer(1, "b", 8, slots=2)]
BASE = base_environ({"PATH": "/bin", "HOME": "/h"}, {"A": "1"}, python="/opt/bin/python")
start_message = partial(attempt.start_message, choice=FrameworkChoice(TORCH))


def spec(mode: Mode = Mode.CLUSTER, **more: Any) -> JobSpec:
    return JobSpec(TARGET, num_processes=4, mode=mode, workdir="/w", env={"A": "1"}, **more)


def plan() -> Plan:
    return make_plan(spec(), OFFERS)


def test_in_local_mode_the_order_holds_the_whole_environment() -> None:
    order = start_message(
        0, plan(), spec=spec(Mode.LOCAL), rendezvous=MEETING, base=BASE, python="/opt/bin/python", path=["/p"]
    )
    assert TARGET == from_plain(Target, order["program"]["target"])
    assert ["/p"] == order["program"]["path"]
    assert (False, BASE, "/opt/bin/python") == (order["inherit"], order["env"], order["python"])
    assert ("/w", 10.0, "", 0) == (order["cwd"], order["grace_s"], order["origin"], order["attempt"])
    assert {"0", "1"} == order["ranks"].keys()


def test_in_a_cluster_the_order_holds_additions_to_the_agents_own() -> None:
    order = start_message(
        1,
        plan(),
        spec=spec(),
        rendezvous=MEETING,
        base={"A": "1"},
        ways={0: Way("eth0"), 1: Way("eth1")},
        origin="/w",
        attempt=1,
    )
    assert (True, {"A": "1"}, "", "/w", 1) == tuple(
        order[k] for k in ("inherit", "env", "python", "origin", "attempt")
    )
    rank = order["ranks"]["3"]
    assert {"2", "3"} == order["ranks"].keys()
    assert ("3", "1", "1", "10.0.0.1") == tuple(
        rank[k] for k in ("RANK", "LOCAL_RANK", "NODE_RANK", "MASTER_ADDR")
    )
    assert ("eth1", "=eth1") == (rank["GLOO_SOCKET_IFNAME"], rank["NCCL_SOCKET_IFNAME"])
    assert set(TORCH.defaults("eth1")) == set(order["yields"])
    assert {} == order["program"]["argv"]
    assert ("1", "2") == (rank["TORCHELASTIC_RESTART_COUNT"], rank["TORCHELASTIC_MAX_RESTARTS"])
    assert json.loads(json.dumps(order)) == order


def test_an_interface_that_is_not_known_is_left_open() -> None:
    order = start_message(0, plan(), spec=spec(), rendezvous=MEETING, base={}, ways={1: Way("eth1")})
    assert "GLOO_SOCKET_IFNAME" not in order["ranks"]["0"]


def test_an_agent_without_ranks_gets_an_order_without_ranks() -> None:
    assert {} == start_message(7, plan(), spec=spec(), rendezvous=MEETING, base={})["ranks"]


def threads_of(wanted: JobSpec, base: dict[str, str]) -> str | None:
    order = start_message(0, plan(), spec=wanted, rendezvous=MEETING, base=base)
    ranks: dict[str, dict[str, str]] = order["ranks"]
    return ranks["0"].get("OMP_NUM_THREADS")


def shared(wanted: JobSpec, **environ: str) -> dict[str, str]:
    return shared_environ(Request(wanted, environ=environ))


def test_threads_that_nobody_chose_are_set() -> None:
    base = shared(spec(), PATH="/bin")
    assert "4" == threads_of(spec(), base)
    assert "OMP_NUM_THREADS=4 " in (thread_note(plan(), chosen_environ(spec(), base)) or "")


def test_ranks_on_other_hosts_get_what_configures_training() -> None:
    caller = {"HF_TOKEN": "hf_x", "FOO": "1", "HOME": "/h", "NCCL_SOCKET_IFNAME": "eth0", "A": "2"}
    assert {"HF_TOKEN": "hf_x", "A": "1"} == shared(spec(), **caller)
    assert {"HF_TOKEN": "hf_x", "A": "1", "FOO": "1"} == shared(spec(env_all=True), **caller)


def test_what_the_request_sets_for_executors_stands_above_what_the_caller_has() -> None:
    conf = {"spark.executorEnv.NCCL_DEBUG": "WARN"}
    wanted = spec(spark=SparkSpec(conf=conf))
    assert {"A": "1"} == shared(wanted, NCCL_DEBUG="INFO")
    assert {"A": "1", "NCCL_DEBUG": "TRACE"} == shared(
        JobSpec(TARGET, mode=Mode.CLUSTER, env={"A": "1", "NCCL_DEBUG": "TRACE"}, spark=SparkSpec(conf=conf))
    )


def test_threads_that_the_user_chose_are_kept_wherever_they_were_chosen() -> None:
    conf = {"spark.executorEnv.OMP_NUM_THREADS": "2", "spark.executor.cores": "4"}
    by_conf = spec(spark=SparkSpec(conf=conf))
    by_env = JobSpec(TARGET, num_processes=4, mode=Mode.CLUSTER, env={"OMP_NUM_THREADS": "3"})
    locally = {"OMP_NUM_THREADS": "3"}
    cases = [(by_conf, shared(by_conf)), (by_env, shared(by_env)), (spec(Mode.LOCAL), locally)]
    for wanted, base in [*cases, (spec(), shared(spec(), OMP_NUM_THREADS="3"))]:
        assert None is threads_of(wanted, base)
        assert None is thread_note(plan(), chosen_environ(wanted, base))


def test_orders_for_a_thousand_agents_grow_in_a_straight_line() -> None:
    def work(agents: int) -> None:
        wanted = JobSpec(TARGET, num_processes=8 * agents, mode=Mode.CLUSTER, gpus_per_task=8)
        placed = make_plan(wanted, [Offer(i, f"h{i}", 8, slots=8) for i in range(agents)])
        orders = [start_message(i, placed, spec=wanted, rendezvous=MEETING, base={}) for i in range(agents)]
        assert 8 * agents == sum(len(o["ranks"]) for o in orders)

    assert grows_in_a_straight_line(work, 1000)
