"""One plot: a title, curves with their band, axes, marks, and a cursor with its reading. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ... import formatting as fig
from ...data.curves.axes import Scale, fitting_scale, position_text, position_ticks
from ...data.curves.run_curves import Axis
from ...data.curves.window import Series, columns_of, smoothed
from ..widgets.rows import Row, Span, clip, joined, width_of
from .canvas import Bands, Canvas, Layer

LABELS = 8
"""Cells at the left, for the labels of the vertical axis and the axis itself."""

LEAST_WIDTH, LEAST_HEIGHT = 24, 4
_CURSOR = "muted"


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened: where, with a glyph on the horizontal axis in a style, and in words."""

    x: float
    glyph: str
    style: str
    text: str


@dataclass(frozen=True, slots=True)
class Drawn:
    """A curve of a plot: its name for the legend, its style, whether it has a band, and how it is dashed."""

    name: str
    series: Series
    style: str
    band: bool = False
    dash: int = 0


@dataclass(frozen=True, slots=True)
class Plot:
    """What a plot shows.

    Attributes:
        title: the metric's name.
        drawn: the curves, the foremost last.
        axis: what the horizontal axis counts.
        start, end: the part of it that is visible.
        log: whether the vertical axis is logarithmic.
        marks: what happened.
        cursor: a position whose values are shown in the title; None for the last one.
        smoothing: over which share of what is visible a line is a running mean; 0 for none.
        bands: how the ranks' ranges are drawn.
    """

    title: str
    drawn: Sequence[Drawn]
    axis: Axis
    start: float
    end: float
    log: bool = False
    marks: Sequence[Mark] = ()
    cursor: float | None = None
    smoothing: float = 0.0
    bands: Bands = Bands.COLOURED


def plot_rows(plot: Plot, width: int, height: int) -> list[Row]:
    """The plot in `height` rows: its title, the curves, the horizontal axis and its labels."""
    cells, lines = max(width - LABELS - 1, 1), max(height - 3, 1)
    layers = [
        Layer(
            smoothed(columns_of(each.series, plot.start, plot.end, cells * 2), plot.smoothing),
            each.style,
            each.band,
            each.dash,
        )
        for each in plot.drawn
    ]
    scale = scale_of(layers, log=plot.log)
    canvas = Canvas(cells, lines, scale, bands=plot.bands)
    for layer in layers:
        canvas.draw(layer)
    labels = _labels(scale, lines)
    at = cell_of(plot, plot.cursor, cells)
    body = [
        ((f"{labels.get(number, ''):>{LABELS - 1}}", "muted"), (_edge(number in labels), "rule"), *row)
        for number, row in enumerate(canvas.rows())
    ]
    if at is not None:
        body = [_with_cursor(row, LABELS + at) for row in body]
    return [clip(_title(plot), width), *body, _axis_row(plot, cells), _axis_labels(plot, cells)]


def _edge(labelled: bool) -> str:
    return "┤" if labelled else "│"


def scale_of(layers: Sequence[Layer], *, log: bool) -> Scale:
    """A scale that shows all that is drawn; of a logarithmic one, the positive values."""
    return fitting_scale([values for layer in layers for values in _drawn_values(layer)], log=log)


def _drawn_values(layer: Layer) -> Iterator[np.ndarray]:
    yield layer.columns.mid
    if layer.band:
        yield layer.columns.low
        yield layer.columns.high


