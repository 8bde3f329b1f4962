"""The state at a moment is the fold of the facts up to then, however the states between are kept."""

from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from console.data.travel.course import Clock, Course, state_at
from console.demo import record_demo
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from launcher.state.fold import fold_all


def recorded(root: Path, **how: object) -> list[ev.Event]:
    return FactTail(record_demo(root, **how), samples=True).poll()  # type: ignore[arg-type]


@pytest.mark.parametrize("fail", [False, True])
def test_it_is_the_fold_of_the_prefix_at_every_moment(root: Path, fail: bool) -> None:
    facts, chance = recorded(root, seconds=20, fail=fail), random.Random(7)
    clock, course = Clock(), Course(every=16, most=8)
    course.add(clock.date(fact) for fact in facts)
    begin, end = facts[0].time, facts[-1].time

    for _ in range(60):
        moment = chance.uniform(begin - 1, end + 1)
        expected = fold_all(fact for fact in facts if fact.time <= moment)
        assert course.state_at(moment) == expected
        assert state_at(facts, moment) == expected


def test_few_states_are_kept_of_many_facts() -> None:
    course = Course(every=4, most=8)
    clock = Clock()
    course.add(clock.date(ev.MessageLogged(time=float(n), rank=0, text=str(n))) for n in range(100_000))

    assert course.state_at(99_999.0) == fold_all([])
    assert len(course._kept) <= 9
    assert course.count(500.5) == 501


def test_a_clock_that_goes_back_takes_no_fact_away() -> None:
    told = [
        ev.RunSubmitted(time=100.0, name="a", target="t", mode="local", num_processes=1),
        ev.SlotsAwaited(time=40.0, have=0, need=1),
        ev.RunEnded(time=90.0, state="failed", exit_code=3, why="so"),
    ]

    assert state_at(told, 99.0) == fold_all([])
    assert state_at(told, 100.0) == fold_all(told)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, 1e18])
def test_a_time_in_the_future_hides_nothing_that_follows(wrong: float) -> None:
    clock = Clock(latest=1000.0)
    facts = [ev.NoteMade(time=time, text="x") for time in (10.0, wrong, 20.0)]

    assert [clock.date(fact).moment for fact in facts] == [10.0, 10.0, 20.0]


def test_without_facts_there_is_an_empty_state() -> None:
    assert state_at([], 5.0, run="r") == fold_all([], run="r")
