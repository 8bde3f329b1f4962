from __future__ import annotations

from dataclasses import replace

import pytest

from console.data.run.health import Condition, condition_of, front_of, signs_of_life, silent_after
from launcher.state.ranks import Rank, RankPhase


def alive(**facts: float | int) -> Rank:
    return Rank(rank=0, phase=RankPhase.RUNNING, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rank", "expected"),
    [
        (Rank(rank=0), Condition.WAITING),
        (Rank(rank=0, phase=RankPhase.SUCCEEDED), Condition.DONE),
        (Rank(rank=0, phase=RankPhase.FAILED), Condition.FAILED),
        (Rank(rank=0, phase=RankPhase.STOPPED), Condition.STOPPED),
        (Rank(rank=0, phase=RankPhase.LOST), Condition.LOST),
        (alive(), Condition.OK),
        (alive(step=100, reported_at=999, sampled_at=999), Condition.OK),
        (alive(step=98, reported_at=999, sampled_at=999), Condition.OK),
        (alive(step=98, reported_at=994, sampled_at=999), Condition.BEHIND),
        (alive(step=100, reported_at=999, sampled_at=980), Condition.STALE),
        (alive(step=100, reported_at=930, sampled_at=999), Condition.HUNG),
        (alive(step=100, reported_at=930, sampled_at=999, awaits_rows=0), Condition.WAITING),
        (Rank(rank=0, phase=RankPhase.SUCCEEDED, awaits_rows=0), Condition.DONE),
    ],
)
def test_one_word_says_how_a_rank_is_doing(rank: Rank, expected: Condition) -> None:
    assert condition_of(rank, now=1000, front=100, step_s=1) == expected


def test_slow_steps_are_no_hang() -> None:
    rank = alive(step=3, reported_at=700)

    assert condition_of(rank, now=1000, front=3, step_s=60) is Condition.OK


def test_a_busy_device_does_not_hide_a_hang() -> None:
    rank = alive(step=3, reported_at=700, sampled_at=1000)

    assert condition_of(rank, now=1000, front=3, step_s=1) is Condition.HUNG


def test_there_is_no_front_before_the_first_step_and_the_ended_count() -> None:
    assert front_of([Rank(rank=0)]) is None
    assert 8 == front_of([Rank(rank=0, step=4), Rank(1), Rank(2, phase=RankPhase.SUCCEEDED, step=8)])


def test_a_rank_is_silent_by_the_runs_own_pace_and_limit() -> None:
    known = (None, None), (0.1, None), (10.0, None), (None, 10.0), (0.1, 300.0)
    assert [None, 20.0, 80.0, 5.0, 20.0] == [silent_after(*each) for each in known]
    rank = alive(step=3, reported_at=975, sampled_at=999)
    assert condition_of(rank, now=1000, front=3, step_s=1, silent=True) is Condition.SILENT
    assert condition_of(rank, now=1000, front=9, step_s=1, silent=True) is Condition.BEHIND


def test_ranks_that_tell_no_steps_live_with_those_that_do() -> None:
    ranks = [alive(step=3, reported_at=900.0), replace(alive(started=1.0), rank=1), Rank(rank=2)]
    assert [900.0, 950.0, 950.0] == signs_of_life(ranks, {1: 950.0})
    assert [960.0, 960.0, 960.0] == signs_of_life(ranks, {0: 960.0})
    assert [None] == signs_of_life([Rank(rank=0)], {})
