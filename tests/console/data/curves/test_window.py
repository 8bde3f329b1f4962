"""Columns of a plot, their smoothing, axes with their ticks, and the look: each against the simplest way."""

from __future__ import annotations

import math
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest

from console.data.curves.axes import Scale, fitting_scale, position_text, position_ticks, ticks
from console.data.curves.look import SMOOTHINGS, Interval, Look
from console.data.curves.run_curves import Axis
from console.data.curves.store import CurvePoints
from console.data.curves.window import Columns, Series, columns_of, series_of, smoothed

if TYPE_CHECKING:
    from numpy.typing import NDArray

NAN = math.nan


def series(xs: list[float], mids: list[float]) -> Series:
    low, mid, high = (np.array(mids, np.float64) for _ in range(3))
    return Series(np.array(xs, np.float64), low, mid, high, np.isnan(mid))


def points(attempt: list[int], step: list[int], value: list[float], width: int = 1) -> CurvePoints:
    column: NDArray[np.float64] = np.array(value, np.float64)
    steps = np.array(step, np.int64)
    times = np.linspace(1000.0, 999.0 + len(steps), len(steps))
    wide = np.full(len(steps), width)
    return CurvePoints(
        np.array(attempt, np.int64), steps, wide, times, column, column, column, np.isnan(column)
    )


