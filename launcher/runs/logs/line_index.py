"""Lines of a run's output, merged in the order of arrival, by position rather than by content.

What came is counted a block at a time, and a block's lines are found when one of them is asked for, so that a
view of millions of lines costs what is on the screen. A line belongs to the moment at which its end arrived.

Most of a folder that is opened is only skimmed: whole blocks of bytes in which newlines are counted.

A block is a stretch of records. What a block's lines are is found again from its records and bytes, so of
most blocks only the number of the first line is kept, and where each stream stood.
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

    `len(index)` counts whole lines; `open_lines()` gives the unfinished last line of each stream, such as
    a progress bar. What an attempt left unfinished is a line once the next one begins. Of a line that is
    longer than `longest` bytes only what no carriage return has overwritten counts, so that a bar is one line
    however long it lives; if that is longer too, it is split for display, between two characters. The bytes
    on disk are whole. Bytes that a record promises and a file does not have (a folder copied while it grew)
    are left out, and found if they come later.

    One thread calls `poll`; others may read lines meanwhile. `block` is how many bytes of output are kept
    together: what is read at once to find a line.
    """

    def __init__(
        self, run: Path, attempt: int | None = None, *, longest: int = 1 << 16, block: int = 1 << 19
    ) -> None:
        self._longest = longest
        self._in = Intake(run, attempt, longest=longest, block=block)
        self._blocks, self._files = self._in.blocks, self._in.files
        self._lock = self._in.lock
        self._cache_lock = threading.Lock()
        self._cache: OrderedDict[int, Rows] = OrderedDict()
        self._cached = 0

    def __len__(self) -> int:
        with self._lock:
            return self._in.sealed + len(self._in.tail or ())

    def poll(self, limit: int = 8 << 20) -> bool:
        """Index what has arrived, at most about `limit` bytes of output; whether there was anything."""
        return self._in.poll(limit)

    @property
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """The files, and the records of their order, that could not be read."""
        return tuple(self._files.unreadable.values())

    @property
    def begins(self) -> tuple[tuple[int, int], ...]:
        """For each attempt after the first that was indexed: its number, and the number of its first line."""
        return self._in.begins

    @property
    def written(self) -> dict[int, float]:
        """When each rank last wrote in the current attempt."""
        newest: dict[int, float] = {}
        for stream in list(self._in.streams.values()):
            if stream.end:
                rank = stream.key >> SHIFT
                newest[rank] = max(stream.opened, newest.get(rank, 0.0))
        return newest

    def line(self, i: int) -> Line:
        """Line number `i`, counted from 0."""
        number, at = self._place(i)
        rows = self.rows(number)
        key = rows.key[at]
        data = self._files.read(key, self._blocks[number].attempt, rows.start[at], rows.length[at])
        return Line(rows.time[at], key >> SHIFT, key & 3, data)

    def owner(self, i: int) -> tuple[int, int]:
        """Rank and stream of line `i`, without reading it."""
        number, at = self._place(i)
        key = self.rows(number).key[at]
        return key >> SHIFT, key & 3

    def number(self, rank: int, ordinal: int) -> int:
        """The number of a rank's line among all lines, given its number among the rank's."""
        with self._lock:
            sealed = self._blocks.total(rank)
            if ordinal >= sealed:
                assert self._in.tail is not None
                return self._in.sealed + self._in.tail.of_rank[rank][ordinal - sealed]
            number, at = self._blocks.holding_of(rank, ordinal)
        return self._blocks.first(number) + self.rows(number).of_rank[rank][at]

    def before(self, rank: int, i: int) -> int:
        """How many lines of a rank there are before line `i`, or before as many lines."""
        with self._lock:
            if not len(self._blocks):
                return 0
            number = self._blocks.holding(i)
            before, at = self._blocks.before(rank, number), i - self._blocks.first(number)
        return before + (bisect_left(self.rows(number).of_rank.get(rank, ()), at) if at else 0)

    def at_time(self, time: float) -> int:
        """The number of the first line that came at a time, in seconds since the epoch, or after it."""
        if not len(self):
            return 0
        number = self._blocks.at_time(time)
        return self._blocks.first(number) + bisect_left(self.rows(number).time, time)

    def open_lines(self) -> list[Line]:
        """The unfinished lines, oldest first: of long ones what was not overwritten."""
        lines = []
        for stream in self._in.streams.values():
            start, length = stream.line_up_to(stream.end, self._longest)
            if length:
                data = self._files.read(stream.key, self._files.attempt, start, length)
                lines.append(Line(stream.opened, stream.key >> SHIFT, stream.key & 3, data, open=True))
        return sorted(lines, key=lambda line: line.time)

    def close(self) -> None:
        """Close the files."""
        self._files.close()

    # --- blocks: for those who read many lines ---------------------------------------------------------

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
        return self._keep(number, self._found_again(number))

    def spans(self, number: int) -> list[tuple[int, int, int]] | None:
        """Key, start and end of what each stream has in a block: whole lines, none of which is split.

        None if that is not so, or not yet.
        """
        block = self._blocks[number]
        if not block.even or block.rows is not None:
            return None
        with self._lock:
            return list(self._blocks.spans(number, self._in.streams))

    def read(self, number: int, key: int, start: int, end: int) -> bytes:
        """A stream's bytes, of the attempt that a block belongs to."""
        return self._files.read(key, self._blocks[number].attempt, start, end - start)

    def _place(self, i: int) -> tuple[int, int]:
        with self._lock:
            if not 0 <= i < len(self):
                raise IndexError(i)
            number = self._blocks.holding(i)
            return number, i - self._blocks.first(number)

    def _found_again(self, number: int) -> Rows:
        """The lines of a block as they were when it was counted; empty where the folder has them no more."""
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

    def _keep(self, number: int, rows: Rows) -> Rows:
        with self._cache_lock:
            if number not in self._cache:
                self._cached += len(rows)
            self._cache[number] = rows
            while self._cached > _CACHED_LINES and len(self._cache) > 1:
                self._cached -= len(self._cache.popitem(last=False)[1])
        return rows


