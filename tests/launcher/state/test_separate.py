"""The rule that finds N trainings which pass for one, over facts alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState
from launcher.state.separate import describe_separate, separate_trainings

CURES = {"torch": "make a group", "lightning": "give it devices", "ray": ""}


def state(ranks: int = 2, *facts: ev.Event) -> RunState:
    places = tuple(Assignment(i, ranks, i, ranks, 0, 1, 0, "a") for i in range(ranks))
    return fold_all([ev.GangPlaced(time=1, ranks=places), *facts])


def chosen(name: str = "torch", *detected: str) -> ev.FrameworkChosen:
    return ev.FrameworkChosen(time=1, framework=name, detected=detected)


def used(rank: int, *names: str) -> ev.FrameworksUsed:
    return ev.FrameworksUsed(time=2, rank=rank, frameworks=names)


def joined(rank: int, size: int) -> ev.GroupJoined:
    return ev.GroupJoined(time=2, rank=rank, world_size=size)


def found(given: RunState, *, required: bool = False) -> ev.SeparateTrainings | None:
    return separate_trainings(given, now=3, cures=CURES, required=required)


@pytest.mark.parametrize(
    ("facts", "frameworks"),
    [
        ((chosen("torch", "torch"),), ("torch",)),
        ((chosen(), used(1, "lightning")), ("lightning",)),
        ((chosen("deepspeed", "deepspeed"), used(0, "torch", "deepspeed")), ("deepspeed", "torch")),
        ((used(0, "torch"), used(1, "torch")), ("torch",)),  # a record without the choice
        ((chosen("torch", "torch"), joined(0, 1)), ("torch",)),  # a group of one is none
    ],
)
def test_ranks_that_met_nobody_are_found(facts: tuple[ev.Event, ...], frameworks: tuple[str, ...]) -> None:
    told = found(state(2, *facts))

    assert told is not None
    assert (2, frameworks) == (told.ranks, told.frameworks)


@pytest.mark.parametrize(
    "facts",
    [
        (),
        (chosen(),),
        (chosen("torch", "torch"), joined(1, 2)),
        (chosen("none", "torch"), used(0, "torch")),
        (ev.FrameworkChosen(time=1, framework="torch", detected=("torch",), whole=False),),
    ],
)
def test_ranks_that_met_or_use_nothing_or_mean_it_are_not(facts: tuple[ev.Event, ...]) -> None:
    assert found(state(2, *facts)) is None


def test_one_rank_has_nobody_to_meet() -> None:
    assert found(state(1, chosen("torch", "torch")), required=True) is None


def test_a_required_group_is_missed_by_plain_ranks_too() -> None:
    told = found(state(2, chosen()), required=True)

    assert told is not None
    assert ((), "", True) == (told.frameworks, told.cure, told.required)


def test_the_sentence_names_the_frameworks_and_the_cure_of_the_first_that_has_one() -> None:
    told = found(state(4, used(0, "ray", "lightning")))

    assert told is not None
    assert describe_separate(told) == (
        "4 separate trainings with ray and lightning: no rank joined a group with others "
        "(give it devices; or --framework none if they are meant to be separate)"
    )
    assert describe_separate(replace(told, frameworks=(), cure="")) == (
        "4 separate trainings: no rank joined a group with others "
        "(--framework none if they are meant to be separate)"
    )
