from __future__ import annotations

import pytest

from console.sources.condition import Condition, condition_of, median_step
from launcher.state import Rank, RankPhase


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
    ],
)
def test_one_word_says_how_a_rank_is_doing(rank: Rank, expected: Condition) -> None:
    assert condition_of(rank, now=1000, median_step=100, step_s=1) == expected


def test_slow_steps_are_no_hang() -> None:
    rank = alive(step=3, reported_at=700)

    assert condition_of(rank, now=1000, median_step=3, step_s=60) is Condition.OK


def test_a_busy_device_does_not_hide_a_hang() -> None:
    rank = alive(step=3, reported_at=700, sampled_at=1000)

    assert condition_of(rank, now=1000, median_step=3, step_s=1) is Condition.HUNG


def test_there_is_no_median_before_the_first_step() -> None:
    assert median_step([Rank(rank=0)]) is None
    assert median_step([Rank(rank=0, step=4), Rank(rank=1), Rank(rank=2, step=8)]) == 6