_RECORDS = 4096
_LINES = 16_000
_ENDS = (b"\n", b"\r")  # of what may stand on a row


class Batch:
    """Records that were read at once."""

    def __init__(self, columns: writer.Columns) -> None:
        self.times, self.lengths = columns.times, columns.lengths
        self.keys = [r << SHIFT | s for r, s in zip(columns.ranks, columns.streams, strict=True)]
        self._ends = [0, *accumulate(self.lengths)]

    def __len__(self) -> int:
        return len(self.keys)

    def block(self, begin: int, size: int) -> int:
        """Where a block of at least `size` bytes ends that begins at a record; 0 if there are not so many."""
        end = bisect_left(self._ends, self._ends[begin] + size, begin + 1)
        if end <= len(self):
            return end
        return len(self) if len(self) - begin == _RECORDS else 0

    def size(self, begin: int, end: int) -> int:
        """Bytes that some of the records promise."""
        return self._ends[end] - self._ends[begin]

    def sizes(self, begin: int, end: int) -> dict[int, int]:
        """The same by stream."""
        sizes: dict[int, int] = {}
        for key, length in zip(self.keys[begin:end], self.lengths[begin:end], strict=True):
            sizes[key] = sizes.get(key, 0) + length
        return sizes

    def newest(self, begin: int, end: int) -> dict[int, float]:
        """When the last of some of the records came, by stream, in seconds since the epoch."""
        last = dict(zip(self.keys[begin:end], self.times[begin:end], strict=True))
        return {key: time / 1e9 for key, time in last.items()}


