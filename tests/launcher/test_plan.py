"""Who goes where: ranks by host, devices by local rank, and what a person is told about it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import CannotPlace, SpecError
from launcher.frameworks.torch import Rendezvous
from launcher.plan import Plan, make_plan, rank_environ, thread_note
from launcher.spec import Device, JobSpec, Offer, Target, TargetKind

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect


def spec(n: int, *, gpu: bool | None = None) -> JobSpec:
    return JobSpec(Target(TargetKind.SCRIPT, "t.py"), num_processes=n, gpu=gpu)


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
)
def test_any_plan_is_a_gang_as_torchrun_would_number_it(
    hosts: list[tuple[str, int, int]], n: int, gpu: bool | None
) -> None:
    offers = [
        Offer(i, host, 8, gpus(f"{host}{i}", devices), slots=slots)
        for i, (host, slots, devices) in enumerate(hosts)
    ]
    try:
        plan = make_plan(spec(n, gpu=gpu), offers)
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
    assert len(set(owned)) == len(owned)


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
    assert "4" == rank_environ(plan.ranks[0], rendezvous, {})["OMP_NUM_THREADS"]
    assert "OMP_NUM_THREADS" not in rank_environ(plan.ranks[0], rendezvous, {"OMP_NUM_THREADS": "3"})
    assert None is thread_note(plan, {"OMP_NUM_THREADS": "3"})
    assert "OMP_NUM_THREADS=4 for each rank" in (thread_note(plan, {}) or "")


def test_hosts_with_different_shares_are_both_named() -> None:
    offers = [Offer(0, "a", 8, slots=2), Offer(1, "b", 4, slots=2)]
    assert "OMP_NUM_THREADS=2/4 " in (thread_note(make_plan(spec(4), offers), {}) or "")


def placed(offers: Sequence[Offer], n: int) -> float:
    start = time.perf_counter()
    make_plan(spec(n), offers)
    return time.perf_counter() - start


def test_a_thousand_hosts_are_placed_in_no_time() -> None:
    offers = [Offer(i, f"host-{i}", 8, slots=8) for i in range(1000)]
    assert placed(offers, 8000) < 1.0
