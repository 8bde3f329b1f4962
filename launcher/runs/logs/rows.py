"""Find the lines in streams' bytes, and keep them by position rather than by content.

Nothing here reads a file. The visible part of a line is what its carriage returns have not overwritten, after
the pieces that were split off because it is too long.
"""

from __future__ import annotations

import itertools
import re
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

SHIFT = 2
_NEWLINE = re.compile(b"\n")
_RETURN = ord("\r")
_SLACK = 3
"""Bytes by which a piece of a line may exceed the longest length, to end between two characters."""


@dataclass(slots=True)
class StreamPosition:
    """How far a stream has been read, in bytes.

    Attributes:
        key: the rank and the stream.
        promised, end: bytes that records promise, and bytes that were read.
        start: where its last line begins.
        seg: where the visible part of that line begins.
        returned: whether its last byte is a carriage return: the next text overwrites the visible part.
        opened: when its last bytes came, in seconds since the epoch.
    """

    key: int
    promised: int = 0
    end: int = 0
    start: int = 0
    seg: int = 0
    returned: bool = False
    opened: float = 0.0

    @property
    def whole(self) -> bool:
        """Whether all bytes that records promise were in the file."""
        return self.end == self.promised

    @property
    def standing(self) -> int:
        """The length of the last line's visible part; 0 if the next text overwrites it."""
        return 0 if self.returned else self.end - self.seg

    def line_up_to(self, end: int, longest: int) -> tuple[int, int]:
        """Start and length of its last line up to `end`, or of the visible part if the line is too long."""
        if end - self.start <= longest:
            return self.start, end - self.start
        # beyond are at most carriage returns: all else was split off
        return self.seg, min(end - self.seg, longest + _SLACK)

    def begin_line(self, start: int) -> None:
        """Set where its last line begins."""
        self.start = self.seg = start
        self.returned = False

    def write_over(self, data: bytes, low: int, high: int, shift: int) -> None:
        """Update the visible part for `data[low:high]`, which contains no newline.

        An offset in `data` plus `shift` is the offset in the stream.
        """
        if low >= high:
            return
        if self.returned and data[low] != _RETURN:
            self.seg = low + shift
        text = high
        while text > low and data[text - 1] == _RETURN:
            text -= 1
        if (at := data.rfind(b"\r", low, text)) >= 0:
            self.seg = at + 1 + shift
        self.returned = text < high


@dataclass(slots=True)
class Rows:
    """Lines of any streams in the order in which their ends came; 28 bytes of memory each."""

    longest: int
    time: array[float] = field(default_factory=lambda: array("d"))
    key: array[int] = field(default_factory=lambda: array("I"))
    start: array[int] = field(default_factory=lambda: array("Q"))
    length: array[int] = field(default_factory=lambda: array("I"))
    of_rank: dict[int, array[int]] = field(default_factory=dict)
    split: bool = False

    def __len__(self) -> int:
        return len(self.time)

    def take(self, stream: StreamPosition, data: bytes, low: int, high: int, time: float) -> None:
        """Add the lines that end in `data[low:high]`, the next bytes of the stream."""
        shift = stream.end - low
        stream.end += high - low
        stream.opened = time
        ends = [m.start() for m in _NEWLINE.finditer(data, low, high)]
        if ends:
            self._add_lines(stream, data, low, ends, shift, time)
            low = ends[-1] + 1
        self._extend(stream, data, low, high, shift, time)

    def finish(self, stream: StreamPosition, time: float) -> None:
        """Add the unfinished line, if any, of a stream that gets no more bytes."""
        if stream.end > stream.start:
            self._add_line(stream, stream.end, time)
            stream.begin_line(stream.end)

    def pad(self, count: int) -> None:
        """Append empty lines up to `count`: a folder may be removed while it is viewed."""
        if (missing := count - len(self)) > 0:
            self._append(StreamPosition(1), [0] * missing, [0] * missing, self.time[-1] if self.time else 0.0)

    def _add_lines(
        self, stream: StreamPosition, data: bytes, low: int, ends: Sequence[int], shift: int, time: float
    ) -> None:
        starts = [stream.start, *(end + 1 + shift for end in ends)]
        lengths = [end + shift - start for start, end in zip(starts, ends, strict=False)]
        if max(lengths) <= self.longest:
            stream.begin_line(starts.pop())
            self._append(stream, starts, lengths, time)
            return
        for end in ends:
            self._extend(stream, data, low, end, shift, time)
            self._add_line(stream, end + shift, time)
            stream.begin_line(end + 1 + shift)
            low = end + 1

    def _add_line(self, stream: StreamPosition, end: int, time: float) -> None:
        """Add the line that ends at `end`, or its visible part if it is too long."""
        start, length = stream.line_up_to(end, self.longest)
        self.split = self.split or length < end - stream.start
        self._append(stream, [start], [length], time)

    def _extend(
        self, stream: StreamPosition, data: bytes, low: int, high: int, shift: int, time: float
    ) -> None:
        """Extend a line by `data[low:high]`, which contains no newline; split it if it is too long."""
        if stream.standing + high - low <= self.longest:
            stream.write_over(data, low, high, shift)
            return
        while low < high:
            until = data.find(b"\r", low, high)
            until = high if until < 0 else until
            stream.write_over(data, low, until, shift)
            while (cut := self._piece_end(stream.seg - shift, data, low, until)) is not None:
                self.split = True
                self._append(stream, [stream.seg], [cut + shift - stream.seg], time)
                stream.seg = cut + shift
            low = until
            while low < high and data[low] == _RETURN:
                low += 1
            stream.write_over(data, until, low, shift)

    def _piece_end(self, start: int, data: bytes, low: int, high: int) -> int | None:
        """Where a piece from `start` on ends: between two characters, if it is UTF-8. None if it is short."""
        for at in range(max(low, start + self.longest), high):
            if data[at] & 0xC0 != 0x80 or at >= start + self.longest + _SLACK:
                return at
        return None

    def _append(
        self, stream: StreamPosition, starts: Sequence[int], lengths: Sequence[int], time: float
    ) -> None:
        count, rank = len(starts), stream.key >> SHIFT
        if rank not in self.of_rank:
            self.of_rank[rank] = array("I")
        self.of_rank[rank].extend(range(len(self.time), len(self.time) + count))
        self.key.extend(itertools.repeat(stream.key, count))
        self.start.extend(starts)
        self.length.extend(lengths)
        self.time.extend(itertools.repeat(time, count))  # last, because `len` counts these


def last_segment(line: bytes) -> bytes:
    """What carriage returns have not overwritten in a line."""
    body = line.rstrip(b"\r")
    return body[body.rfind(b"\r") + 1 :]


def last_segments(data: bytes) -> Iterator[bytes]:
    """What carriage returns have not overwritten in each line of a text, including an unfinished last one."""
    return map(last_segment, data.removesuffix(b"\n").split(b"\n") if data else ())


def fits(data: bytes, lead: int, longest: int, ends: Sequence[bytes] = (b"\n",)) -> bool:
    """Whether no line in `data` is longer than `longest` bytes, the unfinished last one included.

    The first line began `lead` bytes before `data`. A line ends with any of `ends`.
    """
    start, size = -lead, len(data)
    while size - start > longest:
        low, high = max(start, 0), max(start, 0, start + longest + 1)
        at = max(data.rfind(end, low, high) for end in ends)
        if at < 0:
            return False
        start = at + 1
    return True
