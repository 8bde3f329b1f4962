"""Curves as rows of cells: lines in braille, a band behind them as a background. Pure.

A braille cell has two columns of four dots, and one colour. Layers are drawn in order, and where two share a
cell the later one keeps it, so that no line is torn by one below it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from ...data.curves.window import Columns
from ..widgets.rows import Row

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a cell's dots: by column, then from the top."""

BAND = "bar-track"


@dataclass(frozen=True, slots=True)
class Scale:
    """The vertical axis: its two ends, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def part(self, values: np.ndarray) -> np.ndarray:
        """Where values are on the axis: 0 at its low end, 1 at its high end; NaN where they cannot be."""
        with np.errstate(all="ignore"):
            low, high = self.low, self.high
            if self.log:
                values, low, high = np.log10(values), math.log10(low), math.log10(high)
            found: np.ndarray = (values / 2 - low / 2) / (high / 2 - low / 2)  # halves: no overflow
        found[~np.isfinite(values)] = np.nan
        return found


@dataclass(frozen=True, slots=True)
class Layer:
    """A curve to draw, two columns a cell, in a style; with `band`, what lies between low and high, too."""

    columns: Columns
    style: str
    band: bool = False


class Canvas:
    """A field of cells.

    Args:
        width, height: in cells.
        scale: the vertical axis.
    """

    def __init__(self, width: int, height: int, scale: Scale) -> None:
        self.width, self.height, self._scale = width, height, scale
        self._dots = np.zeros((height, width), np.uint8)
        self._styles: list[list[str]] = [[""] * width for _ in range(height)]
        self._ground = np.zeros((height, width), bool)

    def draw(self, layer: Layer) -> None:
        """Draw a curve over what is there."""
        if layer.band:
            self._shade(layer.columns)
        own = np.zeros((self.height, self.width), np.uint8)
        levels = self.height * 4
        middle = self._levels(layer.columns.mid, levels)
        least, most = (self._levels(v, levels) for v in (layer.columns.least, layer.columns.most))
        before: int | None = None
        for column, at in enumerate(middle):
            if at < 0:
                continue
            first, last = min(at, least[column]), max(at, most[column])
            if before is not None and column - before == 1:
                first, last = _joined(first, last, middle[before])
            for level in range(first, last + 1):
                row, dot = divmod(levels - 1 - level, 4)
                own[row, column // 2] |= _DOTS[column % 2][dot]
            before = column
        for row, cell in np.argwhere(own).tolist():
            self._dots[row, cell] = own[row, cell]
            self._styles[row][cell] = layer.style

    def _levels(self, values: np.ndarray, levels: int) -> list[int]:
        """The level of dots of each value, from below; -1 where it is unknown."""
        part = np.clip(self._scale.part(values), 0.0, 1.0)
        found = np.where(np.isnan(part), -1, np.minimum(np.nan_to_num(part) * levels, levels - 1))
        whole: list[int] = found.astype(int).tolist()
        return whole

    def _shade(self, columns: Columns) -> None:
        low, high = (self._levels(values, self.height) for values in (columns.low, columns.high))
        for column, (first, last) in enumerate(zip(low, high, strict=True)):
            if first >= 0:
                self._ground[self.height - 1 - last : self.height - first, column // 2] = True

    def rows(self) -> list[Row]:
        """The cells as rows, from the top."""
        return [tuple(self._spans(number)) for number in range(self.height)]

    def _spans(self, number: int) -> Iterator[tuple[str, str]]:
        dots, styles = self._dots[number].tolist(), self._styles[number]
        ground = self._ground[number].tolist()
        cells = [
            (_style(style if dot else "", shaded), chr(_BLANK + dot) if dot else " ")
            for dot, style, shaded in zip(dots, styles, ground, strict=True)
        ]
        for style, some in groupby(cells, key=lambda cell: cell[0]):
            yield "".join(text for _, text in some), style


def _style(style: str, shaded: bool) -> str:
    return f"{style} on {BAND}".strip() if shaded else style


def _joined(first: int, last: int, before: int) -> tuple[int, int]:
    """The extent of a column that meets the one before it, whose middle is at `before`."""
    if before > last:
        return first, max(last, before - 1)
    if before < first:
        return min(first, before + 1), last
    return first, last


def ticks(low: float, high: float, most: int) -> Sequence[float]:
    """At most `most` round numbers between two ends, spaced by 1, 2 or 5 times a power of ten."""
    span = high - low
    if not (math.isfinite(span) and span > 0) or most < 1:
        return ()
    raw = span / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * factor for factor in (1, 2, 5, 10, 20) if base * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return tuple((first + i) * step for i in range(math.floor(high / step + 1e-9) - first + 1))
