"""Which reports go to trackers, under which steps and names."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from launcher.state.events import RankReported
from launcher.tracking.follower import newest_first
from launcher.tracking.mlflow import MetricNames
from launcher.tracking.reports import PATIENCE_S, Leader, Point


def report(
    rank: int, time: float, step: int | None = None, attempt: int = 0, **metrics: float
) -> RankReported:
    return RankReported(
        time=time, rank=rank, step=step, attempt=attempt, metrics=metrics or {"loss": float(rank)}
    )


def seen(points: list[Point]) -> list[tuple[float, int]]:
    return [(point.value, point.step) for point in points]


def test_rank_0_leads_from_its_first_report() -> None:
    leader = Leader()

    assert [] == leader.choose([report(1, 0.0, 1)])
    assert [(0.0, 1), (0.0, 2)] == seen(
        leader.choose([report(0, 0.1, 1), report(1, 0.2, 2), report(0, 0.3, 2)])
    )
    assert [] == leader.rest()


def test_a_higher_rank_leads_once_no_lower_one_has_reported_for_a_while() -> None:
    leader = Leader()

    assert [] == leader.choose([report(3, 0.0, 1), report(2, 1.0, 1), report(3, 2.0, 2)])
    assert [(2.0, 1), (2.0, 9)] == seen(leader.choose([report(2, PATIENCE_S, 9), report(3, 9.0, 9)]))
    assert [(0.0, 10)] == seen(leader.choose([report(0, 20.0, 10), report(2, 21.0, 10)]))


def test_what_still_waits_at_the_end_is_not_lost() -> None:
    leader = Leader()

    assert [] == leader.choose([report(1, 0.0, 1), report(1, 0.1, 2)])
    assert [(1.0, 1), (1.0, 2)] == seen(leader.rest())
    assert [] == leader.rest()


def test_each_attempt_has_its_own_leader_and_late_reports_of_the_last_one_are_left_out() -> None:
    leader = Leader()
    first = leader.choose([report(0, 0.0, 7)])
    second = leader.choose([report(1, 1.0, 5, 1), report(0, 2.0, 8, 0), report(0, 2.1, 5, 1)])

    assert [(0.0, 7)] == seen(first)
    assert [(0.0, 5)] == seen(second)
    assert [0, 1] == [point.attempt for point in (*first, *second)]


def test_a_report_without_a_step_has_the_last_one_or_is_counted() -> None:
    assert [0, 1, 2] == [s for _, s in seen(Leader().choose(report(0, float(t)) for t in range(3)))]
    leader = Leader()
    steps = [None, 5, None, 6, None]
    found = leader.choose(report(0, float(t), step) for t, step in enumerate(steps))
    assert [0, 5, 5, 6, 6] == [s for _, s in seen(found)]


def test_the_last_point_of_each_metric_comes_first_where_there_may_be_no_time_for_all() -> None:
    points = [Point(name, float(step), step, 0.0) for step in range(3) for name in ("a", "b")]
    found = newest_first(points)

    assert [("a", 2), ("b", 2)] == [(point.name, point.step) for point in found[:2]]
    assert sorted(points, key=id) == sorted(found, key=id)


def test_names_that_mlflow_allows_stay() -> None:
    names = MetricNames()
    for name in ("loss", "val/loss", "a b", "a.b-c_d", "Verlust-ä"):
        assert name == names.of(name)


def test_other_names_are_mapped_and_stay_apart() -> None:
    names = MetricNames()

    assert ["a_", "a__2", "a_", "_/x", "_", "a/_/b"] == [
        names.of(name) for name in ("a#", "a?", "a#", "../x", "", "a//b")
    ]


@given(st.lists(st.text(max_size=300), unique=True, max_size=30))
def test_any_names_become_allowed_names_that_differ(given_names: list[str]) -> None:
    names = MetricNames()
    found = [names.of(name) for name in given_names]

    assert len(set(found)) == len(given_names)
    for name in found:
        assert re.fullmatch(r"[/\w.\- ]+", name)
        assert len(name) <= 250
        assert all(part not in ("", ".", "..") for part in name.split("/"))
