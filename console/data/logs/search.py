"""Looking for lines: filters by text and level, regular expressions with a time limit, and places to go to.

`re` holds every thread of the interpreter for as long as it looks. The engine that is used here lets
others run meanwhile, and gives up in time.
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

from ...sanitize import plain

if TYPE_CHECKING:
    import regex

_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w+(?:Error|Exception)\b)")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w+Warning:")
_SAYS_ERROR = (b"ERROR", b"CRITICAL", b"FATAL", b"Traceback", b"Error", b"Exception")
_SAYS_WARNING = (b"WARN", b"Warning:")
_ATOM = re.compile(r"(?:\\[dDwWsSbBAZ]|[.^$]|\\([^\w\s])|([^\\|()\[\]{}*+?.^$]))([*+?]*)", re.ASCII)


class Level(enum.IntEnum):
    """How bad a line is, as far as its words tell."""

    ALL = 0
    WARNING = 1
    ERROR = 2

    @property
    def after(self) -> Level:
        """The next one, or the first after the last."""
        return Level((self + 1) % len(Level))


def level_of(text: str) -> Level:
    """What the words of a line say."""
    if _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.ALL


@dataclass(frozen=True, slots=True)
class LineFilter:
    """What passes: lines of a level or worse in which an expression is found, or is not.

    Attributes:
        needles: a line of printable ASCII that passes has one of these; none if that cannot be told.
        folded: whether the needles stand for their capitals too.
    """

    pattern: Expression | None = None
    level: Level = Level.ALL
    invert: bool = False
    needles: tuple[bytes, ...] = ()
    folded: bool = False

    def passes(self, text: str) -> bool:
        """Whether a line passes.

        Raises:
            TooSlowError: that takes too long.
        """
        return self._is_bad_enough(text) and (
            self.pattern is None or self.pattern.found_in(text) != self.invert
        )

    def seems_to_pass(self, text: str) -> bool:
        """The same at a glance, for a line that is about to be shown: what takes longer is not found."""
        return self._is_bad_enough(text) and (
            self.pattern is None or bool(self.pattern.spans(text)) != self.invert
        )

    def _is_bad_enough(self, text: str) -> bool:
        return not self.level or level_of(text) >= self.level


def line_filter_of(text: str, level: Level = Level.ALL, *, invert: bool = False) -> LineFilter:
    """A sieve for a regular expression. Small letters match capitals too. An empty one lets all through.

    Raises:
        ValueError: the expression is none.
    """
    folded = not any(c.isupper() for c in text)
    pattern = Expression(text, folded=folded) if text else None
    if pattern is not None and not invert and (needle := required(text)):
        return LineFilter(pattern, level, needles=(needle.encode(),), folded=folded)
    return LineFilter(pattern, level, invert, needles=_needles(level))


def filter_of(text: str, level: Level = Level.ALL) -> LineFilter:
    """The same as a filter is typed: after an exclamation mark, what does not match passes.

    Raises:
        ValueError: the expression is none.
    """
    return line_filter_of(text.removeprefix("!"), level, invert=text.startswith("!") and len(text) > 1)


def required(expression: str) -> str:
    """The longest text that every match of a regular expression has; empty where that is not seen at once."""
    runs, at = [""], 0
    while at < len(expression):
        atom = _ATOM.match(expression, at)
        if atom is None or not expression.isascii():
            return ""
        literal, often, at = atom[1] or atom[2] or "", atom[3], atom.end()
        runs[-1] += literal if not often or often.startswith("+") else ""
        if often or not literal:
            runs.append("")
    return max(runs, key=len)


def _needles(level: Level) -> tuple[bytes, ...]:
    if level is Level.ALL:
        return ()
    return _SAYS_ERROR if level is Level.ERROR else (*_SAYS_ERROR, *_SAYS_WARNING)


_CONTROLS = bytes(c for c in range(32) if c != 10) + b"\x7f"
_NOTHING = LineFilter()


@dataclass(slots=True)
class Search:
    """Looking for lines: what for, among which, and the positions found so far, 4 bytes each.

    Attributes:
        pattern: what to highlight.
        among: a filter, among whose lines is looked; positions are then among those.
        done: how many lines of the run have been looked through.
    """

    pattern: Expression | None
    rank: int | None
    sieve: LineFilter = _NOTHING
    among: Search | None = None
    found: array[int] = field(default_factory=lambda: array("I"))
    done: int = 0

    @property
    def slow(self) -> bool:
        """Whether the looking was given up, because it took too long."""
        return self.sieve.pattern is not None and self.sieve.pattern.slow

    def begin(self) -> None:
        """A stretch of lines is about to be looked through."""
        if self.sieve.pattern is not None:
            self.sieve.pattern.begin()

    def drop(self) -> None:
        """Nobody waits for more."""
        if self.sieve.pattern is not None:
            self.sieve.pattern.drop()

    def after(self, position: int) -> int | None:
        """The first match after `position`, or the very first one."""
        at = bisect_right(self.found, position)
        return self.found[at] if at < len(self.found) else (self.found[0] if self.found else None)

    def before(self, position: int) -> int | None:
        """The last match before `position`, or the very last one."""
        at = bisect_left(self.found, position) - 1
        return self.found[at] if self.found else None

    def ordinal(self, position: int) -> int | None:
        """Which match, counted from 1, lies at `position`."""
        at = bisect_left(self.found, position)
        return at + 1 if at < len(self.found) and self.found[at] == position else None

    def make_room(self, position: int) -> None:
        """A row that is no match has come in at `position`."""
        for at in range(bisect_left(self.found, position), len(self.found)):
            self.found[at] += 1

    def add(self, position: int) -> None:
        """A match was found; positions grow."""
        place = position if self.among is None else (self.among.ordinal(position) or 0) - 1
        if place >= 0:
            self.found.append(place)


def passing(index: LineIndex, start: int, end: int, sieve: LineFilter, rank: int | None) -> list[int]:
    """The numbers of the lines that pass, from `start` to before `end`, which are in one block.

    `rank` is the only one whose lines count, or None.

    Raises:
        TooSlowError: that takes too long, or nobody waits for it any more.
    """
    number, first, _ = index.stretch(start)
    spans = index.spans(number)
    if spans is None:
        return list(_one_by_one(index, start, end, sieve, rank))
    found: set[tuple[int, int]] = set()
    for key, begin, stop in spans:
        if rank is None or key >> SHIFT == rank:
            data = index.read(number, key, begin, stop)
            found.update((key, begin + offset) for offset in offsets(data, sieve))
    if not found:
        return []
    rows = index.rows(number)
    places = enumerate(zip(rows.key, rows.start, strict=True), first)
    return [line for line, place in places if place in found and start <= line < end]


def offsets(data: bytes, sieve: LineFilter) -> Iterable[int]:
    """Where in whole lines those begin that pass."""
    if not data.isascii() or len(data.translate(None, _CONTROLS)) < len(data):
        return _in_any(data, sieve)
    if sieve.needles:
        return _at_needles(data, sieve)
    return _in_text(data.decode("ascii"), sieve)


def _in_any(data: bytes, sieve: LineFilter) -> Iterator[int]:
    at = 0
    for line in data.split(b"\n")[:-1]:
        if sieve.passes(plain(line)):
            yield at
        at += len(line) + 1


def _in_text(text: str, sieve: LineFilter) -> Iterator[int]:
    at = 0
    for line in text.split("\n")[:-1]:
        if sieve.passes(line):
            yield at
        at += len(line) + 1


def _at_needles(data: bytes, sieve: LineFilter) -> set[int]:
    hay = data.lower() if sieve.folded else data
    found: set[int] = set()
    for needle in sieve.needles:
        at = hay.find(needle)
        while at >= 0:
            start, end = hay.rfind(b"\n", 0, at) + 1, hay.find(b"\n", at)
            if start not in found and sieve.passes(data[start:end].decode("ascii")):
                found.add(start)
            at = hay.find(needle, end)
    return found


def _one_by_one(index: LineIndex, start: int, end: int, sieve: LineFilter, rank: int | None) -> Iterator[int]:
    number, first, _ = index.stretch(start)
    rows, extents = index.rows(number), dict[int, tuple[int, int]]()
    wanted = [at for at in range(start - first, end - first) if rank is None or rows.key[at] >> SHIFT == rank]
    for at in wanted:
        begin, _ = extents.get(rows.key[at], (rows.start[at], 0))
        extents[rows.key[at]] = begin, rows.start[at] + rows.length[at]
    texts = {key: index.read(number, key, *extent) for key, extent in extents.items()}
    for at in wanted:
        key = rows.key[at]
        begin = rows.start[at] - extents[key][0]
        if sieve.passes(plain(texts[key][begin : begin + rows.length[at]])):
            yield first + at


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


_LINE = re.compile(r"\d{1,3}(?:[,_ ]\d{3})+|\d{1,15}")
_SHARE = re.compile(r"(\d{1,3}(?:\.\d+)?) ?%")
_CLOCK = re.compile(r"(\d{1,2}):([0-5]\d)(?::([0-5]\d(?:\.\d{1,9})?))?")


@dataclass(frozen=True, slots=True)
class LogDestination:
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


def parse_destination(text: str) -> LogDestination:
    """What was typed: ``1204511`` or ``1,204,511``, ``50%``, ``12:04`` or ``12:04:38.5``.

    Raises:
        ValueError: it is none of these.
    """
    text = text.strip()
    if _LINE.fullmatch(text):
        return LogDestination(line=int(re.sub(r"\D", "", text)))
    if (found := _SHARE.fullmatch(text)) and float(found[1]) <= 100:
        return LogDestination(share=float(found[1]) / 100)
    if (found := _CLOCK.fullmatch(text)) and int(found[1]) < 24:
        return LogDestination(clock=int(found[1]) * 3600 + int(found[2]) * 60 + float(found[3] or 0))
    raise ValueError(f"{text!r} is no line, time or share: 1200, 12:04:38 or 50%")
