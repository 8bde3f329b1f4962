"""A regular expression that a person typed: on some lines it would take longer than anybody lives.

`re` holds every thread of the interpreter for as long as it looks. The engine that is used here lets
others run meanwhile, and gives up in time.
"""

from __future__ import annotations

import math
import re
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import regex

LINE_S, STRETCH_S, GLANCE_S = 0.25, 2.0, 0.02
"""Seconds of the processor for one line, for a stretch of lines, and for one line while somebody waits."""

_MOST_REPEATS = 1_000_000
_LOOK_S = 0.1
_TIMES = re.compile(r"\{(\d+)")


class TooSlowError(Exception):
    """An expression takes too long, or nobody waits for what it finds any more."""


class Expression:
    """Looks for an expression in lines.

    One thread calls `begin` and `found_in`; any other may call `spans` and `drop`.

    Attributes:
        text: as it was typed.
        slow: whether it took too long, so that there is no looking on with it.
    """

    def __init__(self, text: str, *, folded: bool = False) -> None:
        """Read `text`, whose small letters match capitals too if it is `folded`.

        Raises:
            ValueError: it is no expression.
        """
        self.text, self.slow = text, False
        self._pattern = _compiled(text, folded)
        self._dropped = self._unseen = False
        self._begun, self._next_look = math.nan, 0.0

    def drop(self) -> None:
        """Look for it no more: another one is wanted."""
        self._dropped, self._next_look = True, 0.0

    def begin(self) -> None:
        """Begin a stretch of lines, in the thread that will look through it."""
        self._begun, self._next_look = time.thread_time(), time.monotonic() + _LOOK_S

    def found_in(self, line: str) -> bool:
        """Whether it is found in a line.

        Raises:
            TooSlowError: the line, or the stretch so far, took too long; or it was dropped.
        """
        if time.monotonic() > self._next_look:
            self._look()
        try:
            return self._pattern.search(line, timeout=LINE_S) is not None
        except TimeoutError:
            self.slow = True
            raise TooSlowError(self.text) from None

    def spans(self, line: str) -> list[tuple[int, int]]:
        """Where it is found in a line that is about to be shown; nowhere if that is not seen at a glance."""
        if self.slow or self._unseen:
            return []
        try:
            return [match.span() for match in self._pattern.finditer(line, timeout=GLANCE_S)]
        except TimeoutError:
            self._unseen = True
            return []

    def _look(self) -> None:
        """See whether to go on. What other programs do to the clock on the wall is not its fault."""
        self.slow = self.slow or time.thread_time() - self._begun > STRETCH_S
        if self._dropped or self.slow:
            raise TooSlowError(self.text)
        self._next_look = time.monotonic() + _LOOK_S


def _compiled(text: str, folded: bool) -> regex.Pattern[str]:
    import regex

    if math.prod(max(int(times), 1) for times in _TIMES.findall(text)) > _MOST_REPEATS:
        # the engine writes such repetitions out
        raise ValueError("not a regular expression: it repeats something too often")
    try:
        return regex.compile(text, regex.IGNORECASE if folded else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None
