"""What a log pane's title says of its filter and of its search. Pure."""

from __future__ import annotations

from console.messages import Level, Search
from console.widgets import figures as fig

TOO_SLOW = "that expression takes too long on some lines, and was given up: try a simpler one"

_LEVELS = {Level.ALL: "", Level.WARNING: " · warnings and errors", Level.ERROR: " · errors"}
_LONGEST = 20


def filter_title(text: str, level: Level, passed: Search, share: float | None) -> str:
    """What passes, and how many lines did; `share` of all have been looked at."""
    what = f" · &{fig.shorten(text, _LONGEST)}" if text else ""
    return f"{_LEVELS[level]}{what} · {fig.count(len(passed.found))} kept{_so_far(passed, share, 'filtered')}"


def search_title(text: str, search: Search, current: int | None, share: float | None) -> str:
    """What is looked for, which match is shown, and of how many."""
    at = search.ordinal(current) if current is not None else None
    found = f"{at or fig.UNKNOWN}/{len(search.found)}{_so_far(search, share, 'searched')}"
    return f" · /{fig.shorten(text, _LONGEST)} {found}"


def _so_far(search: Search, share: float | None, done: str) -> str:
    if search.slow:
        return f" (given up at {fig.percent((share or 0.0) * 100)})"
    return "" if share is not None and share >= 1.0 else f" ({fig.percent((share or 0.0) * 100)} {done})"
