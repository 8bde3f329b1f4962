"""Looking for lines, a block of output at a time: which of them pass a sieve, and where they are."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from console.sources.cleaning import plain
from console.sources.expression import Expression
from console.sources.sieve import Sieve
from launcher.runs.line_rows import SHIFT
from launcher.runs.lines import LineIndex

_CONTROLS = bytes(c for c in range(32) if c != 10) + b"\x7f"
_NOTHING = Sieve()


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
    sieve: Sieve = _NOTHING
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


def passing(index: LineIndex, start: int, end: int, sieve: Sieve, rank: int | None) -> list[int]:
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


def offsets(data: bytes, sieve: Sieve) -> Iterable[int]:
    """Where in whole lines those begin that pass."""
    if not data.isascii() or len(data.translate(None, _CONTROLS)) < len(data):
        return _in_any(data, sieve)
    if sieve.needles:
        return _at_needles(data, sieve)
    return _in_text(data.decode("ascii"), sieve)


def _in_any(data: bytes, sieve: Sieve) -> Iterator[int]:
    at = 0
    for line in data.split(b"\n")[:-1]:
        if sieve.passes(plain(line)):
            yield at
        at += len(line) + 1


def _in_text(text: str, sieve: Sieve) -> Iterator[int]:
    at = 0
    for line in text.split("\n")[:-1]:
        if sieve.passes(line):
            yield at
        at += len(line) + 1


def _at_needles(data: bytes, sieve: Sieve) -> set[int]:
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


def _one_by_one(index: LineIndex, start: int, end: int, sieve: Sieve, rank: int | None) -> Iterator[int]:
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
