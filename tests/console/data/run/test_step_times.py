from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.data.run.step_times import Paces, StepTimes, behind, furthest_behind, percentile, step_times


def told(paces: Paces, rank: int, *steps: tuple[int, float]) -> list[float | None]:
    return [paces.reported(rank, step, time) for step, time in steps]


def test_a_pace_is_the_time_between_two_reports_of_one_rank() -> None:
    paces = Paces()

    assert [None, 0.5, 0.1] == told(paces, 0, (10, 1.0), (12, 2.0), (22, 3.0))
    assert [None] == told(paces, 1, (22, 3.5)), "another rank's report says nothing of this one's pace"


def test_what_goes_back_or_stands_still_has_no_pace() -> None:
    assert [None, None, None, None] == told(Paces(), 0, (5, 1.0), (5, 2.0), (4, 3.0), (6, 3.0))


def test_the_worst_step_and_the_slowest_rank_are_named() -> None:
    paces = {0: [1.0] * 50, 1: [1.0] * 9 + [9.0], 2: [1.5] * 10}

    assert StepTimes(1.0, 9.0, 9.0, 1, 2, 1.5) == step_times(paces)


def test_nothing_is_said_before_a_second_report() -> None:
    paces = Paces()
    told(paces, 0, (1, 1.0))

    assert paces.times() is None
    assert step_times({0: []}) is None


def test_one_step_of_a_hundred_is_what_p99_leaves_out() -> None:
    paces = {rank: [1.0] for rank in range(99)} | {99: [7.0]}
    times = step_times(paces)

    assert times is not None
    assert (1.0, 1.0, 7.0, 99) == (times.p50, times.p99, times.most, times.most_rank)


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_a_percentile_is_a_value_that_enough_of_them_do_not_exceed(values: list[float], share: float) -> None:
    ordered = sorted(values)
    found = percentile(ordered, share)

    assert sum(value <= found for value in values) >= share * len(values)
    below = [value for value in values if value < found]
    assert len(below) < share * len(values)


def test_of_very_many_ranks_the_last_paces_count() -> None:
    paces = {rank: [9.0] * 28 + [1.0] * 4 for rank in range(4096)}
    times = step_times(paces)

    assert times is not None
    assert (1.0, 1.0) == (times.p50, times.most)


def test_how_far_the_last_rank_is_behind_is_kept_once_a_second() -> None:
    paces = Paces()
    told(paces, 0, (10, 1.0))
    told(paces, 1, (8, 1.2))
    told(paces, 2, (2, 1.4))
    assert not paces.lags, "nobody is behind in the first second: one rank had spoken"
    told(paces, 0, (20, 2.0))
    told(paces, 1, (18, 2.2))
    told(paces, 0, (30, 3.0))

    assert (6.0, 16.0) == paces.lags


def test_a_rank_that_reports_no_step_is_not_behind() -> None:
    paces = Paces()
    told(paces, 0, (10, 1.0), (20, 3.0))
    told(paces, 1, (4, 3.5), (5, 5.0))

    assert paces.lag(7) is None
    assert (0.0, 15.0) == (paces.lag(0), paces.lag(1))


def test_ranks_that_only_report_at_different_moments_are_not_behind() -> None:
    assert [0.0, 0.0, 3.0] == [behind(10 - n, 10, 1.0) for n in (0, 1, 3)]
    paces = Paces()
    told(paces, 0, *((n, n / 100) for n in range(200)))
    assert 51.0 == round(paces.skew)
    told(paces, 0, (500, 9.0), (1000, 14.0), (1500, 19.0))
    assert 500.0 == paces.skew
    assert behind(None, 10, 1.0) is None
    assert behind(10, None, 1.0) is None


def test_the_rank_that_is_furthest_behind() -> None:
    assert (2, 7.0) == furthest_behind([(0, 0.0), (1, None), (2, 7.0), (3, 7.0)])
    assert furthest_behind([(0, 0.0), (1, None)]) is None
