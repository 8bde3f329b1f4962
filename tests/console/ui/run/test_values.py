"""Returned values by their shape, and curves."""

from __future__ import annotations

import math

import pytest

from console.ui.run.result import MOST_ROWS, is_course, is_table, scalar, structured, value_rows
from console.ui.widgets.plots import braille, plot_rows
from console.ui.widgets.rows import Row, differing


def lines(rows: list[Row]) -> list[str]:
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_a_nested_value_is_a_tree() -> None:
    value = {"loss": 0.25, "best": {"epoch": 3, "of": []}, "tags": ["a", None]}

    assert lines(value_rows(value, 80)) == [
        "  loss  0.25",
        "  best  2",
        "    epoch  3",
        "    of  []",
        "  tags  2",
        "    0  a",
        "    1  null",
    ]


def test_a_list_of_objects_is_a_table() -> None:
    value = [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "accuracy": True}]

    assert is_table(value)
    assert lines(value_rows(value, 80)) == [
        "  epoch  loss  accuracy",
        "  1      0.5",
        "  2            true",
    ]


def test_a_history_of_figures_is_a_curve() -> None:
    rows = lines(value_rows({"loss": [1 / n for n in range(1, 50)]}, 40))

    assert rows[0].split() == ["loss", "0.02041"]
    assert rows[1].lstrip().startswith("1┤⡇") or "⠈" in rows[1] or "⠉" in rows[1]
    assert len(rows) == 5


@pytest.mark.parametrize(
    "value", [[1, 2], [True] * 20, ["a"] * 20, list(range(7)), [10**400] * 9, [math.inf] * 9, {}]
)
def test_what_is_no_history(value: object) -> None:
    assert not is_course(value)


@pytest.mark.parametrize(("value", "so"), [({"a": 1}, False), ([1, 2], False), ({"a": {"b": 1}}, True)])
def test_only_what_one_line_would_hide_is_shown_in_full(value: object, so: bool) -> None:
    assert structured(value) is so


def test_whatever_comes_is_bounded() -> None:
    deep: object = 1
    for _ in range(2000):
        deep = {"x" * 5000: deep}

    assert len(value_rows([{"a": {}}] * 10_000, 80)) == MOST_ROWS + 1
    assert len(value_rows([{"a": 1}] * 10_000, 80)) == MOST_ROWS + 1
    assert len(lines(value_rows({"k" * 9999: "v" * 9999}, 80))[0]) < 500
    assert "too deep" in scalar(deep)
    assert len(value_rows(deep, 80)) < 20


def test_curves_reach_from_edge_to_edge() -> None:
    drawn = braille([0.0, 1.0, 2.0, 3.0], 2, 1, 0.0, 3.0)

    assert len(drawn) == 1
    assert drawn[0][0] != drawn[0][1] != "\u2800"
    assert braille([], 3, 2, 0.0, 1.0) == ["\u2800" * 3] * 2
    assert braille([math.nan, math.nan], 1, 1, 0.0, 1.0) == ["\u2800"]


def test_a_fixed_scale_leaves_a_steady_line_steady() -> None:
    rows = lines(plot_rows("GPU %", [97.0, 98.0] * 20, 40, 5, scale=(0.0, 100.0)))

    assert rows[0] == " GPU % 98"
    assert "\u28ff" not in rows[1]
    assert set(rows[-1].split("┤")[1]) <= {"\u2800"}


def test_only_the_cells_that_differ_are_painted_again() -> None:
    assert differing((("abc", ""), ("def", "")), (("abc", ""), ("dxf", ""))) == (4, 5)
    assert differing((("abc", ""),), (("abc", "bold"),)) == (0, 3)
    assert differing((("日本", ""),), (("日中", ""),)) == (2, 4)
    assert differing((("ab", ""),), (("abc", ""),)) == (2, 3)
