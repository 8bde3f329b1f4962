from __future__ import annotations

import pytest

from console.data.run.health import Condition, condition_of, front_of
from launcher.state.ranks import Rank, RankPhase


def alive(**facts: float | int | str) -> Rank:
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
        (alive(step=100, reported_at=930, sampled_at=999, awaits_rows=0), Condition.WAITING),
        (alive(sampled_at=999, silent_since=950), Condition.SILENT),
        (alive(sampled_at=999, silent_since=930, hung=True), Condition.HUNG),
        (alive(sampled_at=999, silent_since=930, waits=True), Condition.WAITING),
        (alive(sampled_at=999, silent_since=930, hung=True, paused="pdb"), Condition.PAUSED),
        (alive(step=98, reported_at=900, sampled_at=999, silent_since=930), Condition.BEHIND),
        (Rank(rank=0, phase=RankPhase.STOPPED, hung=True), Condition.STOPPED),
        (Rank(rank=0, phase=RankPhase.SUCCEEDED, awaits_rows=0), Condition.DONE),
    ],
)
def test_one_word_says_how_a_rank_is_doing(rank: Rank, expected: Condition) -> None:
    assert condition_of(rank, now=1000, front=100, step_s=1) == expected


def test_slow_steps_are_nothing_bad() -> None:
    rank = alive(step=3, reported_at=700)

    assert condition_of(rank, now=1000, front=3, step_s=60) is Condition.OK


def test_there_is_no_front_before_the_first_step_and_the_ended_count() -> None:
    assert front_of([Rank(rank=0)]) is None
    assert 8 == front_of([Rank(rank=0, step=4), Rank(1), Rank(2, phase=RankPhase.SUCCEEDED, step=8)])
