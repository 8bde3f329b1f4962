"""Index the lines of a run's output, merged in the order of arrival, by position rather than by content.

A line has the time at which its end arrived. Consecutive records form a block. Of most blocks only the number
of the first line is kept, and each stream's position before the block: the block's lines are located again
from its records and bytes when one is read. So a view of millions of lines costs what is on the screen.

Most of an existing folder is only skimmed: the newlines in whole blocks are counted.
"""

from __future__ import annotations

import threading
from array import array
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

from ...state.events import PartUnreadable
from . import writer
from .files import LogFiles
from .rows import SHIFT, Rows, StreamPosition, fits

_CACHED_LINES = 200_000


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one rank, without its newline; `open` if the newline has not come yet."""

    time: float
    rank: int
    stream: int
    data: bytes
    open: bool = False


class LineIndex:
    """Every line of a run, growing with its folder: of all its attempts in order, or of one.

    `len(index)` counts whole lines; `open_lines()` returns the unfinished last line of each stream, such as
    a progress bar. An attempt's unfinished lines become whole lines when the next attempt begins. A line that
    is longer than `longest` bytes is reduced to what no carriage return has overwritten, so that a bar is one
    line however long it runs; if that is longer too, it is split for display, between two characters. The
    files are not changed. Bytes that a record promises and a file does not have (a folder copied while it
    grew) are left out, and added if they come later.

    One thread calls `poll`; others may read lines meanwhile. `block` is the size of a block in bytes of
    output: what is read at once to locate a line.
    """

    def __init__(
        self, run: Path, attempt: int | None = None, *, longest: int = 1 << 16, block: int = 1 << 19
    ) -> None:
        self._longest = longest
        self._intake = Intake(run, attempt, longest=longest, block=block)
        self._blocks, self._files = self._intake.blocks, self._intake.files
        self._lock = self._intake.lock
        self._cache_lock = threading.Lock()
        self._cache: OrderedDict[int, Rows] = OrderedDict()
        self._cached = 0

    def __len__(self) -> int:
        with self._lock:
            return self._intake.sealed + len(self._intake.tail or ())

    def poll(self, limit: int = 8 << 20) -> bool:
        """Index at most about `limit` bytes of output; return whether there was anything new."""
        return self._intake.poll(limit)

    @property
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """The files and the records that could not be read."""
        return tuple(self._files.unreadable.values())

    @property
    def begins(self) -> tuple[tuple[int, int], ...]:
        """For each attempt after the first that was indexed: its number, and the number of its first line."""
        return self._intake.begins

    @property
    def written(self) -> dict[int, float]:
        """When each rank last wrote in the current attempt, in seconds since the epoch."""
        newest: dict[int, float] = {}
        for stream in list(self._intake.streams.values()):
            if stream.end:
                rank = stream.key >> SHIFT
                newest[rank] = max(stream.opened, newest.get(rank, 0.0))
        return newest

    def line(self, i: int) -> Line:
        """Line number `i`, counted from 0."""
        number, at = self._locate(i)
        rows = self.rows(number)
        key = rows.key[at]
        data = self._files.read(key, self._blocks[number].attempt, rows.start[at], rows.length[at])
        return Line(rows.time[at], key >> SHIFT, key & 3, data)

    def owner(self, i: int) -> tuple[int, int]:
        """Rank and stream of line `i`, without reading it."""
        number, at = self._locate(i)
        key = self.rows(number).key[at]
        return key >> SHIFT, key & 3

    def number(self, rank: int, ordinal: int) -> int:
        """The number of a rank's line among all lines, given its number among the rank's."""
        with self._lock:
            sealed = self._blocks.total(rank)
            if ordinal >= sealed:
                assert self._intake.tail is not None
                return self._intake.sealed + self._intake.tail.of_rank[rank][ordinal - sealed]
            number, at = self._blocks.holding_of(rank, ordinal)
        return self._blocks.first(number) + self.rows(number).of_rank[rank][at]

    def before(self, rank: int, i: int) -> int:
        """How many lines of a rank there are before line `i`; `i` may be `len(index)`."""
        with self._lock:
            if not len(self._blocks):
                return 0
            number = self._blocks.holding(i)
            before, at = self._blocks.before(rank, number), i - self._blocks.first(number)
        return before + (bisect_left(self.rows(number).of_rank.get(rank, ()), at) if at else 0)

    def at_time(self, time: float) -> int:
        """The number of the first line that came at `time`, in seconds since the epoch, or later."""
        if not len(self):
            return 0
        number = self._blocks.at_time(time)
        return self._blocks.first(number) + bisect_left(self.rows(number).time, time)

    def open_lines(self) -> list[Line]:
        """The unfinished lines, oldest first; of those that are too long, what was not overwritten."""
        lines = []
        for stream in self._intake.streams.values():
            start, length = stream.line_up_to(stream.end, self._longest)
            if length:
                data = self._files.read(stream.key, self._files.attempt, start, length)
                lines.append(Line(stream.opened, stream.key >> SHIFT, stream.key & 3, data, open=True))
        return sorted(lines, key=lambda line: line.time)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    # --- blocks: for callers that read many lines ------------------------------------------------------

    def stretch(self, i: int) -> tuple[int, int, int]:
        """The block of line `i`, the number of its first line, and the number after its last one so far."""
        with self._lock:
            number = self._blocks.holding(i)
            first = self._blocks.first(number)
            return number, first, first + self._count(number)

    def rows(self, number: int) -> Rows:
        """The lines of a block, by position."""
        block = self._blocks[number]
        if (rows := block.rows) is not None:
            return rows
        with self._cache_lock:
            if number in self._cache:
                self._cache.move_to_end(number)
                return self._cache[number]
        return self._cache_rows(number, self._locate_rows(number))

    def spans(self, number: int) -> list[tuple[int, int, int]] | None:
        """Key, start and end of each stream's lines in a block.

        None if a line was split or shortened, and for blocks that keep their `rows`.
        """
        block = self._blocks[number]
        if not block.even or block.rows is not None:
            return None
        with self._lock:
            return list(self._blocks.spans(number, self._intake.streams))

    def read(self, number: int, key: int, start: int, end: int) -> bytes:
        """Read a stream's bytes in the attempt that a block belongs to."""
        return self._files.read(key, self._blocks[number].attempt, start, end - start)

    def _locate(self, i: int) -> tuple[int, int]:
        with self._lock:
            if not 0 <= i < len(self):
                raise IndexError(i)
            number = self._blocks.holding(i)
            return number, i - self._blocks.first(number)

    def _locate_rows(self, number: int) -> Rows:
        """Locate the lines of a block again; those that the folder no longer has become empty."""
        block, rows = self._blocks[number], Rows(self._longest)
        batch = self._files.records(block.attempt, block.position, block.records)
        if batch is not None:
            self._walk(number, Batch(batch), rows)
        rows.pad(self._count(number))
        return rows

    def _count(self, number: int) -> int:
        with self._lock:
            last = number + 1 == len(self._blocks)
            return (len(self) if last else self._blocks.first(number + 1)) - self._blocks.first(number)

    def _walk(self, number: int, batch: Batch, rows: Rows) -> None:
        attempt = self._blocks[number].attempt
        with self._lock:
            streams = {stream.key: stream for stream in self._blocks.streams(number)}
        sizes = batch.sizes(0, len(batch.keys))
        texts = {k: self._files.read(k, attempt, s.end, sizes.get(k, 0)) for k, s in streams.items()}
        ends = dict.fromkeys(streams, 0)
        for time_ns, key, length in zip(batch.times, batch.keys, batch.lengths, strict=True):
            low, text = ends[key], texts[key]
            ends[key] = high = min(low + length, len(text))
            rows.take(streams[key], text, low, high, time_ns / 1e9)

    def _cache_rows(self, number: int, rows: Rows) -> Rows:
        with self._cache_lock:
            if number not in self._cache:
                self._cached += len(rows)
            self._cache[number] = rows
            while self._cached > _CACHED_LINES and len(self._cache) > 1:
                self._cached -= len(self._cache.popitem(last=False)[1])
        return rows


