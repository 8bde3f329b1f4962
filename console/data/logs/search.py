"""Searching lines: filters by text and level, regular expressions with a time limit, and places to go to.

`re` holds the interpreter's lock while it matches, which blocks all threads. The `regex` library, which is
used here, releases it and supports a timeout.
"""

from __future__ import annotations

import enum
import math
import re
import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from launcher.runs.logs.line_index import LineIndex
from launcher.runs.logs.rows import SHIFT
from launcher.runs.logs.text import plain

if TYPE_CHECKING:
    import regex

_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w+(?:Error|Exception)\b)")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w+Warning:")
_ERROR_NEEDLES = (b"ERROR", b"CRITICAL", b"FATAL", b"Traceback", b"Error", b"Exception")
_WARNING_NEEDLES = (b"WARN", b"Warning:")
_ATOM = re.compile(r"(?:\\[dDwWsSbBAZ]|[.^$]|\\([^\w\s])|([^\\|()\[\]{}*+?.^$]))([*+?]*)", re.ASCII)


class Level(enum.IntEnum):
    """The severity of a line, judged by its words."""

    ALL = 0
    WARNING = 1
    ERROR = 2

    @property
    def after(self) -> Level:
        """The next level; after the last comes the first."""
        return Level((self + 1) % len(Level))


