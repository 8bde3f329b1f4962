"""How figures are written for people, the same in a terminal's columns and on a screen. Pure.

Whatever stands where a number should be is written, and never an error: a record may be anybody's, and NaN
is what one watches a training for.
"""

from __future__ import annotations

import math
from typing import TypeGuard

UNKNOWN = "–"
_WHOLE, _LARGE = 999.95, 10**12
_UNITS = "kMGTP"
_MOST = 24


def is_finite(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be drawn: no NaN, no infinity, nothing beyond a float."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def metric(value: object, digits: int = 4) -> str:
    """A reported figure: enough digits to see it move, no more. Whole numbers are always whole."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split())[:_MOST]
    if isinstance(value, int) and abs(value) >= _LARGE:
        from decimal import Decimal  # a command that prints none of these starts without it

        return f"{Decimal(value):.{digits - 1}e}"
    if not math.isfinite(value):
        return str(value)
    if not _WHOLE <= abs(value) < _LARGE:
        return f"{value or 0:.{digits}g}"
    text = f"{value:,.{max(digits - len(str(int(abs(value)))), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(value: float, low: float, high: float) -> float | None:
    """Where a value lies between two others, 0 to 1; None where those are the same.

    They are halved first, for the difference of two floats may be none.
    """
    span = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0) if span > 0 else None


def compact(value: float) -> str:
    """The same in at most seven characters, as beside an axis: 12.9k, 1.5e-05."""
    if not is_finite(value):
        return metric(value)
    size, unit = abs(value), ""
    if 9999.5 <= size < 999.5e15:
        power = min(int(math.log10(size * 1.0005)) // 3, len(_UNITS))
        value, unit = value / 1000**power, _UNITS[power - 1]
    text = f"{value or 0:.3g}{unit}" if unit or size < 999.5 else f"{value:.0f}"
    return text if len(text) <= 7 else f"{value:.1e}"[:8]


def count(value: float | None) -> str:
    """A whole number with separators."""
    if value is None:
        return UNKNOWN
    return f"{value:,}" if isinstance(value, int) else f"{value:,.0f}"


def duration(seconds: float | None) -> str:
    """How long something took: two units at most."""
    if seconds is None or not is_finite(seconds):
        return UNKNOWN
    if seconds < 0.1:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    return age(int(seconds + 0.05))


def age(seconds: int | None) -> str:
    """How long ago, in at most six characters."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"
