"""Who goes where: ranks by host, devices by local rank, and what a person is told about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import CannotPlace, SpecError, counted
from launcher.frameworks.base import Rendezvous
from launcher.frameworks.torch import TORCH
from launcher.placement.plan import Plan, make_plan, rank_environ, thread_note
from launcher.serialization import MOST_INDEX
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Assignment, Device, Offer
from tests.growth import grows_in_a_straight_line

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect


def spec(n: int, *, gpu: bool | None = None, **more: Any) -> JobSpec:
    return JobSpec(Target(TargetKind.SCRIPT, "t.py"), num_processes=n, gpu=gpu, **more)


def cluster(n: int, **more: Any) -> JobSpec:
    return spec(n, mode=Mode.CLUSTER, **more)


def gpus(host: str, count: int, *, first: int = 0) -> tuple[Device, ...]:
    return tuple(Device(i, f"{host}-{i}") for i in range(first, first + count))


def local_ranks(plan: Plan) -> list[tuple[str, int, int, int]]:
    return [(r.host, r.agent, r.local_rank, r.local_world_size) for r in plan.ranks]


def test_ranks_of_one_host_are_contiguous_though_its_agents_are_not() -> None:
    offers = [Offer(0, "b", 8, slots=1), Offer(1, "a", 8, slots=2), Offer(2, "b", 8, slots=2)]
    plan = make_plan(spec(5), offers)

    expected = [("b", 0, 0, 3), ("b", 2, 1, 3), ("b", 2, 2, 3), ("a", 1, 0, 2), ("a", 1, 1, 2)]
    assert expected == local_ranks(plan)
    assert [0, 1, 2, 3, 4] == [r.rank for r in plan.ranks]
    assert [0, 0, 0, 1, 1] == [r.node_rank for r in plan.ranks]
    assert {(5, 2)} == {(r.world_size, r.node_count) for r in plan.ranks}


@CALM
@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8
    ),
    st.integers(1, 12),
    st.sampled_from([None, False, True]),
    st.integers(1, 4),
)
def test_any_plan_is_a_gang_as_torchrun_would_number_it(
    hosts: list[tuple[str, int, int]], n: int, gpu: bool | None, sharing: int
) -> None:
    offers = [
        Offer(i, host, 8, gpus(f"{host}{i}", devices), slots=slots)
        for i, (host, slots, devices) in enumerate(hosts)
    ]
    try:
        plan = make_plan(spec(n, gpu=gpu, ranks_per_gpu=sharing), offers)
    except (SpecError, CannotPlace):
        return

    assert list(range(n)) == [r.rank for r in plan.ranks]
    nodes = [r.node_rank for r in plan.ranks]
    assert sorted(nodes) == nodes
    assert list(range(plan.ranks[0].node_count)) == sorted(set(nodes))
    for host in {r.host for r in plan.ranks}:
        here = [r for r in plan.ranks if r.host == host]
        assert list(range(len(here))) == [r.local_rank for r in here]
        assert {len(here)} == {r.local_world_size for r in here}
        assert 1 == len({r.node_rank for r in here})
    for offer in offers:
        assert len(plan.on(offer.agent)) <= (offer.slots or 0)
        given_out = [d for r in plan.on(offer.agent) for d in r.devices]
        assert set(given_out) <= set(offer.devices)
    assert plan.uses_gpu == all(len(r.devices) == 1 for r in plan.ranks)
    owned = [d.uuid for r in plan.ranks for d in r.devices]
    assert set(Counter(owned).values()) <= set(range(1, sharing + 1))
    assert_contiguous(owned)


def test_a_rank_finds_its_own_device_at_its_local_rank() -> None:
    offers = [Offer(0, "a", 8, gpus("a", 2), slots=2), Offer(1, "a", 8, gpus("a", 2, first=2), slots=2)]
    plan = make_plan(spec(4), offers)

    assert {"a-0,a-1,a-2,a-3"} == {r.visible for r in plan.ranks}
    for rank in plan.ranks:
        assert rank.visible is not None
        assert rank.devices[0].uuid == rank.visible.split(",")[rank.local_rank]


def test_devices_of_the_host_that_the_gang_does_not_use_stay_hidden() -> None:
    plan = make_plan(spec(2), [Offer(0, "a", 8, gpus("a", 4))])
    assert ["a-0,a-1", "a-0,a-1"] == [r.visible for r in plan.ranks]


@pytest.mark.parametrize("slots", [None, 2, 4])
def test_an_agent_is_not_given_more_ranks_than_it_has_devices(slots: int | None) -> None:
    offers = [Offer(0, "a", 8, gpus("a", 1), slots=slots), Offer(1, "b", 8, gpus("b", 3), slots=slots or 4)]
    plan = make_plan(spec(3 if slots == 2 else 4, gpu=True), offers)
    assert plan.uses_gpu
    assert 1 == len(plan.on(0))


def test_devices_without_slots_do_not_count() -> None:
    offers = [Offer(0, "a", 8, gpus("a", 4), slots=1), Offer(1, "b", 8, slots=3)]
    plan = make_plan(spec(4), offers)
    assert not plan.uses_gpu
    with pytest.raises(SpecError):
        make_plan(spec(4, gpu=True), offers)


def test_too_few_devices_send_the_gang_to_the_cpu_and_say_so() -> None:
    plan = make_plan(spec(4), [Offer(0, "a", 8, gpus("a", 2))])
    assert (False, [""] * 4) == (plan.uses_gpu, [r.visible for r in plan.ranks])
    assert ("2 GPUs for 4 ranks is too few: the ranks run on the CPU (-n 2 would use them)",) == plan.notes


def test_one_device_too_few_is_told_in_the_singular() -> None:
    plan = make_plan(spec(2), [Offer(0, "a", 8, gpus("a", 1))])
    assert ("1 GPU for 2 ranks is too few: the ranks run on the CPU (-n 1 would use it)",) == plan.notes


def test_demanded_devices_that_are_missing_end_it_with_the_reason() -> None:
    with pytest.raises(SpecError, match=r"needs 2 GPUs.*there is none: no driver"):
        make_plan(spec(2, gpu=True), [Offer(0, "a", 8)], gpu_reason="no driver")
    with pytest.raises(SpecError, match="there is 1"):
        make_plan(spec(2, gpu=True), [Offer(0, "a", 8, gpus("a", 1))], gpu_reason="unused")


def test_refused_devices_are_hidden_and_nothing_is_said() -> None:
    plan = make_plan(spec(2, gpu=False), [Offer(0, "a", 8, gpus("a", 4))])
    assert (False, ["", ""], ()) == (plan.uses_gpu, [r.visible for r in plan.ranks], plan.notes)


def test_without_devices_the_variable_is_left_alone() -> None:
    plan = make_plan(spec(1), [Offer(0, "a", 8)])
    assert (None, ()) == (plan.ranks[0].visible, plan.notes)


def test_why_there_are_no_devices_is_told_once() -> None:
    plan = make_plan(spec(2), [Offer(0, "a", 8)], gpu_reason="the driver is too old")
    assert ("the driver is too old: the ranks run on the CPU",) == plan.notes


def test_too_few_slots_cannot_be_placed() -> None:
    with pytest.raises(CannotPlace, match="4 ranks need 4 slots at once, and there are 3") as caught:
        make_plan(spec(4), [Offer(0, "a", 8, slots=1), Offer(1, "b", 8, slots=2)])
    assert 69 == caught.value.exit_code


@pytest.mark.parametrize(
    ("cores", "ranks", "expected"), [(8, 2, 4), (8, 3, 2), (2, 4, 1), (1, 1, 1), (0, 2, 1)]
)
def test_cores_are_divided_among_the_ranks_of_the_host(cores: int, ranks: int, expected: int) -> None:
    plan = make_plan(spec(ranks), [Offer(0, "a", cores)])
    assert {expected} == {r.threads for r in plan.ranks}


def test_threads_are_chosen_only_where_the_caller_has_not() -> None:
    plan = make_plan(spec(2), [Offer(0, "a", 8)])
    rendezvous = Rendezvous("a", 1, "r")
    env = partial(rank_environ, plan.ranks[0], rendezvous, framework=TORCH)
    assert "4" == env({})["OMP_NUM_THREADS"]
    assert "OMP_NUM_THREADS" not in env({"OMP_NUM_THREADS": "3"})
    assert None is thread_note(plan, {"OMP_NUM_THREADS": "3"})
    assert "OMP_NUM_THREADS=4 for each rank" in (thread_note(plan, {}) or "")


def test_hosts_with_different_shares_are_both_named() -> None:
    offers = [Offer(0, "a", 8, slots=2), Offer(1, "b", 4, slots=2)]
    assert "OMP_NUM_THREADS=2/4 " in (thread_note(make_plan(spec(4), offers), {}) or "")


def test_many_different_shares_are_told_as_a_range() -> None:
    offers = [Offer(i, f"h{i}", i, slots=1) for i in range(1, 9)]
    assert "OMP_NUM_THREADS=1 to 8 " in (thread_note(make_plan(spec(8), offers), {}) or "")


def test_the_cores_of_all_agents_of_a_host_are_divided_together() -> None:
    offers = [Offer(0, "a", 3, slots=1), Offer(1, "a", 3, slots=1), Offer(2, "b", 3, slots=1)]
    assert [3, 3, 3] == [r.threads for r in make_plan(cluster(3), offers).ranks]
    assert [4, 4] == [r.threads for r in make_plan(cluster(2), [Offer(0, "a", 8, slots=2)]).ranks]


# --- several GPUs a rank -------------------------------------------------------------------------------


def test_a_rank_with_several_gpus_sees_its_own_alone() -> None:
    offers = [Offer(0, "a", 8, gpus("a", 4), slots=2), Offer(1, "b", 8, gpus("b", 4), slots=2)]
    plan = make_plan(cluster(4, gpus_per_rank=2, gpus_per_task=4), offers)
    assert ["a-0,a-1", "a-2,a-3", "b-0,b-1", "b-2,b-3"] == [r.visible for r in plan.ranks]
    assert [2] * 4 == [len(r.devices) for r in plan.ranks]


def test_gpus_of_two_agents_do_not_make_one_rank() -> None:
    offers = [Offer(i, "a", 8, gpus("a", 3, first=3 * i), slots=3) for i in range(2)]
    with pytest.raises(CannotPlace, match=r"2 GPUs on one host for each of 3 ranks.*enough for 2"):
        make_plan(cluster(3, gpu=True, gpus_per_rank=2), offers)
    plan = make_plan(cluster(3, gpus_per_rank=2), offers)
    assert (
        "6 GPUs for 3 ranks with 2 each is too few: the ranks run on the CPU (-n 2 would use them)",
    ) == plan.notes


def test_gpus_that_do_not_make_one_rank_are_told() -> None:
    with pytest.raises(SpecError, match="4 GPUs on one host for each of 2 ranks and there are not enough"):
        make_plan(spec(2, gpu=True, gpus_per_rank=4), [Offer(0, "a", 8, gpus("a", 3))])


# --- several ranks a GPU -------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("gpu", [None, True])
def test_a_gpu_takes_as_many_ranks_as_asked_for(n: int, gpu: bool | None) -> None:
    plan = make_plan(spec(n, gpu=gpu, ranks_per_gpu=4), [Offer(0, "a", 8, gpus("a", 1))])
    assert (n, True) == (len(plan.ranks), plan.uses_gpu)
    assert {("a-0", "a-0")} == {(r.devices[0].uuid, r.visible) for r in plan.ranks}
    told = [note.partition(" share ")[0] for note in plan.notes]
    assert told == [[], ["ranks 0 and 1"], ["ranks 0, 1 and 2"], ["ranks 0, 1, 2 and 3"]][n - 1]


def test_ranks_of_one_gpu_follow_each_other_and_find_it_at_their_local_rank() -> None:
    plan = make_plan(spec(4, gpu=True, ranks_per_gpu=2), [Offer(0, "a", 8, gpus("a", 3))])
    assert ["a-0", "a-0", "a-1", "a-1"] == [r.devices[0].uuid for r in plan.ranks]
    assert ["a-0,a-1", "a-1,a-0", "a-1,a-0", "a-0,a-1"] == [r.visible for r in plan.ranks]
    shared = "ranks 0 and 1 share GPU 0 on a; ranks 2 and 3 share GPU 1 on a"
    assert (f"{shared} (NCCL takes one rank a GPU, gloo more)",) == plan.notes


def test_the_last_gpu_may_have_fewer_ranks() -> None:
    plan = make_plan(spec(3, ranks_per_gpu=2), [Offer(0, "a", 8, gpus("a", 2))])
    assert ["a-0", "a-0", "a-1"] == [r.devices[0].uuid for r in plan.ranks]


@pytest.mark.parametrize(
    ("wanted", "count", "hint"),
    [
        (spec(2, gpu=True), 1, "use --no-gpu, a smaller -n, or --ranks-per-gpu 2"),
        (spec(7, gpu=True), 2, "use --no-gpu, a smaller -n, or --ranks-per-gpu 4"),
        (spec(9, gpu=True, ranks_per_gpu=2), 3, "use --no-gpu, a smaller -n, or --ranks-per-gpu 3"),
        (spec(8, gpu=True, min_processes=4), 2, "use --no-gpu, a smaller -n, or --ranks-per-gpu 2"),
        (spec(2, gpu=True), 0, "use --no-gpu to train on the CPU"),
        (spec(2, gpu=True, gpus_per_rank=2), 3, "use --no-gpu, or a smaller -n"),
        (cluster(2, gpu=True), 1, "use --no-gpu, or a smaller -n"),
    ],
)
def test_sharing_is_named_where_it_would_be_enough(wanted: JobSpec, count: int, hint: str) -> None:
    with pytest.raises((SpecError, CannotPlace)) as caught:
        make_plan(wanted, [Offer(0, "a", 8, gpus("a", count))])
    assert hint == caught.value.hint


def test_too_few_gpus_to_share_are_told() -> None:
    offers = [Offer(0, "a", 8, gpus("a", 2))]
    told = "needs 3 GPUs for 5 ranks, 2 on each, and there are enough for 4"
    with pytest.raises(SpecError, match=told):
        make_plan(spec(5, gpu=True, ranks_per_gpu=2), offers)
    with pytest.raises(SpecError, match="needs 1 GPU for 2 ranks, 2 on each, and there is none: no driver"):
        make_plan(spec(2, gpu=True, ranks_per_gpu=2), [Offer(0, "a", 8)], gpu_reason="no driver")
    note = "2 GPUs for 5 ranks, 2 on each, is too few: the ranks run on the CPU (-n 4 would use them)"
    assert (note,) == make_plan(spec(5, ranks_per_gpu=2), offers).notes


def test_a_task_has_the_ranks_of_all_its_gpus() -> None:
    offers = [Offer(i, host, 8, gpus(host, 2), slots=4) for i, host in enumerate("ab")]
    plan = make_plan(cluster(8, ranks_per_gpu=2, gpus_per_task=2), offers)
    expected = ["a-0", "a-0", "a-1", "a-1", "b-0", "b-0", "b-1", "b-1"]
    assert expected == [r.devices[0].uuid for r in plan.ranks]
    assert [0] * 4 + [1] * 4 == [r.agent for r in plan.ranks]


def test_agents_that_see_one_gpu_have_no_more_ranks_on_it_together() -> None:
    offers = [seeing(i, "a", gpus("a", 1), slots=2) for i in range(2)]
    assert {"a-0"} == {r.visible for r in make_plan(cluster(3, ranks_per_gpu=3), offers).ranks}
    with pytest.raises(CannotPlace, match="there are enough for 2"):
        make_plan(cluster(4, gpu=True, ranks_per_gpu=2), offers)


def test_a_gpu_for_any_number_of_ranks_costs_no_more() -> None:
    plan = make_plan(spec(2, ranks_per_gpu=MOST_INDEX), [Offer(0, "a", 8, gpus("a", 8))])
    assert ["a-0", "a-0"] == [r.visible for r in plan.ranks]


# --- agents of one host that see the same devices ------------------------------------------------------


def seeing(agent: int, host: str, devices: tuple[Device, ...], slots: int | None = 1) -> Offer:
    return Offer(agent, host, 4, devices, slots=slots, exclusive=False)


def test_agents_that_see_the_same_devices_divide_them() -> None:
    plan = make_plan(cluster(4), [seeing(i, "a", gpus("a", 4)) for i in range(4)])
    assert ["a-0", "a-1", "a-2", "a-3"] == [r.devices[0].uuid for r in plan.ranks]
    assert {"a-0,a-1,a-2,a-3"} == {r.visible for r in plan.ranks}
    assert () == plan.notes


def test_those_that_see_less_choose_first() -> None:
    offers = [seeing(0, "a", gpus("a", 2)), seeing(1, "a", gpus("a", 1))]
    plan = make_plan(cluster(2, gpu=True), offers)
    assert ["a-1", "a-0"] == [r.devices[0].uuid for r in plan.ranks]
    assert {"a-1,a-0"} == {r.visible for r in plan.ranks}


def test_what_was_granted_is_not_divided_again() -> None:
    offers = [seeing(0, "a", gpus("a", 2)), Offer(1, "a", 4, gpus("a", 1), slots=1)]
    plan = make_plan(cluster(2, gpu=True), offers)
    assert ["a-1", "a-0"] == [r.devices[0].uuid for r in plan.ranks]


def test_a_host_with_more_agents_than_gpus_is_too_few() -> None:
    offers = [seeing(i, "a", gpus("a", 2)) for i in range(3)]
    plan = make_plan(cluster(3), offers)
    assert (False, {""}) == (plan.uses_gpu, {r.visible for r in plan.ranks})
    with pytest.raises(CannotPlace, match="needs 3 GPUs, one a rank, and there are 2: busy") as caught:
        make_plan(cluster(3, gpu=True), offers, gpu_reason="busy")
    assert 69 == caught.value.exit_code


# --- devices that were granted twice -------------------------------------------------------------------


def test_agents_that_were_granted_one_device_share_it_and_it_is_said() -> None:
    offers = [Offer(i, "a", 4, gpus("a", 1), slots=1) for i in range(2)]
    plan = make_plan(cluster(2), offers)
    assert ["a-0", "a-0"] == [r.visible for r in plan.ranks]
    (note,) = plan.notes
    assert note.startswith("ranks 0 and 1 share GPU 0 on a ")


def test_a_shared_device_is_found_at_the_local_rank_modulo_the_devices() -> None:
    owned = (0, 0, 1, 1, 2)
    offers = [Offer(i, "a", 4, gpus("a", 1, first=d), slots=1) for i, d in enumerate(owned)]
    plan = make_plan(cluster(5), offers)
    for rank in plan.ranks:
        assert rank.visible is not None
        shown = rank.visible.split(",")
        assert {"a-0", "a-1", "a-2"} == set(shown)
        assert 3 == len(shown)
        assert rank.devices[0].uuid == shown[rank.local_rank % 3]
    assert "ranks 0 and 1 share GPU 0 on a; ranks 2 and 3 share GPU 1 on a (" in plan.notes[0]


def test_the_same_address_on_two_hosts_is_not_shared() -> None:
    offers = [Offer(i, host, 4, (Device(0, "0"),), slots=1) for i, host in enumerate("ab")]
    assert () == make_plan(cluster(2), offers).notes


def test_a_thousand_shared_devices_are_one_short_note() -> None:
    offers = [Offer(i, f"h{i // 2}", 4, (Device(0, "0"),), slots=1) for i in range(2000)]
    (note,) = make_plan(cluster(2000), offers).notes
    assert "; 997 more (" in note
    assert len(note) < 200


def test_a_device_that_one_agent_was_granted_twice_counts_once() -> None:
    twice = gpus("a", 1) * 2
    with pytest.raises(CannotPlace, match="there is 1"):
        make_plan(cluster(2, gpu=True, gpus_per_task=2), [Offer(0, "a", 4, twice, slots=2)])


# --- elastic gangs -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("agents", "size"), [(2, 4), (3, 6), (4, 8), (5, 8)])
def test_a_gang_is_as_large_as_what_there_is(agents: int, size: int) -> None:
    offers = [Offer(i, f"h{i}", 4, slots=2) for i in range(agents)]
    plan = make_plan(cluster(8, min_processes=4), offers)
    assert {size} == {r.world_size for r in plan.ranks}
    assert size == len(plan.ranks)
    told = () if size == 8 else (f"{counted(size, 'rank')} of at most 8: there are no more slots",)
    assert told == plan.notes


def test_fewer_than_the_least_cannot_be_placed() -> None:
    with pytest.raises(CannotPlace, match="at least 4 ranks need 4 slots at once, and there are 3"):
        make_plan(cluster(8, min_processes=4), [Offer(i, "a", 4, slots=1) for i in range(3)])
    with pytest.raises(CannotPlace, match="at least 1 rank needs 1 slot, and there is none"):
        make_plan(cluster(8, min_processes=1), [])


@pytest.mark.parametrize(
    ("count", "size", "uses_gpu", "note"),
    [
        (0, 6, False, "none here: the ranks run on the CPU"),
        (1, 6, False, "1 GPU for at least 2 ranks is too few: the ranks run on the CPU (-n 1 would use it)"),
        (2, 2, True, "2 ranks of at most 6: there are no more GPUs"),
        (5, 5, True, "5 ranks of at most 6: there are no more GPUs"),
        (8, 6, True, ""),
    ],
)
def test_on_this_machine_there_is_a_rank_for_every_gpu_within_the_limits(
    count: int, size: int, uses_gpu: bool, note: str
) -> None:
    offer = Offer(0, "a", 8, gpus("a", count))
    plan = make_plan(spec(6, min_processes=2), [offer], gpu_reason="none here")
    assert (size, uses_gpu, (note,) if note else ()) == (len(plan.ranks), plan.uses_gpu, plan.notes)


def test_demanded_gpus_below_the_least_are_an_error_of_their_mode() -> None:
    offer = Offer(0, "a", 8, gpus("a", 1))
    with pytest.raises(SpecError, match="needs 2 GPUs"):
        make_plan(spec(6, gpu=True, min_processes=2), [offer])
    with pytest.raises(CannotPlace, match="needs 2 GPUs"):
        make_plan(cluster(6, gpu=True, min_processes=2), [offer])


# --- whatever agents come ------------------------------------------------------------------------------


@st.composite
def gangs(draw: st.DrawFn) -> tuple[JobSpec, list[Offer]]:
    """A cluster's spec, and agents that were granted devices, or see their host's, or have none."""
    k, task, most = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 5))
    sharing = draw(st.integers(1, 3)) if k == 1 else 1
    kinds = draw(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 9)), max_size=8))
    devices = st.lists(st.integers(0, 5), min_size=0, max_size=k * task, unique=True)
    offers = []
    for agent, (host, granted, cores) in enumerate(kinds):
        indices = draw(devices) if granted else range(draw(st.integers(0, 6)))
        own = tuple(Device(i, f"{host}-{i}") for i in indices)
        slots = draw(st.sampled_from([0, 1, task * sharing, None]))
        offers.append(Offer(agent, host, cores, own, slots=slots, exclusive=granted))
    size = most * task * sharing
    return (
        cluster(
            size,
            gpu=draw(st.sampled_from([None, True, False])),
            gpus_per_rank=k,
            ranks_per_gpu=sharing,
            gpus_per_task=k * task,
            min_processes=draw(st.none() | st.integers(1, size)),
        ),
        draw(st.permutations(offers)),
    )


@CALM
@given(gangs())
def test_any_gang_of_a_cluster_is_numbered_whole_and_owns_what_it_was_given(
    case: tuple[JobSpec, list[Offer]],
) -> None:
    wanted, offers = case
    try:
        plan = make_plan(wanted, offers)
    except CannotPlace:
        return

    size = len(plan.ranks)
    assert wanted.least <= size <= wanted.num_processes
    assert {size} == {r.world_size for r in plan.ranks}
    assert list(range(size)) == [r.rank for r in plan.ranks]
    assert_contiguous([r.host for r in plan.ranks])
    assert_contiguous([r.agent for r in plan.ranks])
    assert_numbered_by_host(plan.ranks)
    first = [min(o.agent for o in offers if o.host == r.host) for r in plan.ranks]
    assert sorted(first) == first
    assert_each_agent_has_its_own(plan, {o.agent: o for o in offers}, wanted.ranks_per_gpu)
    assert_devices_are_visible(plan, wanted)


def assert_contiguous(values: Sequence[object]) -> None:
    runs = [v for i, v in enumerate(values) if not i or values[i - 1] != v]
    assert len(set(runs)) == len(runs)


def assert_numbered_by_host(ranks: Sequence[Assignment]) -> None:
    hosts = list(dict.fromkeys(r.host for r in ranks))
    for node, host in enumerate(hosts):
        here = [r for r in ranks if r.host == host]
        assert list(range(len(here))) == [r.local_rank for r in here]
        assert {(node, len(hosts), len(here))} == {
            (r.node_rank, r.node_count, r.local_world_size) for r in here
        }
        agents = [r.agent for r in here]
        assert sorted(agents) == agents
        assert all(r.threads >= 1 for r in here)


def assert_each_agent_has_its_own(plan: Plan, offers: dict[int, Offer], sharing: int) -> None:
    assert list(plan.ranks) == [
        r for agent in dict.fromkeys(r.agent for r in plan.ranks) for r in plan.on(agent)
    ]
    for agent, offer in offers.items():
        ranks = plan.on(agent)
        assert offer.slots is None or len(ranks) <= offer.slots
        assert all(r.host == offer.host for r in ranks)
        used = [d for r in ranks for d in r.devices]
        assert set(used) <= set(offer.devices)
        assert max(Counter(used).values(), default=0) <= sharing
        assert_contiguous(used)
    owners = Counter(d.uuid for r in plan.ranks if not offers[r.agent].exclusive for d in r.devices)
    assert max(owners.values(), default=0) <= sharing
    granted = {d.uuid for r in plan.ranks if offers[r.agent].exclusive for d in r.devices}
    assert not granted & owners.keys()


def assert_devices_are_visible(plan: Plan, wanted: JobSpec) -> None:
    each = wanted.gpus_per_rank if plan.uses_gpu else 0
    for rank in plan.ranks:
        assert each == len(rank.devices)
        if not plan.uses_gpu:
            assert rank.visible in (None, "")
            continue
        shown = (rank.visible or "").split(",")
        assert len(set(shown)) == len(shown)
        if each == 1:
            assert rank.devices[0].uuid == shown[rank.local_rank % len(shown)]
        else:
            assert [d.uuid for d in rank.devices] == shown


def place(wanted: JobSpec, offers: Sequence[Offer]) -> None:
    plan = make_plan(wanted, offers)
    assert wanted.num_processes == sum(len(plan.on(o.agent)) for o in offers)


def test_placing_on_a_thousand_hosts_grows_in_a_straight_line() -> None:
    def work(hosts: int) -> None:
        place(spec(8 * hosts), [Offer(i, f"host-{i}", 8, slots=8) for i in range(hosts)])

    assert grows_in_a_straight_line(work, 1000)


@pytest.mark.parametrize("exclusive", [True, False])
def test_placing_on_eight_thousand_gpus_grows_in_a_straight_line(exclusive: bool) -> None:
    def work(agents: int) -> None:
        offers = [
            Offer(i, f"h{i // 2}", 8, gpus(f"h{i // 2}", 16)[8 * (i % 2) :][:8], slots=8, exclusive=exclusive)
            for i in range(agents)
        ]
        place(cluster(8 * agents, gpu=True, gpus_per_task=8), offers)

    assert grows_in_a_straight_line(work, 1000)


def test_an_agent_that_has_no_part_in_the_gang_has_no_ranks() -> None:
    plan = make_plan(cluster(1), [Offer(0, "a", 1, slots=1), Offer(1, "b", 1, slots=1)])
    assert ((), 1) == (plan.on(1), plan.ranks[0].node_count)
