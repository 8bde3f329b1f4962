"""Lines of a run's output, merged in the order of arrival, by position rather than by content.

What came is counted a block at a time, and a block's lines are found when one of them is asked for, so that a
view of millions of lines costs what is on the screen. A line belongs to the moment at which its end arrived.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from launcher.record_events import PartUnreadable
from launcher.runs.line_intake import Batch, Intake
from launcher.runs.line_rows import SHIFT, Rows

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
