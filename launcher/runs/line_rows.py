"""Lines one after the other, by position rather than by content; and a stream's lines as they are found.

Nothing here reads a file.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

SHIFT = 2
_NEWLINE = re.compile(b"\n")


@dataclass(slots=True)
class Stream:
    """How far a stream is known, in bytes: promised by records, read, and where its last line began."""

    key: int
    promised: int = 0
    end: int = 0
    start: int = 0
    opened: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether the file has given all that records promise."""
        return self.end == self.promised


@dataclass(slots=True)
class Rows:
    """Lines of any streams in the order in which their ends came, 28 bytes each."""

    longest: int
    time: array[float] = field(default_factory=lambda: array("d"))
    key: array[int] = field(default_factory=lambda: array("I"))
    start: array[int] = field(default_factory=lambda: array("Q"))
    length: array[int] = field(default_factory=lambda: array("I"))
    of_rank: dict[int, array[int]] = field(default_factory=dict)
    split: bool = False

    def __len__(self) -> int:
        return len(self.time)

    def take(self, stream: Stream, data: bytes, low: int, high: int, time: float) -> None:
        """Add the lines that end in `data[low:high]`, which is what comes next in the stream."""
        shift = stream.end - low
        stream.end += high - low
        stream.opened = time
        ends = [m.start() + shift for m in _NEWLINE.finditer(data, low, high)]
        if ends:
            self._add(stream, ends, time)
        while stream.end - stream.start > self.longest:
            self._cut(stream, time)

    def finish(self, stream: Stream, time: float) -> None:
        """Add what is left of a stream that gets no more bytes."""
        if stream.end > stream.start:
            self._append(stream, [stream.start], [stream.end - stream.start], time)
            stream.start = stream.end

    def pad(self, count: int) -> None:
        """Put empty lines where there should be more: a folder that is removed is still looked at."""
        if (missing := count - len(self)) > 0:
            self._append(Stream(1), [0] * missing, [0] * missing, self.time[-1] if self.time else 0.0)

    def _add(self, stream: Stream, ends: Sequence[int], time: float) -> None:
        starts = [stream.start, *(end + 1 for end in ends)]
        lengths = [end - start for start, end in zip(starts, ends, strict=False)]
        stream.start = starts.pop()
        if max(lengths) <= self.longest:
            self._append(stream, starts, lengths, time)
        else:
            self._append_split(stream, starts, lengths, time)

    def _append_split(
        self, stream: Stream, starts: Sequence[int], lengths: Sequence[int], time: float
    ) -> None:
        """Lines some of which are too long to show: those in pieces."""
        self.split = True
        for start, length in zip(starts, lengths, strict=True):
            pieces = [*range(start, start + length, self.longest)] or [start]
            ends = [*pieces[1:], start + length]
            self._append(stream, pieces, [b - a for a, b in zip(pieces, ends, strict=True)], time)

    def _cut(self, stream: Stream, time: float) -> None:
        self.split = True
        self._append(stream, [stream.start], [self.longest], time)
        stream.start += self.longest

    def _append(self, stream: Stream, starts: Sequence[int], lengths: Sequence[int], time: float) -> None:
        count, rank = len(starts), stream.key >> SHIFT
        if rank not in self.of_rank:
            self.of_rank[rank] = array("I")
        self.of_rank[rank].extend(range(len(self.time), len(self.time) + count))
        self.key.extend(itertools.repeat(stream.key, count))
        self.start.extend(starts)
        self.length.extend(lengths)
        self.time.extend(itertools.repeat(time, count))  # the last: it is what is counted


def fits(data: bytes, lead: int, longest: int) -> bool:
    """Whether no line in `data` is longer than `longest` bytes, the unfinished last one included.

    The first one began `lead` bytes before, which are not too many themselves.
    """
    start, size = -lead, len(data)
    while size - start > longest:
        at = data.rfind(b"\n", max(start, 0), start + longest + 1)
        if at < 0:
            return False
        start = at + 1
    return True
