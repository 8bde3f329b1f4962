from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.data.launch.detect import Detected, Gpu
from console.data.launch.draft import Draft
from console.data.launch.places import PlacementMap, placement_map, ranges
from launcher.spec.modes import Mode

GIB = 1 << 30
EIGHT = Detected(96, tuple(Gpu("NVIDIA H100", (69 if n == 3 else 0) * GIB, 80 * GIB) for n in range(8)))
DRAFT = Draft("train.py", processes="8", workdir=Path("/w"))


def seats(places: PlacementMap) -> dict[str, tuple[int, ...]]:
    return {seat.label: seat.ranks for host in places.hosts for seat in host.seats}


def test_each_rank_has_the_gpu_that_the_plan_gives_it() -> None:
    found = placement_map(DRAFT, EIGHT)

    assert {f"GPU {n}": (n,) for n in range(8)} == seats(found)
    assert ["GPU 3"] == [seat.label for host in found.hosts for seat in host.seats if seat.taken]
    assert any("in use by others: GPU 3" in note for note in found.notes)


def test_ranks_share_gpus_or_have_several() -> None:
    shared = placement_map(replace(DRAFT, extras={"ranks_per_gpu": "2"}), EIGHT)
    several = placement_map(replace(DRAFT, processes="4", extras={"gpus_per_rank": "2"}), EIGHT)

    assert (0, 1) == seats(shared)["GPU 0"]
    assert () == seats(shared)["GPU 7"]
    assert [(0,), (0,), (1,)] == [seats(several)[f"GPU {n}"] for n in range(3)]


def test_without_enough_gpus_ranks_are_on_the_cpu_and_the_reason_is_told() -> None:
    found = placement_map(replace(DRAFT, processes="12"), EIGHT)

    assert tuple(range(12)) == seats(found)["CPU"]
    assert "too few" in found.notes[0]
    assert "GPUs" in placement_map(replace(DRAFT, processes="12", gpu="yes"), EIGHT).problem
    assert {"CPU": (0,)} == seats(placement_map(replace(DRAFT, processes="1"), Detected(2)))


@pytest.mark.parametrize("processes", ["", "0", "-3", "x", "9:1", "4:", "99999999999"])
def test_a_wrong_number_is_a_problem_and_no_error(processes: str) -> None:
    assert placement_map(replace(DRAFT, processes=processes), EIGHT).problem


def test_too_many_ranks_are_counted_only() -> None:
    found = placement_map(replace(DRAFT, processes="1000000"), EIGHT)

    assert (found.hosts, found.problem) == ((), "")
    assert "1,000,000 ranks" in found.notes[0]


def test_a_wrong_option_is_a_problem() -> None:
    assert placement_map(replace(DRAFT, extras={"gpus_per_rank": "x"}), EIGHT).problem
    assert placement_map(replace(DRAFT, mode=Mode.CLUSTER, extras={"gpus_per_task": "x"}), EIGHT).problem


def test_on_a_cluster_tasks_are_shown_with_the_slots_that_are_known() -> None:
    cluster = replace(
        DRAFT, mode=Mode.CLUSTER, spark="local-cluster[2,4,1024]", extras={"gpus_per_task": "2"}
    )
    found = placement_map(cluster, EIGHT)

    assert {"task 0": (0, 1), "task 3": (6, 7)}.items() <= seats(found).items()
    assert "2 hosts × 4 slots" in found.hosts[0].about
    assert "Spark chooses" in placement_map(replace(cluster, spark=""), EIGHT).hosts[0].about


def test_neighbours_are_written_as_ranges() -> None:
    assert "0-3, 6, 8-9" == ranges([9, 8, 0, 1, 2, 3, 6])
    assert "" == ranges([])
