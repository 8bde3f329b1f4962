"""Lines one after the other, by position rather than by content; and a stream's lines as they are found.

Nothing here reads a file.
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
"""Bytes by which a piece of a line may be longer than is asked, so that it ends between two characters."""


@dataclass(slots=True)
class StreamPosition:
    """How far a stream is known, in bytes.

    Attributes:
        key: the rank and the stream.
        promised, end: bytes that records promise, and those that were read.
        start: where its last line began.
        seg: where what stands of that line begins: after what a carriage return let be overwritten,
            and after the pieces that were cut off.
        returned: whether its last byte is a carriage return. What comes next, if anything does, overwrites.
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
        """Whether the file has given all that records promise."""
        return self.end == self.promised

    @property
    def standing(self) -> int:
        """Bytes since what stands of the last line began, which a return does not yet overwrite."""
        return 0 if self.returned else self.end - self.seg

    def line_up_to(self, end: int, longest: int) -> tuple[int, int]:
        """Where its last line begins, and its length: all of it if it is short, else what stands of it."""
        if end - self.start <= longest:
            return self.start, end - self.start
        # beyond are carriage returns at most: all else was cut off
        return self.seg, min(end - self.seg, longest + _SLACK)

    def begin_line(self, start: int) -> None:
        """Its last line begins here."""
        self.start = self.seg = start
        self.returned = False

    def write_over(self, data: bytes, low: int, high: int, shift: int) -> None:
        """Find what stands after `data[low:high]`, in which no line ends.

        `shift` is what makes a place in `data` one in the stream.
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

    def take(self, stream: StreamPosition, data: bytes, low: int, high: int, time: float) -> None:
        """Add the lines that end in `data[low:high]`, which is what comes next in the stream."""
        shift = stream.end - low
        stream.end += high - low
        stream.opened = time
        ends = [m.start() for m in _NEWLINE.finditer(data, low, high)]
        if ends:
            self._add(stream, data, low, ends, shift, time)
            low = ends[-1] + 1
        self._write_on(stream, data, low, high, shift, time)

    def finish(self, stream: StreamPosition, time: float) -> None:
        """Add what is left of a stream that gets no more bytes."""
        if stream.end > stream.start:
            self._end(stream, stream.end, time)
            stream.begin_line(stream.end)

    def pad(self, count: int) -> None:
        """Put empty lines where there should be more: a folder that is removed is still looked at."""
        if (missing := count - len(self)) > 0:
            self._append(StreamPosition(1), [0] * missing, [0] * missing, self.time[-1] if self.time else 0.0)

    def _add(
        self, stream: StreamPosition, data: bytes, low: int, ends: Sequence[int], shift: int, time: float
    ) -> None:
        starts = [stream.start, *(end + 1 + shift for end in ends)]
        lengths = [end + shift - start for start, end in zip(starts, ends, strict=False)]
        if max(lengths) <= self.longest:
            stream.begin_line(starts.pop())
            self._append(stream, starts, lengths, time)
            return
        for end in ends:
            self._write_on(stream, data, low, end, shift, time)
            self._end(stream, end + shift, time)
            stream.begin_line(end + 1 + shift)
            low = end + 1

    def _end(self, stream: StreamPosition, end: int, time: float) -> None:
        """A line ends, which is too long to be shown as it is, or was cut."""
        start, length = stream.line_up_to(end, self.longest)
        self.split = self.split or length < end - stream.start
        self._append(stream, [start], [length], time)

    def _write_on(
        self, stream: StreamPosition, data: bytes, low: int, high: int, shift: int, time: float
    ) -> None:
        """Go on with a line by `data[low:high]`, in which it does not end; cut what is too long to show."""
        if stream.standing + high - low <= self.longest:
            stream.write_over(data, low, high, shift)
            return
        while low < high:
            until = data.find(b"\r", low, high)
            until = high if until < 0 else until
            stream.write_over(data, low, until, shift)
            while (cut := self._cut(stream.seg - shift, data, low, until)) is not None:
                self.split = True
                self._append(stream, [stream.seg], [cut + shift - stream.seg], time)
                stream.seg = cut + shift
            low = until
            while low < high and data[low] == _RETURN:
                low += 1
            stream.write_over(data, until, low, shift)

    def _cut(self, start: int, data: bytes, low: int, high: int) -> int | None:
        """Where a piece that begins at `start` ends: between two characters of UTF-8, if there are any."""
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
        self.time.extend(itertools.repeat(time, count))  # the last: it is what is counted


def last_segment(line: bytes) -> bytes:
    """What stays of a line that was overwritten through carriage returns."""
    body = line.rstrip(b"\r")
    return body[body.rfind(b"\r") + 1 :]


def last_segments(data: bytes) -> Iterator[bytes]:
    """What stays of each line of a text, the last one included though it has no end."""
    return map(last_segment, data.removesuffix(b"\n").split(b"\n") if data else ())


def fits(data: bytes, lead: int, longest: int, ends: Sequence[bytes] = (b"\n",)) -> bool:
    """Whether no line in `data` is longer than `longest` bytes, the unfinished last one included.

    The first one began `lead` bytes before, which are not too many themselves. `ends` are what ends one.
    """
    start, size = -lead, len(data)
    while size - start > longest:
        low, high = max(start, 0), max(start, 0, start + longest + 1)
        at = max(data.rfind(end, low, high) for end in ends)
        if at < 0:
            return False
        start = at + 1
    return True
