"""Points of curves: of all ranks together, of bounded number however ranks report, and no value is lost."""

from __future__ import annotations

import math
import random
from statistics import median

import pytest

from launcher.state.curves import (
    LARGEST_ATTEMPT,
    LARGEST_STEP,
    MOST_METRICS,
    NEW_POINTS,
    OPEN_POINTS,
    OPEN_VALUES,
    UNREAD_POINTS,
    CurveBuilder,
    CurvePoint,
)
from launcher.state.events import RankReported


def report(
    step: int | None, rank: int = 0, *, at: float = 1000.0, attempt: int = 0, **metrics: float
) -> RankReported:
    return RankReported(time=at, rank=rank, attempt=attempt, step=step, metrics=metrics)


def named(step: int, metrics: dict[str, float]) -> RankReported:
    return RankReported(time=1000.0 + step, rank=0, step=step, metrics=metrics)


def last(points: list[CurvePoint]) -> dict[tuple[object, ...], CurvePoint]:
    """The points as a reader takes them: the last one of each part of a bucket."""
    return {(p.metric, p.stepless, p.attempt, p.level, p.step, p.part): p for p in points}


def test_a_point_has_the_least_the_median_and_the_greatest_of_all_ranks() -> None:
    builder = CurveBuilder()
    for rank, loss in enumerate([5.0, 1.0, 9.0]):
        builder.take(report(7, rank, at=1000.0 + rank, loss=loss))

    (point,) = builder.changed()

    assert CurvePoint("loss", 0, 7, 0, 1000.0, 1.0, 5.0, 9.0, 3) == point
    assert [] == list(builder.changed())


def test_a_late_rank_is_added_to_the_point_that_there_was() -> None:
    builder = CurveBuilder()
    builder.take(report(7, 0, loss=1.0))
    assert 1 == len(list(builder.changed()))
    builder.take(report(7, 1, loss=3.0))

    (point,) = builder.changed()

    assert (1.0, 2.0, 3.0, 2, 0) == (point.low, point.mid, point.high, point.ranks, point.part)


def test_a_rank_that_is_too_late_replaces_no_point() -> None:
    builder, points = CurveBuilder(), list[CurvePoint]()
    for begin in (0, 50, 100):
        for step in range(begin, begin + 50):
            for rank in range(7):
                builder.take(report(step, rank, loss=10.0))
        points += builder.changed()
    for step in range(4, 8):
        builder.take(report(step, 7, loss=20.0))
    points += builder.changed()

    of_step_5 = [p for p in last(points).values() if p.step == 5]

    assert [(7, 10.0, 10.0, False), (1, 20.0, 20.0, True)] == [
        (p.ranks, p.low, p.high, p.part > 0) for p in of_step_5
    ]


def test_fast_ranks_get_wider_points_and_no_peak_is_lost() -> None:
    builder, points, chance = CurveBuilder(), list[CurvePoint](), random.Random(1)
    low, high = math.inf, -math.inf
    for second in range(30):
        for step in range(second * 1000, second * 1000 + 1000):
            value = chance.gauss(0, 1)
            low, high = min(low, value), max(high, value)
            builder.take(report(step, at=1000.0 + second, loss=value))
        got = list(builder.changed())
        points += got
        assert len(got) <= NEW_POINTS + OPEN_POINTS

    assert (low, high) == (min(p.low for p in points), max(p.high for p in points))
    assert {4} == {p.level for p in points[-NEW_POINTS:]}
    assert all(p.step % (1 << p.level) == 0 for p in points)


def test_ranks_that_report_at_different_steps_share_points() -> None:
    builder = CurveBuilder()
    for second in range(10):
        for rank in range(8):
            for part in range(5):
                builder.take(report(second * 200 + part * 40 + rank * 5, rank, loss=float(rank)))
        points = [*builder.changed()]

    assert sum(p.ranks for p in points) / len(points) >= 4


