"""How figures are written: short, of steady width, and unknown as a dash."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from console.formatting import UNKNOWN, age, compact, count, duration, is_finite, metric, share

__all__ = [
    "UNKNOWN", "age", "bar", "celsius", "clock", "compact", "count", "curve", "date", "duration", "is_finite",
    "memory", "metric", "metric_spans", "metric_style", "moment", "percent", "seconds", "share", "shorten",
    "strip", "watts",
]  # fmt: skip

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
    """A short time, exactly enough to compare it with others of its kind."""
    return f"{value:.3g} s"


def celsius(value: float | None) -> str:
    """A temperature."""
    return UNKNOWN if value is None else f"{value:.0f}°"


def memory(value: float | None) -> str:
    """An amount of memory, in at most five characters."""
    if value is None:
        return UNKNOWN
    if value >= _GIB:
        return f"{value / _GIB:.1f}G" if value < 100 * _GIB else f"{value / _GIB:.0f}G"
    return f"{value / (1 << 20):.0f}M"


def metric_spans(metrics: Mapping[str, object], between: str = "  ") -> list[tuple[str, str]]:
    """Reported figures with their names; each begins with what stands before it."""
    return [(f"{between}{name} {metric(value)}", metric_style(value)) for name, value in metrics.items()]


def metric_style(value: object) -> str:
    """How a reported figure is drawn: one that is no number any more stands out."""
    return "" if is_finite(value) else NOT_FINITE


def clock(seconds: float | None) -> str:
    """An elapsed time as a clock shows it."""
    if seconds is None:
        return UNKNOWN
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:{rest:02d}"


def moment(seconds: float) -> str:
    """The local time of day of a moment; it does not change while one looks."""
    return time.strftime("%H:%M:%S", time.localtime(seconds))


def date(seconds: float) -> str:
    """The local day and time of a moment."""
    return time.strftime("%d %b %H:%M", time.localtime(seconds))


def bar(part: float | None, width: int) -> tuple[str, str]:
    """A filled part and the rest of it, together `width` cells; unknown fills nothing."""
    halves = 0 if not is_finite(part) else round(min(max(part, 0.0), 1.0) * width * 2)
    filled = _LINE * (halves // 2) + _HALF_LINE * (halves % 2)
    return filled, _TRACK * (width - len(filled))


def strip(values: Sequence[float | None], width: int, *, top: float = 100.0) -> str:
    """The newest values as blocks against a fixed scale, right-aligned; unknown is a gap."""
    newest = values[-width:] if width > 0 else ()
    return "".join(" " if not is_finite(v) else _LOW[_level(v, top)] for v in newest).rjust(width)


def _level(value: float, top: float) -> int:
    return min(max(int(value / top * len(_LOW)), 0), len(_LOW) - 1)


def curve(values: Sequence[float], width: int) -> str:
    """All values as one row of blocks between their least and greatest: only the shape counts.

    What is not finite is a gap.
    """
    known = [v for v in values if is_finite(v)]
    if not known or width <= 0:
        return " " * max(width, 0)
    low, high = min(known), max(known)
    picked = [values[i * len(values) // min(width, len(values))] for i in range(min(width, len(values)))]
    drawn = (_LEVELS[min(int((share(v, low, high) or 0.0) * 8), 7)] if is_finite(v) else " " for v in picked)
    return "".join(drawn).ljust(width)


def shorten(text: str, width: int) -> str:
    """`text`, cut with an ellipsis if it is wider than `width`."""
    if len(text) <= width:
        return text
    return text[: width - 1] + "…" if width > 0 else ""
