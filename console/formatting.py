"""Text for figures, times, sizes and paths, in commands and on screens. Pure.

A value that is not a number is written as it is and never raises an error: a record may come from anybody,
and NaN is a value that users look for in a training.
"""

from __future__ import annotations

import math
import os
import re
import time
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import TypeGuard

from launcher.errors import SpecError, counted

UNKNOWN = "–"
_WHOLE_FROM, _EXPONENT_FROM = 999.95, 10**12
_UNITS = "kMGTP"
_MAX_TEXT = 24
number = counted


def is_finite(value: object) -> TypeGuard[float]:
    """Whether it is a number that can be drawn: no NaN, no infinity, no integer too large for a float."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:
        return False


def metric(value: object, digits: int = 4) -> str:
    """A reported figure with `digits` significant digits; whole numbers below 10**12 are written in full."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return " ".join(str(value).split())[:_MAX_TEXT]
    if isinstance(value, int) and abs(value) >= _EXPONENT_FROM:
        from decimal import Decimal  # a slow import that few commands need

        return f"{Decimal(value):.{digits - 1}e}"
    if not math.isfinite(value):
        return str(value)
    if not _WHOLE_FROM <= abs(value) < _EXPONENT_FROM:
        return f"{value or 0:.{digits}g}"
    text = f"{value:,.{max(digits - len(str(int(abs(value)))), 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def share(value: float, low: float, high: float) -> float | None:
    """Where a value lies between `low` and `high`, 0 to 1; None if `high` is not greater than `low`.

    The numbers are halved first, because the difference of two floats may overflow.
    """
    span = high / 2 - low / 2
    return min(max((value / 2 - low / 2) / span, 0.0), 1.0) if span > 0 else None


def compact(value: float) -> str:
    """A figure in at most seven characters, as beside an axis: 12.9k, 1.5e-05."""
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
    """A duration, in at most two units."""
    if seconds is None or not is_finite(seconds):
        return UNKNOWN
    if seconds < 0.1:
        return f"{max(seconds, 0.0) * 1000:.0f}ms"
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    return age(int(seconds + 0.05))


def whole_minutes(seconds: float) -> str:
    """The duration so far of something that goes on, in whole minutes: the text changes once a minute."""
    if seconds < 60:
        return "<1m"
    return f"{int(seconds) // 60}m" if seconds < 3600 else age(int(seconds))