_RECORDS = 4096
_LINES = 16_000
_ENDS = (b"\n", b"\r")  # of the visible part of a line


class Batch:
    """Records that were read at once."""

    def __init__(self, columns: writer.Columns) -> None:
        self.times, self.lengths = columns.times, columns.lengths
        self.keys = [r << SHIFT | s for r, s in zip(columns.ranks, columns.streams, strict=True)]
        self._ends = [0, *accumulate(self.lengths)]

    def __len__(self) -> int:
        return len(self.keys)

    def block(self, begin: int, size: int) -> int:
        """The end of a block of at least `size` bytes or `_RECORDS` records; 0 if the batch has fewer."""
        end = bisect_left(self._ends, self._ends[begin] + size, begin + 1)
        if end <= len(self):
            return end
        return len(self) if len(self) - begin == _RECORDS else 0

    def size(self, begin: int, end: int) -> int:
        """Bytes that the records from `begin` to `end` promise."""
        return self._ends[end] - self._ends[begin]

    def sizes(self, begin: int, end: int) -> dict[int, int]:
        """Bytes that these records promise, by stream."""
        sizes: dict[int, int] = {}
        for key, length in zip(self.keys[begin:end], self.lengths[begin:end], strict=True):
            sizes[key] = sizes.get(key, 0) + length
        return sizes

    def newest(self, begin: int, end: int) -> dict[int, float]:
        """When the last of these records came, by stream, in seconds since the epoch."""
        last = dict(zip(self.keys[begin:end], self.times[begin:end], strict=True))
        return {key: time / 1e9 for key, time in last.items()}