class Intake:
    """What is known of a run's output; one thread calls `poll`, others may look while they hold the lock.

    Attributes:
        sealed: the number of lines in complete blocks.
        tail: the lines of the last block while it is not complete.
        streams: the current attempt's.
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
        self._begin()

    def _begin(self) -> None:
        """Nothing of the current attempt is known yet."""
        self._position = len(writer.MAGIC)
        self.streams: dict[int, StreamPosition] = {}
        self._latest = 0.0

    def poll(self, limit: int) -> bool:
        """Take in at most about `limit` bytes of output; whether there was anything."""
        taken, moved = 0, False
        while taken < limit:
            # before the records: an attempt's last ones come before the next attempt
            following = None if self._only else self.files.following()
            batch = self.files.records(self.files.attempt, self._position, _RECORDS)
            if batch is not None:
                before = self._position
                taken += self._take_in(Batch(batch), limit)
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
        """Of the records that were taken in, those that are none."""
        if batch.wrong:
            first, end = ((at - len(writer.MAGIC)) // writer.SIZE for at in (position, self._position))
            taken = batch.wrong[: bisect_left(batch.wrong, end - first)]
            if taken:
                self.files.note_wrong(self.files.attempt, first, taken)

    def _take_in(self, batch: Batch, limit: int) -> int:
        taken = at = 0
        while at < len(batch) and taken < limit:
            end = batch.block(at, self._size) if self.tail is None else 0
            if end and self._skim(batch, at, end):
                taken += batch.size(at, end)
                at = end
                continue
            if not end and at and len(batch) == _RECORDS and self.tail is None:
                break  # the rest is the beginning of a block: read on from there
            taken += self._take(batch.keys[at], batch.lengths[at], batch.times[at] / 1e9)
            at += 1
        return taken

    # --- whole blocks ---------------------------------------------------------------------------------

    def _skim(self, batch: Batch, begin: int, end: int) -> bool:
        """Count the lines of a block; whether it has all its bytes, and no line that must be split."""
        found, even = [], True
        for key, size in batch.sizes(begin, end).items():
            stream = self.streams.get(key) or StreamPosition(key)
            data = self._skimmable(stream, size)
            if data is None:
                return False
            even = even and fits(data, stream.end - stream.start, self._longest)
            found.append((stream, data))
        with self.lock:
            self._add_block(batch.times[begin] / 1e9)
            block = self.blocks[-1]
            block.records, block.size, block.even = end - begin, batch.size(begin, end), even
            self._position += (end - begin) * writer.SIZE
            self._count(found, batch.newest(begin, end))
        return True

    def _skimmable(self, stream: StreamPosition, size: int) -> bytes | None:
        if not stream.whole:
            return None
        data = self.files.read(stream.key, self.files.attempt, stream.end, size)
        if len(data) < size or not fits(data, stream.standing, self._longest, _ENDS):
            return None
        return data

    def _count(self, found: list[tuple[StreamPosition, bytes]], newest: dict[int, float]) -> None:
        counts: dict[int, int] = {}
        number = len(self.blocks) - 1
        for stream, data in found:
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
        """The last block is complete; the next one is smaller if this one has too many lines."""
        self.blocks.seal(len(self.blocks) - 1, counts)
        lines = sum(counts.values())
        self.sealed += lines
        if lines > _LINES:
            self._size = max(self._size * _LINES // lines, 1)
        else:
            self._size = min(self._size * 2, self._largest)

    # --- line by line ---------------------------------------------------------------------------------

    def _take(self, key: int, length: int, time: float) -> int:
        """One record; how many bytes that brought, which may be fewer than it promises."""
        known = self.streams.get(key) or StreamPosition(key)
        data = self._missing(known, length)  # while nobody waits for the lock
        with self.lock:
            stream = self._touched(key, time)
            exact, stream.promised = stream.whole, stream.promised + length
            self._grow(stream, data, time)
            self._record(length, time, exact=exact and stream.whole)
        return len(data)

    def _record(self, length: int, time: float, *, exact: bool) -> None:
        """One more record is in the last block."""
        block, self._latest = self.blocks[-1], time
        block.exact = block.exact and exact
        block.records += 1
        block.size += length
        self._position += writer.SIZE
        assert self.tail is not None
        if block.records >= _RECORDS or block.size >= self._size or len(self.tail) >= _LINES:
            self._seal_tail()

    def _touched(self, key: int, time: float) -> StreamPosition:
        """A stream that the last block is going to read from."""
        if self.tail is None:
            self._add_block(time)
            self.tail = self.blocks[-1].rows = Rows(self._longest)
        stream = self.streams.setdefault(key, StreamPosition(key))
        self.blocks.touch(len(self.blocks) - 1, self.files.attempt, stream)
        return stream

    def _missing(self, stream: StreamPosition, more: int = 0) -> bytes:
        """What a stream has of the bytes that records promise, `more` of them by a new one."""
        missing = stream.promised + more - stream.end
        return self.files.read(stream.key, self.files.attempt, stream.end, missing)

    def _grow(self, stream: StreamPosition, data: bytes, time: float) -> None:
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
        """Go on to the next attempt; nothing more comes from this one."""
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
        self._begin()

    def _unfinished(self) -> Iterator[StreamPosition]:
        """Streams whose last line has no end, oldest first, after what had not been there is."""
        for stream in self.streams.values():
            if not stream.whole:
                self._touched(stream.key, self._latest)
                self._grow(stream, self._missing(stream), stream.opened or self._latest)
        open_ones = [stream for stream in self.streams.values() if stream.end > stream.start]
        yield from sorted(open_ones, key=lambda stream: (stream.opened, stream.key))

    def _finish(self, stream: StreamPosition) -> None:
        self._touched(stream.key, self._latest)
        assert self.tail is not None
        self.tail.finish(stream, stream.opened)


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

    def touch(self, number: int, attempt: int, stream: StreamPosition) -> None:
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

    def streams(self, number: int) -> Iterator[StreamPosition]:
        """The streams that a block touches, as they stood before it."""
        for key, places, at in self._touched(number):
            end, seg = places.end[at], places.seg[at]
            yield StreamPosition(key, end, end, places.start[at], seg >> 1, bool(seg & 1))

    def spans(self, number: int, streams: Mapping[int, StreamPosition]) -> Iterator[tuple[int, int, int]]:
        """Key, start and end of each stream's lines in a block; `streams` as they stand now."""
        for key, places, at in self._touched(number):
            last = at + 1 == len(places.blocks)
            yield key, places.start[at], streams[key].start if last else places.start[at + 1]

    def _touched(self, number: int) -> Iterator[tuple[int, _Places, int]]:
        for key, places in list(self._places.get(self._list[number].attempt, {}).items()):
            at = bisect_left(places.blocks, number)
            if at < len(places.blocks) and places.blocks[at] == number:
                yield key, places, at
