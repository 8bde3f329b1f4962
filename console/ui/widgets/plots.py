"""Curves in braille characters: a cell has two columns of four points. Pure."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ... import formatting as fig
from .rows import Row

_BLANK = 0x2800
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))
_AXIS = 8


def plot_rows(
    title: str,
    values: Sequence[float],
    width: int,
    height: int,
    *,
    scale: tuple[float, float] | None = None,
    span: str = "",
) -> list[Row]:
    """A title with the last value, and the curve below it.

    Args:
        title: the name of the values.
        values: the values, evenly spaced in time, oldest first.
        width, height: the size in cells, including the title.
        scale: the two ends of a fixed scale; without one, the least and the greatest value.
        span: the time that the values cover, in words.
    """
    known = [v for v in values if fig.is_finite(v)]
    last = (fig.metric(values[-1]), fig.metric_style(values[-1])) if values else (fig.UNKNOWN, "")
    rows: list[Row] = [((f" {title} ", "bold"), last, (f"  {span}", "muted"))]
    low, high = scale or _own_scale(known)
    drawn = braille(values, max(width - _AXIS - 2, 1), max(height - 1, 1), low, high)
    labels = {0: fig.compact(high), len(drawn) - 1: fig.compact(low)}
    for number, line in enumerate(drawn):
        label = fig.shorten(labels.get(number, ""), _AXIS - 1)
        rows.append(((f"{label:>{_AXIS}}┤", "muted"), (line, "bar")))
    return rows


def _own_scale(known: Sequence[float]) -> tuple[float, float]:
    """The least and the greatest value; with some room around a value that never changes."""
    low, high = min(known, default=0.0), max(known, default=0.0)
    room = (abs(low) or 1.0) / 10 if low == high else 0.0
    return max(low - room, -sys.float_info.max), min(high + room, sys.float_info.max)


def braille(values: Sequence[float], width: int, height: int, low: float, high: float) -> list[str]:
    """A curve as `height` lines of `width` cells, from the top.

    Values that are not finite are gaps; values beyond the scale are drawn at its edge. If there are more
    values than columns, each column shows the least and the greatest of its values, so that no peak is lost.
    """
    cells = [[0] * width for _ in range(height)]
    columns, before = width * 2, None
    for column in range(columns):
        first = column * len(values) // columns
        part = values[first : max((column + 1) * len(values) // columns, first + 1)]
        known = [_level(v, low, high, height * 4) for v in part if fig.is_finite(v)]
        if not known:
            before = None
            continue
        reach = known if before is None else [*known, before]
        for level in range(min(reach), max(reach) + 1):
            cells[height - 1 - level // 4][column // 2] |= _DOTS[column % 2][level % 4]
        before = known[-1]
    return ["".join(chr(_BLANK + cell) for cell in line) for line in cells]


def _level(value: float, low: float, high: float, levels: int) -> int:
    part = fig.share(value, low, high)
    return levels // 2 if part is None else min(int(part * levels), levels - 1)
