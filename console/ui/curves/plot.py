"""One plot: a title, curves with their band, axes, marks, and a cursor with its reading. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ... import formatting as fig
from ...data.curves.window import Axis, Columns, Series, columns_of
from ..widgets.rows import Row, Span, clip, width_of
from .canvas import Canvas, Layer, Scale, ticks

LABELS = 8
"""Cells at the left, for the labels of the vertical axis and the axis itself."""

LEAST_WIDTH, LEAST_HEIGHT = 24, 4
_ROOM = 0.04
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
    """A curve of a plot: its name for the legend, its style, and whether it has a band."""

    name: str
    series: Series
    style: str
    band: bool = False


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
        words: what else the title says, such as the smoothing.
    """

    title: str
    drawn: Sequence[Drawn]
    axis: Axis
    start: float
    end: float
    log: bool = False
    marks: Sequence[Mark] = ()
    cursor: float | None = None
    words: Mapping[str, str] = field(default_factory=dict)


def plot_rows(plot: Plot, width: int, height: int) -> list[Row]:
    """The plot in `height` rows: its title, the curves, the horizontal axis and its labels."""
    cells, lines = max(width - LABELS - 1, 1), max(height - 3, 1)
    columns = [columns_of(each.series, plot.start, plot.end, cells * 2) for each in plot.drawn]
    scale = scale_of(columns, log=plot.log)
    canvas = Canvas(cells, lines, scale)
    for each, part in zip(plot.drawn, columns, strict=True):
        canvas.draw(Layer(part, each.style, each.band))
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


def scale_of(columns: Sequence[Columns], *, log: bool) -> Scale:
    """A scale that shows all visible values; of a logarithmic one, the positive ones."""
    values = np.concatenate([[], *(v for c in columns for v in (c.low, c.high, c.least, c.most))])
    known = values[np.isfinite(values) & ((values > 0) | (not log))]
    if not len(known):
        return Scale(1.0, 10.0, log=True) if log else Scale(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    if log:
        return Scale(low / 1.1, min(high * 1.1, np.finfo(float).max), log=True)
    room = (high / 2 - low / 2) * 2 * _ROOM if high > low else (abs(low) or 1.0) / 10
    most = float(np.finfo(float).max)
    return Scale(max(low - room, -most), min(high + room, most))


def _labels(scale: Scale, lines: int) -> dict[int, str]:
    """The labels of the vertical axis by the row that they stand in."""
    most = max(lines // 3, 1)
    if scale.log:
        low, high = math.log10(scale.low), math.log10(scale.high)
        values = [10.0**tick for tick in ticks(low, high, most)]
    else:
        values = list(ticks(scale.low, scale.high, most))
    if not values:
        values = [scale.low, scale.high]
    parts = scale.part(np.array(values))
    placed = zip(parts, values, strict=True)
    rows = {lines - 1 - min(int(part * lines), lines - 1): v for part, v in placed if part == part}
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
    if plot.words:
        spans.append(("  " + " · ".join(plot.words.values()), "muted"))
    return tuple(spans)


def _reading(each: Drawn, plot: Plot) -> Iterator[Span]:
    """The value at the cursor, or the last one, with that of the ranks that differ most."""
    at = reading_at(each.series, plot.cursor)
    if at is None:
        return
    value, low, high = (float(v[at]) for v in (each.series.mid, each.series.low, each.series.high))
    if each.name:
        yield (f"━ {each.name} ", each.style)
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
    for tick in x_ticks(plot, cells):
        if (at := cell_of(plot, tick, cells)) is not None:
            line[at] = ("┬", "rule")
    for mark in plot.marks:
        if (at := cell_of(plot, mark.x, cells)) is not None:
            line[at] = (mark.glyph, mark.style)
    if (at := cell_of(plot, plot.cursor, cells)) is not None:
        line[at] = ("┴", _CURSOR)
    return (" " * (LABELS - 1), ""), ("└", "rule"), *_runs(line)


def _runs(cells: Sequence[Span]) -> Iterator[Span]:
    """Neighbouring cells of one style together."""
    text, last = "", ""
    for character, style in cells:
        if style != last and text:
            yield text, last
            text = ""
        text, last = text + character, style
    if text:
        yield text, last


def x_ticks(plot: Plot, cells: int) -> Sequence[float]:
    """Round positions on the horizontal axis."""
    most = max(cells // 12, 1)
    if plot.axis is Axis.STEP:
        return ticks(plot.start, plot.end, most)
    unit = next((u for u in (86400.0, 3600.0, 60.0) if (plot.end - plot.start) / u >= 2), 1.0)
    return [tick * unit for tick in ticks(plot.start / unit, plot.end / unit, most)]


def _axis_labels(plot: Plot, cells: int) -> Row:
    line, free = "", 0
    for tick in x_ticks(plot, cells):
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


def position_text(axis: Axis, x: float) -> str:
    """A position on the horizontal axis: a step, or the time since the run's begin."""
    return fig.count(round(x)) if axis is Axis.STEP else fig.duration(x) if x else "0s"