def naive(given: Series, start: float, end: float, count: int) -> list[tuple[float, float, float, int, bool]]:
    """The columns, value by value."""
    found = []
    edges = np.linspace(start, end, count + 1)
    for at in range(count):
        inside = [
            i
            for i, x in enumerate(given.x)
            if edges[at] <= x < edges[at + 1] or (at == count - 1 and x == edges[at + 1])
        ]
        lows = [given.low[i] for i in inside if not math.isnan(given.low[i])]
        highs = [given.high[i] for i in inside if not math.isnan(given.high[i])]
        mids = [given.mid[i] for i in inside if math.isfinite(given.mid[i])]
        torn = len(mids) < len(inside)
        mid = math.fsum(m / len(mids) for m in mids) if mids and not torn else NAN
        found.append((min(lows, default=NAN), mid, max(highs, default=NAN), len(mids), torn))
    return found


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(40))
def test_columns_are_those_of_the_simplest_way(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([0, 1, 2, 50, 400])
    xs = sorted(chance.choice([chance.uniform(0, 100), float(chance.randrange(100))]) for _ in range(size))
    great = chance.choice([1.0, 1e308])
    values = [chance.choice([chance.gauss(0, 1) * great / 10, chance.random(), NAN]) for _ in xs]
    given = series(xs, values)
    start, end = chance.choice([(0, 100), (20, 30), (-50, 150), (99.5, 100)])
    count = chance.choice([1, 2, 7, 160])
    got = columns_of(given, start, end, count)
    expected = naive(given, start, end, count)
    columns = zip(*expected, strict=True)
    for have, want in zip((got.low, got.mid, got.high, got.counts, got.torn), columns, strict=True):
        np.testing.assert_allclose(np.asarray(have, float), want, rtol=1e-9, atol=1e-12 * great)


def test_columns_keep_every_peak() -> None:
    given = series([float(n) for n in range(10_000)], [1.0] * 10_000)
    given.high[1234] = 7.0
    shown = columns_of(given, 0, 9_999, 100)
    assert (7.0, 1) == (shown.high.max(), int((shown.high == 7.0).sum()))


def test_a_point_stands_in_the_middle_of_its_bucket() -> None:
    assert [1.5, 5.5] == series_of(points([0, 0], [0, 4], [1.0, 2.0], 4), Axis.STEP, 0.0).x.tolist()
    assert [0.0, 1.0] == series_of(points([0, 0], [0, 4], [1.0, 2.0], 4), Axis.TIME, 1000.0).x.tolist()


def test_what_a_later_attempt_repeats_is_left_out_over_steps_but_not_over_time() -> None:
    given = points([0, 0, 0, 0, 1, 1, 2], [0, 1, 2, 3, 2, 3, 3], [0.0, 1.0, 2.0, 3.0, 12.0, 13.0, 23.0])

    assert [0.0, 1.0, 12.0, 23.0] == series_of(given, Axis.STEP, 0.0).mid.tolist()
    assert 7 == len(series_of(given, Axis.TIME, 1000.0))
    assert 0 == len(series_of(points([], [], []), Axis.STEP, 0.0))


def test_smoothing_is_a_mean_weighted_by_points_and_fills_no_gap() -> None:
    mid = np.array([1.0, NAN, 3.0, 5.0, 100.0])
    counts = np.array([1, 0, 3, 1, 1])
    given = Columns(mid, mid, mid, counts, np.zeros(5, bool))

    assert given is smoothed(given, 0.0)
    np.testing.assert_allclose([1.0, NAN, 14 / 4, 114 / 5, 52.5], smoothed(given, 0.4).mid)
    assert given.high is smoothed(given, 0.4).high


@pytest.mark.parametrize("count", [1, 2, 5, 160])
@pytest.mark.parametrize("share", [s / 100 for s in SMOOTHINGS])
def test_smoothed_columns_are_as_many(count: int, share: float) -> None:
    given = columns_of(series([float(n) for n in range(9)], [2.0] * 9), 0, 8, count)
    mid = smoothed(given, share).mid
    assert count == len(mid)
    np.testing.assert_allclose(mid[np.isfinite(mid)], 2.0)


def test_huge_values_smooth_to_huge_values() -> None:
    given = columns_of(series([float(n) for n in range(90)], [1.5e308] * 90), 0, 89, 30)
    np.testing.assert_allclose(smoothed(given, 0.32).mid, 1.5e308)


SHOWN: tuple[list[float], ...] = (
    [], [NAN], [0.0], [5.0], [-5.0], [1e308, -1e308], [1.7e308], [5e-324], [5e-324, 1e-323], [1e-300, 1e300],
    [-1.0, 2.0], [1.0, 1.0 + 1e-15], [5e-324, 1.7e308],
)  # fmt: skip


# --- axes ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", SHOWN, ids=str)
def test_a_scale_shows_all_values_that_it_can(values: list[float], log: bool) -> None:
    scale = fitting_scale([np.array(values)], log=log)
    shown = [v for v in values if math.isfinite(v) and (v >= 1e-300 or not log)]

    assert scale.low < scale.high
    assert math.isfinite(scale.low)
    assert math.isfinite(scale.high)
    assert all(0 <= part <= 1 for part in scale.part(shown))
    for most in (1, 2, 5, 20):
        found = scale.ticks(most)
        assert all(math.isfinite(tick) for tick in found)
        assert len(found) <= most + 1


def test_ticks_are_round_and_inside() -> None:
    assert [0, 20, 40, 60, 80, 100] == [*ticks(0, 100, 6)]
    assert [0.25, 0.26, 0.27] == pytest.approx([*ticks(0.245, 0.272, 3)])
    assert [-1, -0.5, 0, 0.5, 1] == [*ticks(-1, 1, 4)]
    assert () == ticks(1, 1, 5) == ticks(0, NAN, 5) == ticks(2, 1, 5)


@pytest.mark.parametrize("seed", range(50))
def test_ticks_are_no_more_than_asked_for(seed: int) -> None:
    chance = random.Random(seed)
    low = chance.uniform(-1, 1) * 10.0 ** chance.randint(-30, 30)
    high = low + abs(low) * 10.0 ** chance.randint(-6, 6)
    most = chance.randint(1, 12)
    found = [*ticks(low, high, most)]
    assert len(found) <= most + 1
    assert all(low - abs(low) * 1e-6 <= tick <= high + abs(high) * 1e-6 for tick in found)


def test_a_logarithmic_axis_has_powers_of_ten_or_is_as_a_linear_one() -> None:
    assert [1e-3, 1e-2, 1e-1, 1.0] == pytest.approx([*Scale(0.9e-3, 2.0, log=True).ticks(5)])
    assert [2, 3, 4, 5] == [*Scale(1.5, 5.2, log=True).ticks(5)]
    np.testing.assert_allclose(
        [0.0, 0.5, 1.0, NAN], Scale(1.0, 100.0, log=True).part([1.0, 10.0, 100.0, 0.0])
    )


def test_positions_are_steps_or_times() -> None:
    assert [0, 20, 40] == [*position_ticks(Axis.STEP, 0, 50, 4)]
    assert [0, 3600, 7200] == [*position_ticks(Axis.TIME, 0, 7300, 4)]
    assert ["0s", "1h00m"] == [position_text(Axis.TIME, x) for x in (0.0, 3600.0)]


# --- the look --------------------------------------------------------------------------------------------

WHOLE = Interval(0.0, 100.0)


def test_zooming_goes_around_the_cursor_and_back_to_the_whole() -> None:
    look = Look().zoomed(WHOLE, 0.5)
    assert Interval(50.0, 100.0) == look.part
    assert Interval(25.0, 75.0) == Look(cursor=50.0).zoomed(WHOLE, 0.5).part
    assert None is look.zoomed(WHOLE, 2.0).part
    for _ in range(20):
        look = look.zoomed(WHOLE, 0.5)
    assert Interval(96.0, 100.0) == look.part


def test_panning_stops_at_the_ends() -> None:
    assert Look() == Look().panned(WHOLE, -1)
    look = Look(part=Interval(50.0, 100.0))
    assert Interval(37.5, 87.5) == look.panned(WHOLE, -0.25).part
    assert Interval(0.0, 50.0) == look.panned(WHOLE, -9).part
    assert Interval(50.0, 100.0) == look.panned(WHOLE, 9).part


def test_the_cursor_stays_in_the_whole_and_the_part_follows_it() -> None:
    look = Look(part=Interval(50.0, 100.0))
    assert (99.0, Interval(50.0, 100.0)) == ((moved := look.moved(WHOLE, -0.02)).cursor, moved.part)
    assert None is moved.moved(WHOLE, 0.02).cursor
    for _ in range(300):
        look = look.moved(WHOLE, -0.02)
    assert (0.0, Interval(0.0, 50.0)) == (look.cursor, look.part)
    assert 100.0 == look.at(WHOLE, 1e9).cursor


def test_smoothing_and_axes_have_ends() -> None:
    look = Look(part=WHOLE, cursor=3.0)
    for _ in range(20):
        look = look.smoothed(1)
    assert len(SMOOTHINGS) - 1 == look.smoothing
    assert 0 == look.smoothed(-99).smoothing
    assert (Axis.TIME, None, None) == ((other := look.along(Axis.TIME)).axis, other.part, other.cursor)
    assert look == look.scaled().scaled()


WHOLES = (Interval(2.0**62, 2.0**62), Interval(0.0, 1.0), Interval(-1e18, 1e18))


@pytest.mark.parametrize("whole", WHOLES, ids=str)
def test_an_odd_axis_raises_nothing(whole: Interval) -> None:
    chance, look = random.Random(4), Look()
    for _ in range(500):
        change = chance.choice(["zoomed", "panned", "moved"])
        by = chance.choice([0.5, 2.0]) if change == "zoomed" else chance.choice([-0.25, 0.01, 0.25])
        look = getattr(look, change)(whole, by)
        shown = look.visible(whole)
        assert whole.start <= shown.start <= shown.end <= whole.end