class Intake:
    """Divides a run's output into blocks. One thread calls `poll`; others may read while they hold the lock.

    Attributes:
        sealed: the number of lines in complete blocks.
        tail: the lines of the last block while it is not complete.
        streams: the positions of the current attempt's streams, by key.
        begins: for each attempt after the first: its number, and the number of its first line.
    """

    def __init__(self, run: Path, attempt: int | None, *, longest: int, block: int) -> None:
        self._longest, self._largest = longest, block
        self._size = block
        self._only = attempt is not None
        self.lock = threading.RLock()
        self.files = LogFiles(run, attempt or 0)
        self.blocks = Blocks()
        self.begins: tuple[tuple[int, int], ...] = ()
        self.sealed = 0
        self.tail: Rows | None = None
        self._begin_attempt()

    def _begin_attempt(self) -> None:
        """Begin before the first record of the current attempt."""
        self._position = len(writer.MAGIC)
        self.streams: dict[int, StreamPosition] = {}
        self._latest = 0.0

    def poll(self, limit: int) -> bool:
        """Index at most about `limit` bytes of output; return whether there was anything new."""
        taken, moved = 0, False
        while taken < limit:
            # before reading records: an attempt's last ones are written before the next attempt begins
            following = None if self._only else self.files.following()
            batch = self.files.records(self.files.attempt, self._position, _RECORDS)
            if batch is not None:
                before = self._position
                taken += self._index_batch(Batch(batch), limit)
                taken += self._position - before
                self._note_wrong(batch, before)
            elif following is None:
                break
            else:
                with self.lock:
                    self._advance(following)
                moved = True
        return moved or taken > 0

    def _note_wrong(self, batch: writer.Columns, position: int) -> None:
        """Note which of the indexed records are invalid."""
        if batch.wrong:
            first, end = ((at - len(writer.MAGIC)) // writer.SIZE for at in (position, self._position))
            taken = batch.wrong[: bisect_left(batch.wrong, end - first)]
            if taken:
                self.files.note_wrong(self.files.attempt, first, taken)

    def _index_batch(self, batch: Batch, limit: int) -> int:
        indexed = at = 0
        while at < len(batch) and indexed < limit:
            end = batch.block(at, self._size) if self.tail is None else 0
            if end and self._skim(batch, at, end):
                indexed += batch.size(at, end)
                at = end
                continue
            if not end and at and len(batch) == _RECORDS and self.tail is None:
                break  # the rest is the beginning of a block: read on from there
            indexed += self._index_record(batch.keys[at], batch.lengths[at], batch.times[at] / 1e9)
            at += 1
        return indexed

    # --- whole blocks ---------------------------------------------------------------------------------

    def _skim(self, batch: Batch, begin: int, end: int) -> bool:
        """Count the lines of a block; False if bytes are missing or a line may have to be split."""
        parts, even = [], True
        for key, size in batch.sizes(begin, end).items():
            stream = self.streams.get(key) or StreamPosition(key)
            data = self._read_whole(stream, size)
            if data is None:
                return False
            even = even and fits(data, stream.end - stream.start, self._longest)
            parts.append((stream, data))
        with self.lock:
            self._add_block(batch.times[begin] / 1e9)
            block = self.blocks[-1]
            block.records, block.size, block.even = end - begin, batch.size(begin, end), even
            self._position += (end - begin) * writer.SIZE
            self._count(parts, batch.newest(begin, end))
        return True

    def _read_whole(self, stream: StreamPosition, size: int) -> bytes | None:
        if not stream.whole:
            return None
        data = self.files.read(stream.key, self.files.attempt, stream.end, size)
        if len(data) < size or not fits(data, stream.standing, self._longest, _ENDS):
            return None
        return data

    def _count(self, parts: list[tuple[StreamPosition, bytes]], newest: dict[int, float]) -> None:
        counts: dict[int, int] = {}
        number = len(self.blocks) - 1
        for stream, data in parts:
            self.streams[stream.key] = stream
            self.blocks.touch(number, self.files.attempt, stream)
            rest = data.rfind(b"\n") + 1
            if rest:
                stream.begin_line(stream.end + rest)
            stream.write_over(data, rest, len(data), stream.end)
            stream.promised += len(data)
            stream.end += len(data)
            stream.opened = newest[stream.key]
            self._latest = max(self._latest, stream.opened)
            counts[stream.key >> SHIFT] = counts.get(stream.key >> SHIFT, 0) + data.count(b"\n")
        self._seal(counts)

    def _add_block(self, time: float) -> None:
        self.blocks.add(Block(self.files.attempt, self._position), self.sealed, time)

    def _seal(self, counts: dict[int, int]) -> None:
        """Complete the last block; make the next one smaller if this one has too many lines."""
        self.blocks.seal(len(self.blocks) - 1, counts)
        lines = sum(counts.values())
        self.sealed += lines
        if lines > _LINES:
            self._size = max(self._size * _LINES // lines, 1)
        else:
            self._size = min(self._size * 2, self._largest)

    # --- line by line ---------------------------------------------------------------------------------

    def _index_record(self, key: int, length: int, time: float) -> int:
        """Index one record; return how many bytes were read, which may be fewer than it promises."""
        known = self.streams.get(key) or StreamPosition(key)
        data = self._read_missing(known, length)  # without the lock, which other threads may need
        with self.lock:
            stream = self._touch(key, time)
            exact, stream.promised = stream.whole, stream.promised + length
            self._index_bytes(stream, data, time)
            self._count_record(length, time, exact=exact and stream.whole)
        return len(data)

    def _count_record(self, length: int, time: float, *, exact: bool) -> None:
        """Count one more record in the last block."""
        block, self._latest = self.blocks[-1], time
        block.exact = block.exact and exact
        block.records += 1
        block.size += length
        self._position += writer.SIZE
        assert self.tail is not None
        if block.records >= _RECORDS or block.size >= self._size or len(self.tail) >= _LINES:
            self._seal_tail()

    def _touch(self, key: int, time: float) -> StreamPosition:
        """A stream whose position before the last block is noted; begins the block if there is none."""
        if self.tail is None:
            self._add_block(time)
            self.tail = self.blocks[-1].rows = Rows(self._longest)
        stream = self.streams.setdefault(key, StreamPosition(key))
        self.blocks.touch(len(self.blocks) - 1, self.files.attempt, stream)
        return stream

    def _read_missing(self, stream: StreamPosition, more: int = 0) -> bytes:
        """Read a stream's bytes that records promise, and `more` bytes that a new record promises."""
        missing = stream.promised + more - stream.end
        return self.files.read(stream.key, self.files.attempt, stream.end, missing)

    def _index_bytes(self, stream: StreamPosition, data: bytes, time: float) -> None:
        if data and self.tail is not None:
            self.tail.take(stream, data, 0, len(data), time)

    def _seal_tail(self) -> None:
        rows, block = self.tail, self.blocks[-1]
        assert rows is not None
        self.tail = None
        block.even = not rows.split
        self._seal({rank: len(of) for rank, of in rows.of_rank.items()})
        if block.exact:
            block.rows = None

    def _advance(self, attempt: int) -> None:
        """Go on to the next attempt; this one gets no more output."""
        number = len(self.blocks) - (self.tail is not None)
        for stream in self.streams.values():
            self.blocks.touch(number, self.files.attempt, stream)
        for stream in self._unfinished():
            self._finish(stream)
        if self.tail is not None:
            self.blocks[-1].exact = False
            self._seal_tail()
        self.files.close()
        self.files.attempt = attempt
        self.begins = (*self.begins, (attempt, self.sealed))
        self._begin_attempt()

    def _unfinished(self) -> Iterator[StreamPosition]:
        """Streams with an unfinished line, oldest first, after reading bytes that were missing before."""
        for stream in self.streams.values():
            if not stream.whole:
                self._touch(stream.key, self._latest)
                self._index_bytes(stream, self._read_missing(stream), stream.opened or self._latest)
        open_ones = [stream for stream in self.streams.values() if stream.end > stream.start]
        yield from sorted(open_ones, key=lambda stream: (stream.opened, stream.key))

    def _finish(self, stream: StreamPosition) -> None:
        self._touch(stream.key, self._latest)
        assert self.tail is not None
        self.tail.finish(stream, stream.opened)


@dataclass(slots=True)
class Block:
    """A stretch of one attempt's records.

    Attributes:
        position: where its records begin in their file.
        records: the number of its records.
        size: bytes of output that they promise.
        exact: whether all its bytes were there when its records came, so that its lines can be located again.
        even: whether none of its lines was split or shortened.
        rows: its lines, kept for the block that is not complete and for those that are not exact.
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
class _Positions:
    """The blocks that touch a stream, and the fields of its `StreamPosition` before each.

    `seg` combines two fields: `seg << 1 | returned`.
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
        self._times = array("d")
        self._counts: dict[int, _Counts] = {}
        self._by_stream: dict[int, dict[int, _Positions]] = {}

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
        self._times.append(time)
        self._list.append(block)

    def touch(self, number: int, attempt: int, stream: StreamPosition) -> None:
        """Note a stream's position before a block, unless it is noted already."""
        positions = self._by_stream.setdefault(attempt, {}).setdefault(stream.key, _Positions())
        if not positions.blocks or positions.blocks[-1] != number:
            positions.blocks.append(number)
            positions.end.append(stream.end)
            positions.start.append(stream.start)
            positions.seg.append(stream.seg << 1 | stream.returned)

    def seal(self, number: int, counts: Mapping[int, int]) -> None:
        """Complete a block; `counts` is the number of its lines by rank."""
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
        """The block in which to look for the first line that came at `time` or later."""
        return max(bisect_left(self._times, time) - 1, 0)

    def total(self, rank: int) -> int:
        """How many lines of a rank are in complete blocks."""
        return self._counts[rank].total if rank in self._counts else 0

    def before(self, rank: int, number: int) -> int:
        """How many lines of a rank are in the complete blocks before block `number`."""
        counts = self._counts.get(rank)
        if counts is None:
            return 0
        at = bisect_left(counts.blocks, number)
        return counts.before[at] if at < len(counts.blocks) else counts.total

    def holding_of(self, rank: int, ordinal: int) -> tuple[int, int]:
        """The complete block of a rank's line, and the line's number among the rank's lines in the block."""
        counts = self._counts[rank]
        at = bisect_right(counts.before, ordinal) - 1
        return counts.blocks[at], ordinal - counts.before[at]

    def streams(self, number: int) -> Iterator[StreamPosition]:
        """The streams that a block touches, at their positions before it."""
        for key, positions, at in self._positions(number):
            end, seg = positions.end[at], positions.seg[at]
            yield StreamPosition(key, end, end, positions.start[at], seg >> 1, bool(seg & 1))

    def spans(self, number: int, streams: Mapping[int, StreamPosition]) -> Iterator[tuple[int, int, int]]:
        """Key, start and end of each stream's lines in a block; `streams` are the current positions."""
        for key, positions, at in self._positions(number):
            last = at + 1 == len(positions.blocks)
            yield key, positions.start[at], streams[key].start if last else positions.start[at + 1]

    def _positions(self, number: int) -> Iterator[tuple[int, _Positions, int]]:
        for key, positions in list(self._by_stream.get(self._list[number].attempt, {}).items()):
            at = bisect_left(positions.blocks, number)
            if at < len(positions.blocks) and positions.blocks[at] == number:
                yield key, positions, at
