"""Plots as characters: a line, a band, a gap, a cursor, marks, axes; and nothing that a plot cannot bear."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from console.data.curves.axes import Scale
from console.data.curves.run_curves import Axis
from console.data.curves.window import Columns, Series, columns_of
from console.glyphs import ascii_text
from console.ui.curves.canvas import BAND, Bands, Canvas, Layer
from console.ui.curves.plot import LABELS, Drawn, Mark, Plot, cell_of, plot_rows, reading_at
from console.ui.curves.sheet import _MARKS
from console.ui.widgets.rows import Row, width_of

NAN = math.nan


def text(rows: Sequence[Row]) -> list[str]:
    return ["".join(span for span, _ in row).rstrip() for row in rows]


def columns(mids: list[float], spread: float = 0.0, torn: Sequence[int] = ()) -> Columns:
    mid = np.array(mids, np.float64)
    flags = np.isin(np.arange(len(mid)), torn)
    return Columns(mid - spread, mid, mid + spread, np.isfinite(mid).astype(np.int64), flags)


def drawn(
    given: Columns, height: int, *, high: float, band: bool = False, bands: Bands = Bands.COLOURED
) -> list[str]:
    canvas = Canvas(len(given.mid) // 2, height, Scale(0, high), bands=bands)
    canvas.draw(Layer(given, "bar", band))
    return text(canvas.rows())


def series(mids: Sequence[float], spread: float = 0.0) -> Series:
    mid = np.array(mids, np.float64)
    return Series(np.arange(len(mid)).astype(float), mid - spread, mid, mid + spread, np.isnan(mid))


def plot(
    mids: Sequence[float], *, width: int = 30, height: int = 8, spread: float = 0.0, **known: object
) -> list[Row]:
    one = Drawn("", series(mids, spread), "bar", band=True)
    fields: dict[str, object] = {"drawn": [one], "axis": Axis.STEP, "start": 0.0, "end": len(mids) - 1.0}
    return plot_rows(Plot("loss", **(fields | known)), width, height)  # type: ignore[arg-type]


def test_a_line_goes_through_its_columns() -> None:
    assert [" ⢀⠔", "⡠⠊"] == drawn(columns([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]), 2, high=6)


def test_columns_without_points_are_bridged_but_a_broken_value_tears_the_line() -> None:
    given = [0.5, NAN, NAN, NAN, NAN, 0.5]

    assert ["⠒⠒⠒"] == drawn(columns(given), 1, high=1.0)
    (torn,) = drawn(columns(given, torn=[2]), 1, high=1.0)
    assert " " == torn[1]
    assert 3 == len(torn)
    assert ["", ""] == drawn(columns([NAN] * 6, torn=[2]), 2, high=1.0)


def test_a_band_is_a_background_or_a_texture() -> None:
    canvas = Canvas(3, 3, Scale(0, 3))
    canvas.draw(Layer(columns([1.5] * 6, 1.2), "bar", band=True))
    styles = [style for row in canvas.rows() for _, style in row]
    assert [f"on {BAND}", f"bar on {BAND}", f"on {BAND}"] == styles

    rows = drawn(columns([1.5] * 6, 1.2), 3, high=3.0, band=True, bands=Bands.TEXTURED)
    assert ("░░░", "░░░") == (rows[0], rows[2])
    assert "░" not in rows[1]


def test_without_colours_and_with_ascii_alone_there_is_no_band() -> None:
    assert ["", "⠉⠉⠉", ""] == drawn(columns([1.9] * 6, 1.2), 3, high=3.0, band=True, bands=Bands.NONE)


def test_a_later_curve_keeps_the_cells_that_two_share() -> None:
    canvas = Canvas(2, 1, Scale(0, 1))
    canvas.draw(Layer(columns([0.1] * 4), "muted"))
    canvas.draw(Layer(columns([0.9, 0.9, NAN, NAN]), "bar"))

    assert ["bar", "muted"] == [style for _, style in canvas.rows()[0]]


def test_a_plot_has_a_title_labels_and_an_axis() -> None:
    assert [
        " loss 20",
        "     20┤                 ⣀⡠⠔⠊",
        "       │             ⣀⠤⠒⠉",
        "       │        ⣀⠤⠔⠒⠉",
        "       │    ⣀⠤⠒⠉",
        "      0┤⡠⠔⠊⠉",
        "       └┬───────────────────┬",
        "        0                  20",
    ] == text(plot([float(n) for n in range(21)]))


def test_the_cursor_is_a_line_and_its_value_is_read() -> None:
    rows = text(plot([float(n) for n in range(21)], cursor=5.0, spread=1.0))

    assert " loss 5 (4 … 6)   at 5" == rows[0]
    at = {row.index("┴") for row in rows if "┴" in row}
    assert 1 == len(at)
    assert sum(row[LABELS:].count("│") for row in rows[1:-2]) >= 3


def test_marks_stand_on_the_axis_and_are_told_at_the_cursor() -> None:
    mark = Mark(10.0, "◇", "rank-done", "checkpoint of step 10")
    assert "◇" in text(plot([1.0] * 21, marks=[mark]))[-2]
    assert "◇ checkpoint of step 10" in text(plot([1.0] * 21, width=60, marks=[mark], cursor=10.0))[0]
    assert "◇" not in text(plot([1.0] * 21, marks=[mark], start=11.0, end=20.0))[-2]


def test_two_values_at_least_are_written_at_the_axis() -> None:
    for low, high in ((2.247, 4.5), (60_000, 61_900), (0.249, 0.251), (1, 3), (-4, 0.3)):
        rows = text(plot(np.linspace(low, high, 21).tolist(), height=8))
        assert sum("┤" in row for row in rows) >= 2, (low, high)


def test_a_logarithmic_axis_has_powers_of_ten_and_leaves_out_what_it_cannot_show() -> None:
    rows = text(plot([10.0**-n for n in range(6)], height=14, log=True))
    assert {"1", "0.01"} <= {row.split("┤")[0].strip() for row in rows if "┤" in row}
    assert rows[0].endswith("log")
    assert text(plot([-1.0, 0.0, -3.0], log=True))


def test_a_reading_is_that_of_the_last_point_before() -> None:
    given = series([1.0, 2.0, 3.0])
    assert [0, 0, 1, 2, 2] == [reading_at(given, x) for x in (-5.0, 0.0, 1.5, 2.0, None)]
    assert None is reading_at(series([]), 1.0)


def test_a_position_has_a_cell_only_where_it_is_visible() -> None:
    shown = Plot("m", (), Axis.STEP, 10.0, 20.0)
    assert [None, 0, 5, 9, None, None] == [cell_of(shown, x, 10) for x in (9.9, 10.0, 15.0, 20.0, 20.1, None)]
    assert None is cell_of(Plot("m", (), Axis.STEP, 5.0, 5.0), 5.0, 10)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(60))
def test_no_values_break_a_plot(seed: int) -> None:
    chance = random.Random(seed)
    some = [0.0, NAN, 1.0, -1.0, 1e308, -1e308, 1.7e308, 5e-324, 1e-300, 61_000.0]
    mids = [chance.choice(some) for _ in range(chance.choice([1, 2, 3, 50]))]
    given = series(mids)
    width, height = chance.choice([1, 9, 10, 24, 80]), chance.choice([1, 3, 4, 7, 40])
    start = chance.choice([0.0, -5.0, 2.0**62])
    title = chance.choice(["a\x1b[2J", "損失" * 40])
    runs = [Drawn("A", given, "bar", True), Drawn("損失", given, "muted")]
    marks = [Mark(chance.choice([0.0, 2.0, 1e300]), "×", "rank-failed", "x" * 500)]
    made = Plot(
        title, runs, chance.choice([*Axis]), start, start + chance.choice([0.0, 1.0, 49.0, 1e11, 2.0**62]),
        log=chance.random() < 0.5, marks=marks, cursor=chance.choice([None, 0.0, 2.0, 1e11]),
        smoothing=chance.choice([0.0, 0.02, 0.32]), bands=chance.choice([*Bands]),
    )  # fmt: skip
    rows = plot_rows(made, width, height)
    assert max(height, 4) == len(rows)
    assert [] == [(width_of(row), row) for row in rows if width_of(row) > max(width, LABELS + 2)]


def test_every_glyph_has_a_twin_in_ascii() -> None:
    mark = [Mark(n * 8.0, glyph, style, "") for n, (glyph, style) in enumerate(_MARKS.values())]
    every = "".join(
        "\n".join(
            text(plot([1.0, 5.0, NAN, 2.0] * 9, marks=mark, cursor=12.0, spread=1.0, bands=Bands.TEXTURED))
        )
    )

    assert "?" not in ascii_text(every)
    assert {"◇", "↻", "×", "┤", "┴"} < set(every)
    assert len({ascii_text(glyph) for glyph, _ in _MARKS.values()}) == len(_MARKS)


def test_columns_of_nothing_draw_nothing() -> None:
    assert [""] * 3 == drawn(columns_of(series([]), 0, 1, 8), 3, high=1.0)