def age(seconds: int | None) -> str:
    """A duration in whole seconds or coarser units, in at most six characters."""
    if seconds is None:
        return UNKNOWN
    if seconds < 60:
        return f"{seconds}s"
    minutes, rest = divmod(seconds, 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 48 else f"{hours // 24}d{hours % 24:02d}h"


_LINE, _HALF_LINE, _TRACK = "━", "╸", "─"
_LEVELS = "▁▂▃▄▅▆▇█"
_LOW = _LEVELS[:6]  # strips of neighbouring ranks must not touch
_GIB = 1 << 30
NOT_FINITE = "rank-failed bold"


def percent(value: float | None) -> str:
    """A percentage without decimals."""
    return UNKNOWN if value is None else f"{value:.0f}%"


def watts(value: float | None) -> str:
    """A power."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f}W" if value < 10_000 else f"{value / 1000:.1f}kW"


def seconds(value: float) -> str:
    """A short time in seconds, with three significant digits."""
    return f"{value:.3g} s"


def celsius(value: float | None) -> str:
    """A temperature."""
    return UNKNOWN if value is None else f"{value:.0f}°"


def memory(value: float | None) -> str:
    """An amount of memory in at most five characters, for a column."""
    if value is None:
        return UNKNOWN
    if value >= _GIB:
        return f"{value / _GIB:.1f}G" if value < 100 * _GIB else f"{value / _GIB:.0f}G"
    return f"{value / (1 << 20):.0f}M"


def metric_spans(metrics: Mapping[str, object], between: str = "  ") -> list[tuple[str, str]]:
    """Reported figures with their names, as texts with styles; each text begins with `between`."""
    return [(f"{between}{name} {metric(value)}", metric_style(value)) for name, value in metrics.items()]


def metric_style(value: object) -> str:
    """The style of a reported figure: NaN and infinity stand out."""
    return "" if is_finite(value) else NOT_FINITE


def clock(seconds: float | None) -> str:
    """An elapsed time as ``01:02:03``."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def moment(seconds: float) -> str:
    """The local time of day, from seconds since the epoch."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def date(seconds: float | None) -> str:
    """The local day and time, from seconds since the epoch."""
    if not is_finite(seconds):
        return UNKNOWN
    try:
        return time.strftime("%d %b %H:%M", time.localtime(seconds))
    except (ValueError, OverflowError, OSError):  # out of the calendar's range
        return UNKNOWN


def ago(then: float | None, now: float) -> str:
    """How long ago, in whole minutes, so that the text on a screen seldom changes."""
    if then is None:
        return UNKNOWN
    minutes = int((now - then) // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}m ago"
    return f"{minutes // 60}h ago" if minutes < 48 * 60 else f"{minutes // 1440}d ago"


def bar(part: float | None, width: int) -> tuple[str, str]:
    """The filled and the empty part of a bar of `width` cells; `part` is 0 to 1, an unknown one is empty."""
    halves = 0 if not is_finite(part) else round(min(max(part, 0.0), 1.0) * width * 2)
    filled = _LINE * (halves // 2) + _HALF_LINE * (halves % 2)
    return filled, _TRACK * (width - len(filled))


def strip(values: Sequence[float | None], width: int, *, top: float = 100.0) -> str:
    """The newest values as blocks on a scale from 0 to `top`, right-aligned; an unknown value is a gap."""
    newest = values[-width:] if width > 0 else ()
    return "".join(" " if not is_finite(v) else _LOW[_level(v, top)] for v in newest).rjust(width)


def _level(value: float, top: float) -> int:
    return min(max(int(value / top * len(_LOW)), 0), len(_LOW) - 1)


def curve(values: Sequence[float], width: int, *, low: bool = False) -> str:
    """All values as one row of blocks, on a scale from their least to their greatest.

    A value that is not finite is a gap. `low` blocks leave a gap to the row above.
    """
    levels = _LOW if low else _LEVELS
    known = [v for v in values if is_finite(v)]
    if not known or width <= 0:
        return " " * max(width, 0)
    least, most = min(known), max(known)
    picked = [values[i * len(values) // min(width, len(values))] for i in range(min(width, len(values)))]
    steps = len(levels)
    shares = (share(v, least, most) or 0.0 if is_finite(v) else None for v in picked)
    blocks = (" " if part is None else levels[min(int(part * steps), steps - 1)] for part in shares)
    return "".join(blocks).ljust(width)


def device_model(name: str) -> str:
    """A device's name without its maker's, as people call it: ``H100 80GB HBM3``."""
    return name.removeprefix("NVIDIA ")


def shorten(text: str, width: int) -> str:
    """`text`, cut with an ellipsis if it is wider than `width`."""
    if len(text) <= width:
        return text
    return text[: width - 1] + "…" if width > 0 else ""


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def seconds_of(text: str, bare: str = "d") -> float:
    """The seconds of an age such as ``90s``, ``12h``, ``30d`` or ``2w``; `bare` is the unit of a bare number.

    Raises:
        SpecError: the text is not an age, or is a bare number while `bare` is empty.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower(), re.ASCII)
    unit = "" if match is None else match[2] or bare
    if match is None or not unit:
        raise SpecError(f"{text!r} is no age", hint="such as 90s, 12h, 30d or 2w")
    return float(match[1]) * _SECONDS[unit]


def tilde(path: str | PathLike[str]) -> str:
    """The path, with ``~`` for the home folder at its start."""
    home, text = os.path.expanduser("~").rstrip(os.sep), os.fspath(path)
    inside = home and (text == home or text.startswith(home + os.sep))
    return f"~{text[len(home) :]}" if inside else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart."""
    from .sanitize import printable  # the console's first frame does not need it

    cleaned = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (head, *cleaned)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *cleaned)
    )


def time_between(start: float | None, end: float | None) -> str:
    """The duration between two times; empty if either is unknown."""
    return "" if start is None or end is None else duration(end - start)


def one_line(text: str, width: int) -> str:
    """The text on one line, cut to `width` characters."""
    return shorten(" ".join(text.split()), width)


def framework_text(name: str, *, asked: bool, found: bool) -> str:
    """A framework, and how it was chosen."""
    return f"{name} ({'asked for' if asked else 'found in the source' if found else 'by default'})"
