"""Where in a log somebody wants to go: a line's number, a share of all, or a time of day."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

_LINE = re.compile(r"\d{1,3}(?:[,_ ]\d{3})+|\d{1,15}")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?")


@dataclass(frozen=True, slots=True)
class Whither:
    """One of the three: a line counted from 1, a share from 0 to 1, seconds after midnight."""

    line: int | None = None
    share: float | None = None
    clock: float | None = None

    def ordinal(self, total: int) -> int:
        """Which of so many lines is meant, counted from 0; the nearest there is."""
        wanted = self.line - 1 if self.line is not None else round((self.share or 0.0) * (total - 1))
        return min(max(wanted, 0), max(total - 1, 0))

    def moment(self, near: float) -> float:
        """The time that is meant, on the day of another one, both in seconds since the epoch."""
        day = time.localtime(near)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        return midnight + (self.clock or 0.0)


def whither(text: str) -> Whither:
    """What was typed: ``1204511`` or ``1,204,511``, ``50%``, ``12:04`` or ``12:04:38.5``.

    Raises:
        ValueError: it is none of these.
    """
    text = text.strip()
    if _LINE.fullmatch(text):
        return Whither(line=int(re.sub(r"\D", "", text)))
    if (found := _SHARE.fullmatch(text)) and float(found[1]) <= 100:
        return Whither(share=float(found[1]) / 100)
    if (found := _CLOCK.fullmatch(text)) and int(found[1]) < 24:
        return Whither(clock=int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3] or 0))
    raise ValueError(f"{text!r} is no line, time or share: 1200, 12:04:38 or 50%")