def _labels(scale: Scale, lines: int) -> dict[int, str]:
    """The labels of the vertical axis by the row that they stand in; two at least, where there is room."""
    rows: dict[int, float] = {}
    for most in (max(lines // 3, 2), max(lines // 2, 3), lines):
        values = scale.ticks(most)
        placed = zip(scale.part(np.array(values)), values, strict=True)
        rows = {lines - 1 - min(int(part * lines), lines - 1): v for part, v in placed if 0 <= part <= 1}
        if len(rows) > 1:
            break
    return {row: fig.shorten(fig.compact(value), LABELS - 1) for row, value in rows.items()}


def cell_of(plot: Plot, x: float | None, cells: int) -> int | None:
    """The cell of a position on the horizontal axis; None if it is not visible."""
    if x is None or not plot.start <= x <= plot.end or plot.end <= plot.start:
        return None
    return min(int((x - plot.start) / (plot.end - plot.start) * cells), cells - 1)


def _with_cursor(row: Row, at: int) -> Row:
    """The row with a line in one cell, where nothing is drawn."""
    spans: list[Span] = []
    for text, style in row:
        if 0 <= at < len(text) and text[at] == " ":
            spans += [(text[:at], style), ("│", f"{_CURSOR} {style}".strip()), (text[at + 1 :], style)]
        else:
            spans.append((text, style))
        at -= len(text)
    return tuple(span for span in spans if span[0])


def _title(plot: Plot) -> Row:
    spans: list[Span] = [(f" {plot.title} ", "bold")]
    for each in reversed(plot.drawn):
        spans += _reading(each, plot)
    if plot.cursor is not None:
        spans.append((f"  at {position_text(plot.axis, plot.cursor)}", ""))
        spans += [(f"  {mark.glyph} {mark.text}", mark.style) for mark in marks_at(plot, plot.cursor)]
    words = [*(["log"] if plot.log else []), *([f"smoothed {plot.smoothing:.0%}"] if plot.smoothing else [])]
    if words:
        spans.append(("  " + " · ".join(words), "muted"))
    return tuple(spans)


def marks_at(plot: Plot, x: float) -> Sequence[Mark]:
    """What happened where the cursor is, within a hundredth of what is visible."""
    near = (plot.end - plot.start) / 100
    return [mark for mark in plot.marks if abs(mark.x - x) <= near][:2]


def _reading(each: Drawn, plot: Plot) -> Iterator[Span]:
    """The value at the cursor, or the last one, with that of the ranks that differ most."""
    at = reading_at(each.series, plot.cursor)
    if at is None:
        return
    value, low, high = (float(v[at]) for v in (each.series.mid, each.series.low, each.series.high))
    if each.name:
        line = f"{'━' * min(each.dash, 4)}╺" if each.dash else "━"
        yield (f"{line} {each.name} ", each.style)
    yield (f"{fig.metric(value)} ", fig.metric_style(value) or ("" if each.name else each.style))
    if each.band and low < high:
        yield (f"({fig.metric(low)} … {fig.metric(high)}) ", "muted")


def reading_at(series: Series, x: float | None) -> int | None:
    """The number of the point at a position, or before it; of the last one without a position."""
    if not len(series):
        return None
    return len(series) - 1 if x is None else max(int(np.searchsorted(series.x, x, side="right")) - 1, 0)


def _axis_row(plot: Plot, cells: int) -> Row:
    """The horizontal axis with its ticks and marks."""
    line = [("─", "rule")] * cells
    for tick in _ticks(plot, cells):
        if (at := cell_of(plot, tick, cells)) is not None:
            line[at] = ("┬", "rule")
    for mark in plot.marks:
        if (at := cell_of(plot, mark.x, cells)) is not None:
            line[at] = (mark.glyph, mark.style)
    if (at := cell_of(plot, plot.cursor, cells)) is not None:
        line[at] = ("┴", _CURSOR)
    return (" " * (LABELS - 1), ""), ("└", "rule"), *joined(line)


def _ticks(plot: Plot, cells: int) -> Sequence[float]:
    return position_ticks(plot.axis, plot.start, plot.end, max(cells // 12, 1))


def _axis_labels(plot: Plot, cells: int) -> Row:
    line, free = "", 0
    for tick in _ticks(plot, cells):
        at = cell_of(plot, tick, cells)
        text = position_text(plot.axis, tick)
        begin = 0 if at is None else min(max(at - len(text) // 2, 0), cells - len(text))
        if at is not None and begin >= free:
            line = line.ljust(begin) + text
            free = len(line) + 1
    row: Row = ((" " * LABELS, ""), (line.ljust(cells), "muted"))
    name = plot.axis.value
    if cells - len(line) > len(name) + 1:
        row = ((" " * LABELS, ""), (line + f"{name:>{cells - len(line)}}", "muted"))
    return row if width_of(row) <= cells + LABELS else clip(row, cells + LABELS)
