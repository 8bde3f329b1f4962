"""What a plot shows of a curve: columns, each with the least, middle and greatest. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .run_curves import Axis

if TYPE_CHECKING:
    from .store import CurvePoints


@dataclass(frozen=True, slots=True)
class Series:
    """A curve along an axis: positions in ascending order, and the values there.

    `x` is in steps, or in seconds since the run's begin.
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
    """A part of a curve in columns of equal width: NaN where a column has no point.

    Attributes:
        low, high: the least and the greatest value of any rank.
        mid: the mean of the medians over ranks.
        counts: how many points `mid` is the mean of.
        torn: whether a point has no finite value: the line has a gap there.
    """

    low: NDArray[np.float64]
    mid: NDArray[np.float64]
    high: NDArray[np.float64]
    counts: NDArray[np.int64]
    torn: NDArray[np.bool_]


def columns_of(series: Series, start: float, end: float, count: int) -> Columns:
    """The part of a series from `start` to `end`, in `count` columns."""
    edges = np.searchsorted(series.x, np.linspace(start, end, count + 1))
    edges[-1] = np.searchsorted(series.x, end, side="right")
    filled = np.flatnonzero(edges[1:] > edges[:-1])
    low, mid, high = (np.full(count, np.nan) for _ in range(3))
    counts, torn = np.zeros(count, np.int64), np.zeros(count, bool)
    if len(filled):
        cut = slice(edges[0], edges[-1])
        begins = edges[filled] - edges[0]
        middles = series.mid[cut]
        known = np.isfinite(middles)
        counts[filled] = np.add.reduceat(known.astype(np.int64), begins)
        with np.errstate(all="ignore"):
            low[filled] = np.fmin.reduceat(series.low[cut], begins)
            high[filled] = np.fmax.reduceat(series.high[cut], begins)
            # each value is divided first: a sum of great ones would overflow
            parts = np.where(known, middles, 0.0) / np.repeat(
                np.maximum(counts[filled], 1), np.diff(np.append(begins, len(middles)))
            )
            mid[filled] = np.where(counts[filled] > 0, np.add.reduceat(parts, begins), np.nan)
        torn[filled] = np.logical_or.reduceat(~known, begins)
        mid[torn] = np.nan
    return Columns(low, mid, high, counts, torn)


def smoothed(columns: Columns, share: float) -> Columns:
    """The columns with a running mean of the middles over a share of them, weighted by their points."""
    reach = round(len(columns.mid) * share / 2)
    if reach < 1:
        return columns
    weights = np.where(np.isfinite(columns.mid), columns.counts, 0)
    window = np.ones(2 * reach + 1)
    with np.errstate(all="ignore"):
        totals = np.convolve(weights, window, "same")
        most = max(float(totals.max()), 1.0)  # divided by it first, a sum of great values does not overflow
        sums = np.convolve(np.where(weights > 0, columns.mid, 0.0) * (weights / most), window, "same")
        mean = np.where(weights > 0, sums * (most / np.maximum(totals, 1)), np.nan)
    return replace(columns, mid=mean[: len(columns.mid)])
