"""What a plot shows of a curve: columns, each with the least, middle and greatest. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from .store import CurvePoints

Floats = "NDArray[np.float64]"


class Axis(Enum):
    """What the horizontal axis counts."""

    STEP = "step"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Series:
    """A curve along an axis: positions in ascending order, and the values there.

    `x` is in steps, or in seconds since the run's begin. `smooth` is `mid`, or a running mean of it.
    """

    x: NDArray[np.float64]
    low: NDArray[np.float64]
    mid: NDArray[np.float64]
    high: NDArray[np.float64]
    broken: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.x)


def series_of(points: CurvePoints, axis: Axis, begin: float) -> Series:
    """The points along an axis; what a later attempt has repeated is left out."""
    x = points.time - begin if axis is Axis.TIME else points.step + (points.width - 1) / 2
    kept = np.ones(len(x), bool) if axis is Axis.TIME else _not_repeated(points)
    order = np.argsort(x[kept], kind="stable")

    def column(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return values[kept][order]

    return Series(
        column(x), column(points.low), column(points.mid), column(points.high), points.broken[kept][order]
    )


def _not_repeated(points: CurvePoints) -> NDArray[np.bool_]:
    """Which points no later attempt has begun again before."""
    kept = np.ones(len(points), bool)
    attempts = np.unique(points.attempt)
    first = np.iinfo(np.int64).max
    for attempt in attempts[::-1]:
        own = points.attempt == attempt
        kept &= ~own | (points.step < first)
        first = min(first, int(points.step[own].min()))
    return kept


@dataclass(frozen=True, slots=True)
class Columns:
    """A part of a curve in columns of equal width: NaN where a column has no point."""

    low: NDArray[np.float64]
    mid: NDArray[np.float64]
    high: NDArray[np.float64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    broken: NDArray[np.bool_]


def columns_of(series: Series, start: float, end: float, count: int) -> Columns:
    """The part of a series from `start` to `end`, in `count` columns.

    `low` and `high` are of all ranks; `least`, `mid` and `most` of the line, which is the median over ranks.
    """
    edges = np.searchsorted(series.x, np.linspace(start, end, count + 1))
    edges[-1] = np.searchsorted(series.x, end, side="right")
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    empty = np.full(count, np.nan)
    found = [empty.copy() for _ in range(5)]
    broken = np.zeros(count, bool)
    if len(filled):
        cut = slice(edges[0], edges[-1])
        begins = edges[filled] - edges[0]
        with np.errstate(invalid="ignore"):
            found[0][filled] = np.fmin.reduceat(series.low[cut], begins)
            found[2][filled] = np.fmax.reduceat(series.high[cut], begins)
            found[3][filled] = np.fmin.reduceat(series.mid[cut], begins)
            found[4][filled] = np.fmax.reduceat(series.mid[cut], begins)
            known = np.isfinite(series.mid[cut])
            sums = np.add.reduceat(np.where(known, series.mid[cut], 0.0), begins)
            counts = np.add.reduceat(known.astype(np.int64), begins)
            found[1][filled] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
        broken[filled] = np.logical_or.reduceat(series.broken[cut], begins)
    return Columns(found[0], found[1], found[2], found[3], found[4], broken)
