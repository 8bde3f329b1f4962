"""The axes of plots: scales, round numbers on them, and texts of positions. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ... import formatting as fig
from .run_curves import Axis

_ROOM, _NOISE = 0.04, 1e-9
_DECADES = 1.5
"""A logarithmic axis that is shorter than this has ticks as a linear one: powers of ten would be too few."""

_GREATEST, _SMALLEST = float(np.finfo(float).max), float(np.finfo(float).tiny)


@dataclass(frozen=True, slots=True)
class Scale:
    """The vertical axis: its two ends, and whether it is logarithmic."""

    low: float
    high: float
    log: bool = False

    def part(self, amounts: Sequence[float] | np.ndarray) -> np.ndarray:
        """Where values are on the axis: 0 at its low end, 1 at its high end; NaN where they cannot be."""
        values = np.asarray(amounts, np.float64)
        with np.errstate(all="ignore"):
            low, high = self.low, self.high
            if self.log:
                values, low, high = np.log10(values), math.log10(low), math.log10(high)
            found: np.ndarray = (values / 2 - low / 2) / (high / 2 - low / 2)  # halves: no overflow
        found[~np.isfinite(values)] = np.nan
        return found

    def ticks(self, most: int) -> Sequence[float]:
        """Round numbers on the axis, at most `most` and one; its two ends if there is none."""
        decades = math.log10(self.high) - math.log10(self.low) if self.log else 0.0
        if decades > _DECADES:
            tens = ticks(math.log10(self.low), math.log10(self.high), min(most, int(decades) + 1))
            found = [10.0**ten for ten in tens if ten == round(ten)]
        else:
            found = [*ticks(self.low, self.high, most)]
        return found or [self.low, self.high]


def fitting_scale(columns: Sequence[np.ndarray], *, log: bool) -> Scale:
    """A scale that shows all values; a logarithmic one, the positive ones."""
    values = np.concatenate([[], *columns])
    known = values[np.isfinite(values) & ((values >= _SMALLEST) | (not log))]
    if not len(known):
        return Scale(1.0, 10.0, log=True) if log else Scale(0.0, 1.0)
    low, high = float(known.min()), float(known.max())
    if log:
        return Scale(max(low / 1.1, _SMALLEST), min(high * 1.1, _GREATEST), log=True)
    most = max(abs(low), abs(high), _SMALLEST)
    differ = high / 2 - low / 2 > max(most * _NOISE, _SMALLEST)
    room = (high / 2 - low / 2) * 2 * _ROOM if differ else (most if most > _SMALLEST else 1.0) / 10
    return Scale(max(low - room, -_GREATEST), min(high + room, _GREATEST))


def ticks(low: float, high: float, most: int) -> Sequence[float]:
    """Round numbers between two ends, at most `most` and one, spaced by 1, 2 or 5 times a power of ten."""
    span = high - low
    if not (math.isfinite(span) and span > 0) or most < 1:
        return ()
    raw = span / most
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * factor for factor in (1, 2, 5, 10, 20) if base * factor >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return tuple((first + i) * step for i in range(math.floor(high / step + 1e-9) - first + 1))


def position_ticks(axis: Axis, start: float, end: float, most: int) -> Sequence[float]:
    """Round positions of the horizontal axis, as `ticks`; of times, round seconds, minutes, hours or days."""
    if axis is Axis.STEP:
        return ticks(start, end, most)
    unit = next((u for u in (86400.0, 3600.0, 60.0) if (end - start) / u >= 2), 1.0)
    return [tick * unit for tick in ticks(start / unit, end / unit, most)]


def position_text(axis: Axis, x: float) -> str:
    """A position on the horizontal axis: a step, or the time since the run's begin."""
    return fig.count(round(x)) if axis is Axis.STEP else fig.duration(x) if x else "0s"