def level_of(text: str) -> Level:
    """The level of a line, by its words."""
    if _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.ALL


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Passes lines of at least a level that match an expression, or with `invert` that do not match it.

    Attributes:
        needles: texts of which every passing line of printable ASCII contains one; empty if unknown.
        folded: whether the needles ignore case.
    """

    pattern: Expression | None = None
    level: Level = Level.ALL
    invert: bool = False
    needles: tuple[bytes, ...] = ()
    folded: bool = False

    def passes(self, text: str) -> bool:
        """Whether a line passes.

        Raises:
            TooSlowError: matching takes too long.
        """
        return self._is_bad_enough(text) and (
            self.pattern is None or self.pattern.found_in(text) != self.invert
        )

    def passes_at_once(self, text: str) -> bool:
        """Whether a line that is about to be shown passes; matching that exceeds `GLANCE_S` finds nothing."""
        return self._is_bad_enough(text) and (
            self.pattern is None or bool(self.pattern.spans(text)) != self.invert
        )

    def _is_bad_enough(self, text: str) -> bool:
        return not self.level or level_of(text) >= self.level


def line_filter_of(text: str, level: Level = Level.ALL, *, invert: bool = False) -> LineFilter:
    """The filter of a regular expression; one without capitals ignores case, an empty one passes all.

    Raises:
        ValueError: the text is not a regular expression.
    """
    folded = not any(c.isupper() for c in text)
    pattern = Expression(text, folded=folded) if text else None
    if pattern is not None and not invert and (needle := required(text)):
        return LineFilter(pattern, level, needles=(needle.encode(),), folded=folded)
    return LineFilter(pattern, level, invert, needles=_needles(level))


def filter_of(text: str, level: Level = Level.ALL) -> LineFilter:
    """The filter of a typed text: an exclamation mark before the expression inverts it.

    Raises:
        ValueError: the text is not a regular expression.
    """
    return line_filter_of(text.removeprefix("!"), level, invert=text.startswith("!") and len(text) > 1)


def required(expression: str) -> str:
    """The longest text that every match of a regular expression contains; empty if not easily found."""
    runs, at = [""], 0
    while at < len(expression):
        atom = _ATOM.match(expression, at)
        if atom is None or not expression.isascii():
            return ""
        literal, repeat, at = atom[1] or atom[2] or "", atom[3], atom.end()
        runs[-1] += literal if not repeat or repeat.startswith("+") else ""
        if repeat or not literal:
            runs.append("")
    return max(runs, key=len)


def _needles(level: Level) -> tuple[bytes, ...]:
    if level is Level.ALL:
        return ()
    return _ERROR_NEEDLES if level is Level.ERROR else (*_ERROR_NEEDLES, *_WARNING_NEEDLES)


_CONTROLS = bytes(c for c in range(32) if c != 10) + b"\x7f"
_NOTHING = LineFilter()


@dataclass(slots=True)
class Search:
    """A search or a filter in progress, with the positions found so far, 4 bytes each.

    Attributes:
        pattern: the expression to highlight.
        rank: the only rank to search; None for all.
        filter: passes the lines to find.
        among: a filter whose lines are searched; positions are then among its lines.
        done: the number of the run's lines that have been searched.
    """

    pattern: Expression | None
    rank: int | None
    filter: LineFilter = _NOTHING
    among: Search | None = None
    found: array[int] = field(default_factory=lambda: array("I"))
    done: int = 0

    @property
    def slow(self) -> bool:
        """Whether the search was given up because it took too long."""
        return self.filter.pattern is not None and self.filter.pattern.slow

    def begin(self) -> None:
        """Start the time limit of a stretch of lines."""
        if self.filter.pattern is not None:
            self.filter.pattern.begin()

    def drop(self) -> None:
        """Cancel the search."""
        if self.filter.pattern is not None:
            self.filter.pattern.drop()

    def after(self, position: int) -> int | None:
        """The first match after `position`; after the last match, the first one; None without matches."""
        at = bisect_right(self.found, position)
        return self.found[at] if at < len(self.found) else (self.found[0] if self.found else None)

    def before(self, position: int) -> int | None:
        """The last match before `position`; before the first match, the last one; None without matches."""
        at = bisect_left(self.found, position) - 1
        return self.found[at] if self.found else None

    def ordinal(self, position: int) -> int | None:
        """The number, counted from 1, of the match at `position`; None if there is none."""
        at = bisect_left(self.found, position)
        return at + 1 if at < len(self.found) and self.found[at] == position else None

    def make_room(self, position: int) -> None:
        """Shift the matches from `position` on by one, for a new row there that does not match."""
        for at in range(bisect_left(self.found, position), len(self.found)):
            self.found[at] += 1

    def add(self, position: int) -> None:
        """Add a match, which comes after all before."""
        if self.among is not None:
            position = (self.among.ordinal(position) or 0) - 1
        if position >= 0:
            self.found.append(position)


def passing(index: LineIndex, start: int, end: int, line_filter: LineFilter, rank: int | None) -> list[int]:
    """The numbers of the lines from `start` to before `end`, all in one block, that pass.

    `rank` is the only rank whose lines count; None for all.

    Raises:
        TooSlowError: the search takes too long, or was cancelled.
    """
    number, first, _ = index.stretch(start)
    spans = index.spans(number)
    if spans is None:
        return list(_one_by_one(index, start, end, line_filter, rank))
    found: set[tuple[int, int]] = set()
    for key, begin, stop in spans:
        if rank is None or key >> SHIFT == rank:
            data = index.read(number, key, begin, stop)
            found.update((key, begin + offset) for offset in offsets(data, line_filter))
    if not found:
        return []
    rows = index.rows(number)
    places = enumerate(zip(rows.key, rows.start, strict=True), first)
    return [line for line, place in places if place in found and start <= line < end]


def offsets(data: bytes, line_filter: LineFilter) -> Iterable[int]:
    """The offsets of the passing lines in `data`, which consists of whole lines."""
    if not data.isascii() or len(data.translate(None, _CONTROLS)) < len(data):
        return _in_any(data, line_filter)
    if line_filter.needles:
        return _at_needles(data, line_filter)
    return _in_text(data.decode("ascii"), line_filter)


def _in_any(data: bytes, line_filter: LineFilter) -> Iterator[int]:
    at = 0
    for line in data.split(b"\n")[:-1]:
        if line_filter.passes(plain(line)):
            yield at
        at += len(line) + 1


def _in_text(text: str, line_filter: LineFilter) -> Iterator[int]:
    at = 0
    for line in text.split("\n")[:-1]:
        if line_filter.passes(line):
            yield at
        at += len(line) + 1


def _at_needles(data: bytes, line_filter: LineFilter) -> set[int]:
    haystack = data.lower() if line_filter.folded else data
    found: set[int] = set()
    for needle in line_filter.needles:
        at = haystack.find(needle)
        while at >= 0:
            start, end = haystack.rfind(b"\n", 0, at) + 1, haystack.find(b"\n", at)
            if start not in found and line_filter.passes(data[start:end].decode("ascii")):
                found.add(start)
            at = haystack.find(needle, end)
    return found


def _one_by_one(
    index: LineIndex, start: int, end: int, line_filter: LineFilter, rank: int | None
) -> Iterator[int]:
    number, first, _ = index.stretch(start)
    rows, extents = index.rows(number), dict[int, tuple[int, int]]()
    chosen = [at for at in range(start - first, end - first) if rank is None or rows.key[at] >> SHIFT == rank]
    for at in chosen:
        begin, _ = extents.get(rows.key[at], (rows.start[at], 0))
        extents[rows.key[at]] = begin, rows.start[at] + rows.length[at]
    texts = {key: index.read(number, key, *extent) for key, extent in extents.items()}
    for at in chosen:
        key = rows.key[at]
        begin = rows.start[at] - extents[key][0]
        if line_filter.passes(plain(texts[key][begin : begin + rows.length[at]])):
            yield first + at


LINE_S, STRETCH_S, GLANCE_S = 0.25, 2.0, 0.02
"""Time limits in seconds: for a line, for a stretch of lines (CPU time), for a line about to be shown."""

_MAX_REPEATS = 1_000_000
_CHECK_S = 0.1
_TIMES = re.compile(r"\{(\d+)")


class TooSlowError(Exception):
    """Matching an expression takes too long, or was cancelled."""


class Expression:
    """A regular expression with time limits.

    One thread calls `begin` and `found_in`; other threads may call `spans` and `drop`.

    Attributes:
        text: the expression as typed.
        slow: whether it took too long; it is then no longer used.
    """

    def __init__(self, text: str, *, folded: bool = False) -> None:
        """Compile `text`; with `folded` it ignores case.

        Raises:
            ValueError: the text is not a regular expression.
        """
        self.text, self.slow = text, False
        self._pattern = _compiled(text, folded)
        self._dropped = self._too_slow_to_show = False
        self._begun, self._next_check = math.nan, 0.0

    def drop(self) -> None:
        """Cancel: the searching thread gets a TooSlowError."""
        self._dropped, self._next_check = True, 0.0

    def begin(self) -> None:
        """Start the time limit of a stretch of lines, in the thread that searches it."""
        self._begun, self._next_check = time.thread_time(), time.monotonic() + _CHECK_S

    def found_in(self, line: str) -> bool:
        """Whether it matches in a line.

        Raises:
            TooSlowError: the line or the stretch so far took too long, or the search was cancelled.
        """
        if time.monotonic() > self._next_check:
            self._check()
        try:
            return self._pattern.search(line, timeout=LINE_S) is not None
        except TimeoutError:
            self.slow = True
            raise TooSlowError(self.text) from None

    def spans(self, line: str) -> list[tuple[int, int]]:
        """The matches in a line that is about to be shown; none if they are not found within `GLANCE_S`."""
        if self.slow or self._too_slow_to_show:
            return []
        try:
            return [match.span() for match in self._pattern.finditer(line, timeout=GLANCE_S)]
        except TimeoutError:
            self._too_slow_to_show = True
            return []

    def _check(self) -> None:
        """Check the time limit and cancellation. CPU time counts: a busy machine must not make it fail."""
        self.slow = self.slow or time.thread_time() - self._begun > STRETCH_S
        if self._dropped or self.slow:
            raise TooSlowError(self.text)
        self._next_check = time.monotonic() + _CHECK_S


def _compiled(text: str, folded: bool) -> regex.Pattern[str]:
    import regex

    if math.prod(max(int(times), 1) for times in _TIMES.findall(text)) > _MAX_REPEATS:
        # the library expands such repetitions when it compiles
        raise ValueError("not a regular expression: it repeats something too often")
    try:
        return regex.compile(text, regex.IGNORECASE if folded else 0)
    except (regex.error, OverflowError, RecursionError) as error:
        raise ValueError(f"not a regular expression: {error}") from None


_LINE = re.compile(r"\d{1,3}(?:[,_ ]\d{3})+|\d{1,15}")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?")


@dataclass(frozen=True, slots=True)
class LogDestination:
    """A place in a log, one of three: a line counted from 1, a share from 0 to 1, seconds after midnight."""

    line: int | None = None
    share: float | None = None
    clock: float | None = None

    def ordinal(self, total: int) -> int:
        """The line's number, counted from 0, in a log of `total` lines; the nearest existing one."""
        number = self.line - 1 if self.line is not None else round((self.share or 0.0) * (total - 1))
        return min(max(number, 0), max(total - 1, 0))

    def moment(self, near: float) -> float:
        """The time of day on the day of `near`, both in seconds since the epoch."""
        day = time.localtime(near)
        midnight = time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))
        return midnight + (self.clock or 0.0)


def parse_destination(text: str) -> LogDestination:
    """Parse ``1204511`` or ``1,204,511``, ``50%``, ``12:04`` or ``12:04:38.5``.

    Raises:
        ValueError: the text is none of these.
    """
    text = text.strip()
    if _LINE.fullmatch(text):
        return LogDestination(line=int(re.sub(r"\D", "", text)))
    if (match := _SHARE.fullmatch(text)) and float(match[1]) <= 100:
        return LogDestination(share=float(match[1]) / 100)
    if (match := _CLOCK.fullmatch(text)) and int(match[1]) < 24:
        return LogDestination(clock=int(match[1]) * 3600 + int(match[2]) * 60 + float(match[3] or 0))
    raise ValueError(f"{text!r} is no line, time or share: 1200, 12:04:38 or 50%")
