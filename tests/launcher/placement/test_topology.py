"""What agents said: whose host is whose, where the gang meets, and what people are told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.channel.handshake import Hello
from launcher.channel.network import Way
from launcher.errors import CannotPlace
from launcher.placement.plan import make_plan
from launcher.placement.topology import (
    HelloFields,
    MeetingPoint,
    Versions,
    choose_address,
    gpu_reason,
    host_names,
    offers_of,
    version_notes,
)
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Device, Offer
from tests.growth import grows_in_a_straight_line

OURS = Versions("3.11.7", "2.13.0+cpu")


@dataclass(frozen=True, slots=True)
class Agent:
    """The fields of a hello that matter here."""

    agent: int
    host: str = "node1"
    machine: str = "m1"
    address: str = "10.0.0.1"
    cores: int = 2
    devices: tuple[Device, ...] = ()
    exclusive: bool = True
    gpu_reason: str = ""
    python: str = "3.11.9"
    torch: str = "2.13.0"


def spec(n: int, *, task: int | None = None, gpu: bool | None = None, least: int | None = None) -> JobSpec:
    return JobSpec(
        Target(TargetKind.SCRIPT, "/w/t.py"),
        num_processes=n,
        mode=Mode.CLUSTER,
        gpu=gpu,
        gpus_per_task=task,
        min_processes=least,
    )


def gpus(*indices: int) -> tuple[Device, ...]:
    return tuple(Device(i, f"GPU-{i}") for i in indices)


def many(count: int) -> list[Agent]:
    return [Agent(i, f"node{i}", f"m{i}", f"10.0.{i // 250}.{i % 250}") for i in range(count)]


def test_a_hello_says_what_is_needed_here() -> None:
    hello: HelloFields = Hello(
        agent=3, host="n", pid=1, python="3.11.0", port=1, clock_offset=0.0, machine="m"
    )
    assert {3: "n"} == host_names([hello])


# --- hosts ---------------------------------------------------------------------------------------------


def test_agents_of_one_machine_share_a_host_whatever_they_call_it() -> None:
    said = [Agent(0, "a", "m1"), Agent(1, "b", "m2"), Agent(2, "other-name", "m1")]
    assert {0: "a", 1: "b", 2: "a"} == host_names(said)


def test_machines_of_one_name_are_told_apart_by_their_addresses() -> None:
    said = [
        Agent(0, "localhost", "m1", "10.0.0.1"),
        Agent(1, "localhost", "m2", "fd00::2"),
        Agent(2, "localhost", "m1", "10.0.0.1"),
        Agent(3, "b", "m3", "10.0.0.3"),
    ]
    names = {0: "localhost (10.0.0.1)", 1: "localhost (fd00::2)", 2: "localhost (10.0.0.1)", 3: "b"}
    assert names == host_names(said)


def test_machines_of_one_name_and_address_are_still_two() -> None:
    said = [Agent(0, "a", "m1"), Agent(1, "a", "m2"), Agent(2, "a (10.0.0.1)", "m3")]
    assert {0: "a (10.0.0.1) #2", 1: "a (10.0.0.1) #3", 2: "a (10.0.0.1)"} == host_names(said)


def test_agents_that_do_not_know_their_machine_are_told_apart_by_name_and_address() -> None:
    said = [Agent(0, "a", "", "x"), Agent(1, "a", "", "x"), Agent(2, "a", "", "y")]
    names = host_names(said)
    assert names[0] == names[1] != names[2]


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "a (x)", ""]),
            st.sampled_from(["", "1", "2", "3"]),
            st.sampled_from(["x", "y", ""]),
        ),
        max_size=10,
    )
)
def test_every_machine_has_one_name_that_no_other_has(agents: list[tuple[str, str, str]]) -> None:
    said = [Agent(i, host, machine, address) for i, (host, machine, address) in enumerate(agents)]
    names = host_names(said)
    machines = {s.agent: s.machine or (s.host, s.address) for s in said}
    pairs = {(names[s.agent], machines[s.agent]) for s in said}
    assert len(pairs) == len({name for name, _ in pairs}) == len({machine for _, machine in pairs})


# --- offers --------------------------------------------------------------------------------------------


def test_an_offer_holds_the_ranks_of_one_task_and_what_was_granted_to_it() -> None:
    said = [
        Agent(0, devices=gpus(0, 1), cores=4),
        Agent(1, "node2", "m2", devices=gpus(0, 1), cores=4, exclusive=True),
    ]
    assert offers_of(said, spec(4, task=2)) == [
        Offer(0, "node1", 4, gpus(0, 1), slots=2, exclusive=True),
        Offer(1, "node2", 4, gpus(0, 1), slots=2, exclusive=True),
    ]


@pytest.mark.parametrize(
    ("n", "task", "agents", "slots"),
    [
        (4, None, 4, 1),  # a task for each rank
        (8, 4, 2, 4),  # a task for each four
        (8, 4, 8, 1),  # a task for each rank, though one could hold four
        (8, 4, 1, 4),  # some were lost: nobody takes more for it
        (8, None, 3, 1),
    ],
)
def test_an_agent_holds_its_share_and_no_more_than_its_task(
    n: int, task: int | None, agents: int, slots: int
) -> None:
    offers = offers_of([Agent(i) for i in range(agents)], spec(n, task=task, gpu=False, least=1))
    assert [slots] * agents == [o.slots for o in offers]


def test_devices_that_spark_did_not_schedule_are_divided_among_the_agents_of_a_host() -> None:
    said = [Agent(i, devices=gpus(0, 1), exclusive=False) for i in range(2)]
    plan = make_plan(spec(2), offers_of(said, spec(2)))
    assert ["GPU-0", "GPU-1"] == [r.devices[0].uuid for r in plan.ranks]
    assert [0, 1] == [r.local_rank for r in plan.ranks]


def test_nobody_has_nothing_to_offer() -> None:
    assert [] == offers_of([], spec(4))


# --- why there are no GPUs -----------------------------------------------------------------------------


def test_one_reason_for_all_is_said_alone() -> None:
    assert "no driver" == gpu_reason([Agent(0, gpu_reason="no driver"), Agent(1, gpu_reason="no driver")])
    assert "" == gpu_reason([Agent(0)])


def test_different_reasons_are_said_with_their_hosts() -> None:
    said = [
        Agent(0, "a", "m1"),
        Agent(1, "b", "m2", gpu_reason="hung"),
        Agent(2, "c", "m3", gpu_reason="hung"),
        Agent(3, "d", "m4", gpu_reason="lost"),
    ]
    assert "b and c: hung; d: lost" == gpu_reason(said)


# --- where the gang meets ------------------------------------------------------------------------------

TWO = {0: "a", 1: "b"}


def ways(interfaces: Mapping[str, str]) -> dict[str, Way]:
    return {address: Way(interface, f"from {interface}") for address, interface in interfaces.items()}


def answers(*reached: Mapping[str, str]) -> dict[int, dict[str, Way]]:
    return dict(enumerate(map(ways, reached)))


def test_the_first_address_that_all_reach_is_taken_with_everyones_way() -> None:
    reached = answers({"10.0.0.1": "eth0", "192.168.0.1": "eth1"}, {"192.168.0.1": "ens5"})
    meeting = choose_address(["10.0.0.1", "192.168.0.1"], reached, TWO, first=0)
    assert MeetingPoint("192.168.0.1", {0: Way("eth1", "from eth1"), 1: Way("ens5", "from ens5")}) == meeting


def test_an_ipv6_address_will_do() -> None:
    reached = answers({"fd00::1": "eth0"}, {"fd00::1": "eth0"})
    assert "fd00::1" == choose_address(["10.0.0.1", "fd00::1"], reached, TWO, first=0).address


def test_loopback_serves_one_machine_alone() -> None:
    reached = answers({"127.0.0.1": "lo", "10.0.0.1": "eth0"}, {"127.0.0.1": "lo", "10.0.0.1": "eth0"})
    candidates = ["127.0.0.1", "10.0.0.1"]
    assert "127.0.0.1" == choose_address(candidates, reached, {0: "a", 1: "a"}, first=0).address
    assert "10.0.0.1" == choose_address(candidates, reached, TWO, first=0).address
    with pytest.raises(CannotPlace, match="a, where rank 0 would listen, has no address that other hosts"):
        choose_address(["127.0.0.1", "::1"], reached, TWO, first=0)


def test_agents_without_ranks_have_no_say() -> None:
    meeting = choose_address(["10.0.0.1"], answers({"10.0.0.1": "e0"}, {}), {0: "a"}, first=0)
    assert {0: Way("e0", "from e0")} == meeting.ways


def test_who_cannot_reach_rank_0_is_named() -> None:
    hosts = {0: "a", 1: "b", 2: "c", 3: "c"}
    reached = {0: ways({"10.0.0.1": "e0"}), 1: ways({"10.0.0.1": "e0"}), 3: ways({})}
    with pytest.raises(CannotPlace) as caught:
        choose_address(["127.0.0.1", "10.0.0.1", "10.1.0.1"], reached, hosts, first=0)
    said = "c cannot reach a, where rank 0 would listen, at 10.0.0.1 or 10.1.0.1"
    assert (said, 69) == (caught.value.message, caught.value.exit_code)


def test_addresses_that_each_lack_somebody_are_told_with_whom() -> None:
    reached = answers({"10.0.0.1": "", "10.1.0.1": ""}, {"10.0.0.1": ""}, {"10.1.0.1": ""})
    with pytest.raises(CannotPlace) as caught:
        choose_address(["10.0.0.1", "10.1.0.1"], reached, {0: "a", 1: "b", 2: "c"}, first=0)
    said = "no address of a, where rank 0 would listen, is reached by all: "
    assert said + "10.0.0.1 not from c; 10.1.0.1 not from b" == caught.value.message


def test_a_thousand_hosts_that_reach_nobody_are_one_sentence() -> None:
    hosts = {i: f"node{i}" for i in range(1000)}
    with pytest.raises(CannotPlace, match="node3, node4, node5 and 994 more cannot reach node0") as caught:
        choose_address(["10.0.0.1"], answers({"10.0.0.1": "e0"}), hosts, first=0)
    assert len(caught.value.message) < 150


# --- versions ------------------------------------------------------------------------------------------


def told(said: Sequence[HelloFields], ours: Versions = OURS, *, pickled: bool = False) -> tuple[str, ...]:
    return version_notes(said, ours, pickled=pickled)


def test_nothing_is_said_where_nothing_differs_that_matters() -> None:
    said = [Agent(0, python="3.11.2", torch="2.13.0+cu130"), Agent(1, "b", "m2", torch="2.13.0+cu130")]
    assert () == told(said, pickled=True)
    assert () == told(said, Versions("3.11.0"))
    assert () == told([])


def test_torch_that_differs_is_told_by_host_the_odd_ones_first() -> None:
    said = [Agent(i, f"node{i}", f"m{i}", torch="2.12.0" if i == 3 else "2.13.0") for i in (1, 2, 3)]
    assert ("torch 2.12.0 on node3, 2.13.0 on node1 and node2",) == told(said, Versions("3.11.0"))
    assert ("torch 2.12.0 on node3, 2.13.0 on node1 and node2; the caller has 2.13.0+cpu",) == told(said)


def test_torch_that_differs_from_the_callers_alone_is_told() -> None:
    said = [Agent(0, torch="2.12.0")]
    assert ("torch 2.12.0 on node1; the caller has 2.13.0+cpu",) == told(said)


def test_builds_of_one_version_that_differ_among_hosts_are_told() -> None:
    said = [Agent(0, torch="2.13.0+cpu"), Agent(1, "b", "m2", torch="2.13.0+cu130")]
    assert "torch 2.13.0+cpu on node1, 2.13.0+cu130 on b" in told(said)[0]


def test_a_host_without_torch_is_named() -> None:
    said = [Agent(0), Agent(1, "b", "m2", torch="")]
    assert ("torch is not installed on b",) == told(said)


def test_agents_of_one_host_may_differ() -> None:
    said = [Agent(0), Agent(1, torch="")]
    assert ("torch is not installed on node1",) == told(said)


def test_another_python_is_a_note_for_a_script_and_the_end_for_a_pickle() -> None:
    said = [Agent(0, python="3.10.4"), Agent(1, "b", "m2"), Agent(2, "c", "m3")]
    assert ("Python 3.10 on node1, 3.11 on b and c; the caller has 3.11",) == told(said)
    with pytest.raises(
        CannotPlace, match=r"pickled by Python 3\.11, and there is Python 3\.10 on node1"
    ) as caught:
        told(said, pickled=True)
    assert "PYSPARK_PYTHON" in str(caught.value)


def test_all_hosts_with_another_python_than_the_caller_are_told() -> None:
    assert ("Python 3.12 on node1; the caller has 3.11",) == told([Agent(0, python="3.12.1")])


def test_a_thousand_hosts_are_cut_to_a_line() -> None:
    said = [Agent(a.agent, a.host, a.machine, a.address, torch=f"2.{a.agent % 20}.0") for a in many(1000)]
    (note,) = told(said)
    offers = offers_of(said, spec(1000))
    assert "and 45 more" in note
    assert len(note) < 500
    assert 1000 == len({o.host for o in offers})


def test_notes_and_offers_of_a_thousand_hosts_grow_in_a_straight_line() -> None:
    def work(hosts: int) -> None:
        said = [
            Agent(a.agent, a.host, a.machine, a.address, torch=f"2.{a.agent % 20}.0") for a in many(hosts)
        ]
        told(said)
        offers_of(said, spec(hosts))

    assert grows_in_a_straight_line(work, 1000)


def test_the_schedulers_reason_for_no_gpus_follows_the_hosts() -> None:
    hellos = [Agent(0, gpu_reason="no GPU found"), Agent(1, gpu_reason="no GPU found")]
    assert gpu_reason(hellos, "Spark assigns none") == "no GPU found, and Spark assigns none"
    assert gpu_reason([Agent(0)], "Spark assigns none") == ""
