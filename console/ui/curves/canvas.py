"""Curves as rows of cells: lines in braille, a band behind them as a background. Pure.

A braille cell has two columns of four dots, and one colour. Layers are drawn in order, and where two share a
cell the later one keeps it, so that no line is torn by one below it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

import numpy as np

from ...data.curves.axes import Scale
from ...data.curves.window import Columns
from ..widgets.rows import Row, Span, joined

_BLANK = 0x2800
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
"""The bits of a cell's dots: by column, then from the top."""

BAND = "bar-track"
_TEXTURE: Span = ("░", "muted")


class Bands(Enum):
    """How the range between ranks is drawn: as a background, with characters, or not at all."""

    COLOURED = "coloured"
    TEXTURED = "textured"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Layer:
    """A curve to draw, two columns a cell, in a style; with `band`, what lies between low and high, too.

    A line with `dash` is drawn for so many cells and left out for as many, in turn; 0 for a whole line.
    """

    columns: Columns
    style: str
    band: bool = False
    dash: int = 0


class Canvas:
    """A field of cells.

    Args:
        width, height: in cells.
        scale: the vertical axis.
        bands: how bands are drawn.
    """

    def __init__(self, width: int, height: int, scale: Scale, *, bands: Bands = Bands.COLOURED) -> None:
        self.width, self.height, self._scale, self._bands = width, height, scale, bands
        self._dots = np.zeros((height, width), np.uint8)
        self._styles: list[list[str]] = [[""] * width for _ in range(height)]
        self._ground = np.zeros((height, width), bool)

    def draw(self, layer: Layer) -> None:
        """Draw a curve over what is there: a line through its columns, with a gap where a value is broken."""
        columns = layer.columns
        if layer.band and self._bands is not Bands.NONE:
            self._shade(columns)
        own = np.zeros((self.height, self.width), np.uint8)
        before = -1
        for column, at in enumerate(self._levels(_bridged(self._scale.part(columns.mid), columns.torn))):
            if at >= 0 and not (layer.dash and column // 2 // layer.dash % 2):
                for level in _reach(at, before):
                    row, dot = divmod(self.height * 4 - 1 - level, 4)
                    own[row, column // 2] |= _DOTS[column % 2][dot]
            before = at
        for row, cell in np.argwhere(own).tolist():
            self._dots[row, cell] = own[row, cell]
            self._styles[row][cell] = layer.style

    def _levels(self, parts: np.ndarray) -> list[int]:
        """The level of dots of each part of the axis, from below; -1 where it is unknown."""
        levels = self.height * 4
        found = np.minimum(np.clip(np.nan_to_num(parts), 0, 1) * levels, levels - 1)
        whole: list[int] = np.where(np.isnan(parts), -1, found).astype(int).tolist()
        return whole

    def _shade(self, columns: Columns) -> None:
        low, high = (_bridged(self._scale.part(each), columns.torn) for each in (columns.low, columns.high))
        for column, (first, last) in enumerate(zip(self._levels(low), self._levels(high), strict=True)):
            if last >= 0:  # of a logarithmic scale the low end may be unknown
                top, bottom = self.height - 1 - last // 4, self.height - 1 - max(first, 0) // 4
                self._ground[top : bottom + 1, column // 2] = True

    def rows(self) -> list[Row]:
        """The cells as rows, from the top."""
        return [tuple(joined(self._cells(number))) for number in range(self.height)]

    def _cells(self, number: int) -> Iterator[Span]:
        dots, ground = self._dots[number].tolist(), self._ground[number].tolist()
        return itertools.starmap(self._cell, zip(dots, self._styles[number], ground, strict=True))

    def _cell(self, dots: int, style: str, shaded: bool) -> Span:
        if shaded and self._bands is Bands.TEXTURED:
            return (chr(_BLANK + dots), style) if dots else _TEXTURE
        words = f"{style if dots else ''} on {BAND}".strip() if shaded else style if dots else ""
        return chr(_BLANK + dots) if dots else " ", words


def _bridged(parts: np.ndarray, torn: np.ndarray) -> np.ndarray:
    """The parts with straight lines over columns without points, but none over a torn one."""
    known = np.flatnonzero(np.isfinite(parts))
    if len(known) < 2:
        return parts
    bridged = np.full(len(parts), np.nan)
    inside = np.arange(known[0], known[-1] + 1)
    bridged[inside] = np.interp(inside, known, parts[known])
    gaps = np.cumsum(torn & ~np.isfinite(parts))
    for left, right in pairwise(known):
        if right - left > 1 and gaps[right] > gaps[left]:
            bridged[left + 1 : right] = np.nan
    return bridged


def _reach(at: int, before: int) -> range:
    """The levels of a column so that it meets the one before it, at `before`; -1 if there is none."""
    if before < 0:
        return range(at, at + 1)
    if before > at:
        return range(at, before)
    return range(min(before + 1, at), at + 1)
