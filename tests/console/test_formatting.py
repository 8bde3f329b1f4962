"""How figures are written, whatever stands in their place."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from console import formatting as fig
from console.formatting import UNKNOWN, compact, count, duration, is_finite, metric, share
from console.ui.widgets.plots import plot_rows

NUMBERS = st.one_of(
    st.floats(),
    st.integers(),
    st.sampled_from([10**400, -(10**400), -0.0, 5e-324, 1e308, -1e308, math.nan, math.inf, True]),
)


@pytest.mark.parametrize(
    ("value", "text", "short"),
    [
        (12_860.0, "12,860", "12.9k"),
        (12_860.4, "12,860", "12.9k"),
        (1.286e6, "1,286,000", "1.29M"),
        (2.0522, "2.052", "2.05"),
        (0.0001575, "0.0001575", "1.6e-04"),
        (1e-5, "1e-05", "1e-05"),
        (999.96, "1,000", "1000"),
        (123_456_789, "123,456,789", "123M"),
        (1e308, "1e+308", "1.0e+308"),
        (10**400, "1.000e+400", "1.000e+400"),
        (5e-324, "4.941e-324", "4.9e-324"),
        (-0.0, "0", "0"),
        (math.nan, "nan", "nan"),
        (-math.inf, "-inf", "-inf"),
    ],
)
def test_a_figure_is_written_so_that_one_sees_it_move(value: float, text: str, short: str) -> None:
    assert text == metric(value)
    assert short == compact(value)


def test_two_figures_are_compared_with_more_digits() -> None:
    assert ["12,564.6", "2.01234", "1,000"] == [metric(v, 6) for v in (12_564.63, 2.012341, 1000.0)]


def test_what_is_no_number_at_all_is_written_as_it_is() -> None:
    assert ["True", "None", "a b"] == [metric(v) for v in (True, None, "a\nb")]


@given(NUMBERS)
def test_no_number_fails_or_takes_more_room_than_there_is(value: float) -> None:
    assert len(metric(value)) <= 17
    assert len(compact(value)) <= 11
    assert count(value if is_finite(value) else None)
    assert duration(value)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, UNKNOWN), (math.inf, UNKNOWN), (-3.0, "0ms"), (9.94, "9.9s"), (9.96, "10s"), (59.97, "1m00s")],
)
def test_a_duration_goes_from_one_unit_to_the_next(seconds: float | None, text: str) -> None:
    assert text == duration(seconds)


def test_a_place_between_two_ends_is_none_where_they_are_one() -> None:
    assert share(1.0, 1.0, 1.0) is None
    assert [0.0, 0.5, 1.0] == [share(v, -1e308, 1e308) for v in (-1e308, 0.0, 1e308)]


@given(st.lists(NUMBERS, max_size=40), st.integers(0, 30))
def test_no_course_fails_to_be_drawn(values: list[float], width: int) -> None:
    assert width == len(fig.curve(values, width))
    assert width == len(fig.strip(values, width))
    assert 4 == len(plot_rows("x", values, 40, 4))


def test_an_infinity_is_a_gap_and_the_rest_keeps_its_scale() -> None:
    assert "▁ █ █" == fig.curve([1.0, math.inf, 2.0, math.nan, 2.0], 5)
    assert "▁ ▆ ▆" == fig.curve([1.0, math.inf, 2.0, math.nan, 2.0], 5, low=True)
    (_, last, _), *drawn = plot_rows("loss", [1.0, 2.0, math.inf], 40, 4)
    assert ("inf", fig.NOT_FINITE) == last
    assert "2┤" in drawn[0][0][0]
    assert "1┤" in drawn[-1][0][0]