def test_slow_ranks_keep_a_point_a_step() -> None:
    builder = CurveBuilder()
    for step in range(500):
        builder.take(report(step, loss=1.0))
        (point,) = builder.changed()
        assert (step, 0) == (point.step, point.level)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_value_that_is_not_finite_is_a_mark_and_no_figure(value: float) -> None:
    builder = CurveBuilder()
    builder.take(report(1, 0, loss=value))
    builder.take(report(1, 1, loss=2.0))
    builder.take(report(2, 0, loss=value))

    mixed, alone = builder.changed()

    assert (2.0, 2.0, 2.0, 2, True) == (mixed.low, mixed.mid, mixed.high, mixed.ranks, mixed.broken)
    assert alone.broken
    assert all(math.isnan(v) for v in (alone.low, alone.mid, alone.high))


def test_a_restart_begins_anew_and_forgets_nothing() -> None:
    builder = CurveBuilder()
    builder.take(report(9, loss=1.0))
    builder.take(report(4, attempt=1, loss=2.0))
    builder.take(report(10, attempt=0, loss=3.0))  # of a rank that is gone

    assert [(0, 9, 1.0), (1, 4, 2.0)] == [(p.attempt, p.step, p.mid) for p in builder.changed()]


def test_steps_may_go_backwards() -> None:
    builder = CurveBuilder()
    for step in (5, 3, 4, 3, -2):
        builder.take(report(step, loss=float(step)))

    assert [-2, 3, 4, 5] == [p.step for p in builder.changed()]


def test_reports_without_steps_are_points_of_seconds_beside_those_with_steps() -> None:
    builder = CurveBuilder()
    builder.take(report(None, at=1000.2, loss=1.0))
    builder.take(report(None, at=1000.9, loss=3.0))
    builder.take(report(4, at=1001.0, loss=2.0))

    assert [(True, 1000, 1.0, 3.0), (False, 4, 2.0, 2.0)] == [
        (p.stepless, p.step, p.low, p.high) for p in builder.changed()
    ]


def test_only_so_many_metrics_are_kept() -> None:
    builder = CurveBuilder()
    for number in range(MOST_METRICS + 40):
        builder.take(named(1, {f"m{number:03d}": 1.0}))
    builder.take(report(2, m000=1.0, m299=1.0))

    assert {f"m{number:03d}" for number in range(MOST_METRICS)} == {p.metric for p in builder.changed()}


def test_a_name_without_end_is_left_out() -> None:
    builder = CurveBuilder()
    builder.take(named(1, {"x" * 16_384: 1.0, "loss": 2.0}))

    assert ["loss"] == [p.metric for p in builder.changed()]


@pytest.mark.parametrize(
    "broken",
    [
        report(LARGEST_STEP + 1, loss=1.0),
        report(-LARGEST_STEP - 1, loss=1.0),
        report(10**30, loss=1.0),
        report(1, attempt=LARGEST_ATTEMPT + 1, loss=1.0),
        report(None, at=math.inf, loss=1.0),
        report(None, at=math.nan, loss=1.0),
    ],
    ids=str,
)
def test_what_no_rank_in_order_reports_is_left_out(broken: RankReported) -> None:
    builder = CurveBuilder()
    builder.take(broken)
    builder.take(report(1, loss=2.0))

    assert [(1, 2.0)] == [(p.step, p.mid) for p in builder.changed()]


def test_8192_ranks_take_bounded_memory() -> None:
    builder = CurveBuilder()
    for step in range(20):
        for rank in range(8192):
            builder.take(report(step, rank, loss=float(rank)))
        points = [*builder.changed()]
        assert 8192 == points[-1].ranks
        assert median(range(8192)) == points[-1].mid
    (curve,) = builder._curves.values()

    assert sum(len(bucket.last) for bucket in curve.open.values()) == curve.values <= OPEN_VALUES


def test_reports_that_nobody_asks_for_take_bounded_memory() -> None:
    builder = CurveBuilder()
    for step in range(50_000):
        builder.take(report(step, loss=float(step)))
    (curve,) = builder._curves.values()
    assert len(curve.open) <= UNREAD_POINTS + NEW_POINTS

    points = [*builder.changed()]

    assert (0.0, 49_999.0) == (min(p.low for p in points), max(p.high for p in points))


def test_many_metrics_share_the_rate_of_points() -> None:
    builder = CurveBuilder()
    for step in range(40):
        builder.take(named(step, {f"m{number}": 1.0 for number in range(256)}))

    assert len(list(builder.changed())) <= 1024
