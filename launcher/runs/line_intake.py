"""Taking in what has arrived: records counted a block at a time, and the newest ones line by line.

Most of a folder that is opened is only skimmed: whole blocks of bytes in which newlines are counted.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

from launcher.runs import chunks
from launcher.runs.line_blocks import Block, Blocks
from launcher.runs.line_rows import SHIFT, Rows, Stream, fits
from launcher.runs.log_files import LogFiles

_RECORDS = 4096
_LINES = 16_000
_ENDS = (b"\n", b"\r")  # of what may stand on a row


class Batch:
    """Records that were read at once."""

    def __init__(self, columns: chunks.Columns) -> None:
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
        self._position = len(chunks.MAGIC)
        self.streams: dict[int, Stream] = {}
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

    def _note_wrong(self, batch: chunks.Columns, position: int) -> None:
        """Of the records that were taken in, those that are none."""
        if batch.wrong:
            first, end = ((at - len(chunks.MAGIC)) // chunks.SIZE for at in (position, self._position))
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
            stream = self.streams.get(key) or Stream(key)
            data = self._skimmable(stream, size)
            if data is None:
                return False
            even = even and fits(data, stream.end - stream.start, self._longest)
            found.append((stream, data))
        with self.lock:
            self._add_block(batch.times[begin] / 1e9)
            block = self.blocks[-1]
            block.records, block.size, block.even = end - begin, batch.size(begin, end), even
            self._position += (end - begin) * chunks.SIZE
            self._count(found, batch.newest(begin, end))
        return True

    def _skimmable(self, stream: Stream, size: int) -> bytes | None:
        if not stream.whole:
            return None
        data = self.files.read(stream.key, self.files.attempt, stream.end, size)
        if len(data) < size or not fits(data, stream.standing, self._longest, _ENDS):
            return None
        return data

    def _count(self, found: list[tuple[Stream, bytes]], newest: dict[int, float]) -> None:
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
        known = self.streams.get(key) or Stream(key)
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
        self._position += chunks.SIZE
        assert self.tail is not None
        if block.records >= _RECORDS or block.size >= self._size or len(self.tail) >= _LINES:
            self._seal_tail()

    def _touched(self, key: int, time: float) -> Stream:
        """A stream that the last block is going to read from."""
        if self.tail is None:
            self._add_block(time)
            self.tail = self.blocks[-1].rows = Rows(self._longest)
        stream = self.streams.setdefault(key, Stream(key))
        self.blocks.touch(len(self.blocks) - 1, self.files.attempt, stream)
        return stream

    def _missing(self, stream: Stream, more: int = 0) -> bytes:
        """What a stream has of the bytes that records promise, `more` of them by a new one."""
        missing = stream.promised + more - stream.end
        return self.files.read(stream.key, self.files.attempt, stream.end, missing)

    def _grow(self, stream: Stream, data: bytes, time: float) -> None:
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

    def _unfinished(self) -> Iterator[Stream]:
        """Streams whose last line has no end, oldest first, after what had not been there is."""
        for stream in self.streams.values():
            if not stream.whole:
                self._touched(stream.key, self._latest)
                self._grow(stream, self._missing(stream), stream.opened or self._latest)
        open_ones = [stream for stream in self.streams.values() if stream.end > stream.start]
        yield from sorted(open_ones, key=lambda stream: (stream.opened, stream.key))

    def _finish(self, stream: Stream) -> None:
        self._touched(stream.key, self._latest)
        assert self.tail is not None
        self.tail.finish(stream, stream.opened)
