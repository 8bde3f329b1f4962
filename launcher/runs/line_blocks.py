"""Where a run's lines are, a block of them at a time: ten million lines take some hundred kilobytes.

A block is a stretch of records. What a block's lines are is found again from its records and bytes, so of
most blocks only the number of the first line is kept, and where each stream stood.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from launcher.runs.line_rows import Rows, Stream


@dataclass(slots=True)
class Block:
    """A stretch of one attempt's records.

    Attributes:
        position: where its records begin in their file.
        records: how many there are.
        size: bytes of output that they promise.
        exact: whether its bytes were all there when its records came, so that it can be found again.
        even: whether no line of it was split.
        rows: its lines, of the last block and of those that are not exact.
    """

    attempt: int
    position: int
    records: int = 0
    size: int = 0
    exact: bool = True
    even: bool = True
    rows: Rows | None = None


@dataclass(slots=True)
class _Counts:
    """In which blocks a rank has lines, and how many before each."""

    blocks: array[int] = field(default_factory=lambda: array("I"))
    before: array[int] = field(default_factory=lambda: array("Q"))
    total: int = 0


@dataclass(slots=True)
class _Places:
    """Which blocks touch a stream, and where it stood before each.

    That is bytes read, its last line's start, and where what stands of that begins: twice, and one more if it
    is to be overwritten.
    """

    blocks: array[int] = field(default_factory=lambda: array("I"))
    end: array[int] = field(default_factory=lambda: array("Q"))
    start: array[int] = field(default_factory=lambda: array("Q"))
    seg: array[int] = field(default_factory=lambda: array("Q"))


class Blocks:
    """All blocks of a run, in order."""

    def __init__(self) -> None:
        self._list: list[Block] = []
        self._first = array("Q")
        self._when = array("d")
        self._counts: dict[int, _Counts] = {}
        self._places: dict[int, dict[int, _Places]] = {}

    def __len__(self) -> int:
        return len(self._list)

    def __getitem__(self, number: int) -> Block:
        return self._list[number]

    def first(self, number: int) -> int:
        """The number of a block's first line."""
        return self._first[number]

    def add(self, block: Block, first: int, time: float) -> None:
        """Begin a block."""
        self._first.append(first)
        self._when.append(time)
        self._list.append(block)

    def touch(self, number: int, attempt: int, stream: Stream) -> None:
        """Remember where a stream stands before a block, once a block."""
        places = self._places.setdefault(attempt, {}).setdefault(stream.key, _Places())
        if not places.blocks or places.blocks[-1] != number:
            places.blocks.append(number)
            places.end.append(stream.end)
            places.start.append(stream.start)
            places.seg.append(stream.seg << 1 | stream.returned)

    def seal(self, number: int, counts: Mapping[int, int]) -> None:
        """A block is complete: so many lines of each rank are in it."""
        for rank, count in counts.items():
            if count:
                known = self._counts.setdefault(rank, _Counts())
                known.blocks.append(number)
                known.before.append(known.total)
                known.total += count

    def holding(self, line: int) -> int:
        """The block of a line."""
        return bisect_right(self._first, line) - 1

    def at_time(self, time: float) -> int:
        """The block in which the first line is that came at a time or after it."""
        return max(bisect_left(self._when, time) - 1, 0)

    def total(self, rank: int) -> int:
        """How many lines of a rank are in complete blocks."""
        return self._counts[rank].total if rank in self._counts else 0

    def before(self, rank: int, number: int) -> int:
        """How many lines of a rank are in the complete blocks before one."""
        counts = self._counts.get(rank)
        if counts is None:
            return 0
        at = bisect_left(counts.blocks, number)
        return counts.before[at] if at < len(counts.blocks) else counts.total

    def holding_of(self, rank: int, ordinal: int) -> tuple[int, int]:
        """The complete block of a rank's line, and which of the rank's lines in it that is."""
        counts = self._counts[rank]
        at = bisect_right(counts.before, ordinal) - 1
        return counts.blocks[at], ordinal - counts.before[at]

    def streams(self, number: int) -> Iterator[Stream]:
        """The streams that a block touches, as they stood before it."""
        for key, places, at in self._touched(number):
            end, seg = places.end[at], places.seg[at]
            yield Stream(key, end, end, places.start[at], seg >> 1, bool(seg & 1))

    def spans(self, number: int, streams: Mapping[int, Stream]) -> Iterator[tuple[int, int, int]]:
        """Key, start and end of each stream's lines in a block; `streams` as they stand now."""
        for key, places, at in self._touched(number):
            last = at + 1 == len(places.blocks)
            yield key, places.start[at], streams[key].start if last else places.start[at + 1]

    def _touched(self, number: int) -> Iterator[tuple[int, _Places, int]]:
        for key, places in list(self._places.get(self._list[number].attempt, {}).items()):
            at = bisect_left(places.blocks, number)
            if at < len(places.blocks) and places.blocks[at] == number:
                yield key, places, at
