"""Places against a naive reference: all rows of all lines, one after the other."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from console.ui.logs import view

HEIGHTS = st.lists(st.integers(1, 4), min_size=1, max_size=12)


def all_rows(heights: list[int]) -> list[view.Place]:
    return [(line, row) for line, height in enumerate(heights) for row in range(height)]


@given(HEIGHTS, st.integers(0, 50), st.integers(1, 9))
def test_a_page_is_a_stretch_of_all_rows(heights: list[int], at: int, height: int) -> None:
    rows = all_rows(heights)
    at = min(at, len(rows) - 1)
    assert rows[at : at + height] == view.page(rows[at], height, len(heights), heights.__getitem__)


@given(HEIGHTS, st.integers(0, 50), st.integers(-60, 60))
def test_moving_goes_along_the_rows_and_not_beyond(heights: list[int], at: int, by: int) -> None:
    rows = all_rows(heights)
    at = min(at, len(rows) - 1)
    wanted = rows[min(max(at + by, 0), len(rows) - 1)]
    assert wanted == view.moved(rows[at], by, len(heights), heights.__getitem__)


@given(HEIGHTS, st.integers(1, 9))
def test_the_end_shows_the_last_rows(heights: list[int], height: int) -> None:
    rows = all_rows(heights)
    top = view.end(height, len(heights), heights.__getitem__)
    assert rows[-height:] == view.page(top, height, len(heights), heights.__getitem__)


def test_no_lines_have_no_rows() -> None:
    assert (0, 0) == view.end(5, 0, lambda line: 1)
    assert [] == view.page((0, 0), 5, 0, lambda line: 1)
