"""What all ranks do together, second by second."""

from __future__ import annotations

from console.data.run.figures import HISTORY, Charted, Figures, GangAverages, charted
from console.data.run.metrics import CPU, TEMPERATURE, UTIL, Metric


def reading(use: float | None = None, cpu: float | None = None, heat: float | None = None) -> Charted:
    told: list[tuple[Metric, float | None]] = [(UTIL, use), (CPU, cpu), (TEMPERATURE, heat)]
    return charted(Figures({metric: amount for metric, amount in told if amount is not None}))


def test_the_mean_over_all_ranks_is_taken_second_by_second_also_of_hosts_that_tell_apart() -> None:
    course = GangAverages()
    course.sampled(10.1, [reading(use=90.0), reading(use=70.0)])
    course.sampled(10.9, [reading(use=20.0)])
    course.sampled(11.2, [reading(use=50.0)])

    assert course.means == {UTIL: (60.0, 50.0)}


def test_of_temperatures_it_is_the_highest() -> None:
    course = GangAverages()
    course.sampled(10.0, [reading(heat=60.0), reading(heat=80.0), reading(heat=70.0)])

    assert course.means == {TEMPERATURE: (80.0,)}


def test_what_is_unknown_counts_for_nothing() -> None:
    course = GangAverages()
    course.sampled(10.0, [reading(use=90.0, cpu=None), reading(use=None, cpu=40.0)])
    course.sampled(11.0, [reading(cpu=60.0)])

    assert course.means == {UTIL: (90.0,), CPU: (40.0, 60.0)}


def test_a_host_that_tells_late_belongs_to_its_own_second() -> None:
    course = GangAverages()
    course.sampled(11.0, [reading(use=10.0)])
    course.sampled(10.0, [reading(use=80.0)])
    course.sampled(11.5, [reading(use=30.0)])

    assert (80.0, 20.0) == course.means[UTIL]


def test_only_the_last_seconds_are_kept() -> None:
    course = GangAverages()
    for second in range(HISTORY + 30):
        course.sampled(float(second), [reading(use=float(second))])

    assert tuple(map(float, range(30, HISTORY + 30))) == course.means[UTIL]


def test_nothing_is_known_at_first() -> None:
    assert GangAverages().means == {}


def test_the_course_is_made_anew_only_after_a_sample() -> None:
    course = GangAverages()
    course.sampled(10.0, [reading(use=90.0)])
    before = course.means

    assert course.means is before
    course.sampled(11.0, [reading(use=80.0)])
    assert course.means is not before
