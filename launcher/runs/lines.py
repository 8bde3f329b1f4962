"""Lines of a run's output, merged in the order of arrival, by position rather than by content.

An index holds 24 bytes a line and reads a line's bytes when it is shown, so that a view of millions of
lines costs what is on the screen. A line belongs to the moment at which its end arrived.
"""

from __future__ import annotations

import os
from array import array
from dataclasses import dataclass
from pathlib import Path

from launcher.runs import chunks, paths

_BATCH = 4096
_SHIFT = 2


@dataclass(frozen=True, slots=True)
class Line:
    """One line of one rank, without its newline; `open` if the newline has not come yet."""

    time: float
    rank: int
    stream: int
    data: bytes
    open: bool = False


class LineIndex:
    """Every line of one attempt of a run, growing with its folder.

    `len(index)` counts whole lines; `open_lines()` gives the unfinished last line of each stream, such as
    a progress bar. Longer lines than `longest` bytes are split for display; the bytes on disk are whole.
    Bytes that a record promises and a file does not have (a folder copied while it grew) are left out,
    and found if they come later.
    """

    def __init__(self, run: Path, attempt: int = 0, *, longest: int = 1 << 16) -> None:
        self._run, self._attempt, self._longest = run, attempt, longest
        self._position = len(chunks.MAGIC)
        self._promised: dict[int, int] = {}
        self._ends: dict[int, int] = {}
        self._starts: dict[int, int] = {}
        self._files: dict[int, int] = {}
        self._opened: dict[int, float] = {}
        self._time = array("d")
        self._key = array("I")
        self._start = array("Q")
        self._length = array("I")

    def __len__(self) -> int:
        return len(self._time)

    def poll(self, limit: int = 8 << 20) -> bool:
        """Index what has arrived, at most about `limit` bytes of output; whether there was anything."""
        taken = 0
        while taken < limit and (batch := self._records()):
            for chunk in batch:
                self._take(chunk)
                self._position += chunks.SIZE
                taken += chunk.length
                if taken >= limit:
                    break
        return taken > 0

    def line(self, i: int) -> Line:
        """Line number `i`, counted from 0."""
        key = self._key[i]
        data = self._read(key, self._start[i], self._length[i])
        return Line(self._time[i], key >> _SHIFT, key & 3, data)

    def owner(self, i: int) -> tuple[int, int]:
        """Rank and stream of line `i`, without reading it."""
        return self._key[i] >> _SHIFT, self._key[i] & 3

    def open_lines(self) -> list[Line]:
        """The unfinished lines, oldest first; at most the last `longest` bytes of each."""
        lines = []
        for key, end in self._ends.items():
            start = max(self._starts.get(key, 0), end - self._longest)
            if end > start:
                data = self._read(key, start, end - start)
                lines.append(Line(self._opened[key], key >> _SHIFT, key & 3, data, open=True))
        return sorted(lines, key=lambda line: line.time)

    def close(self) -> None:
        """Close the files; the index stays readable only in its counts."""
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _records(self) -> list[chunks.Chunk]:
        path = paths.log_folder(self._run, self._attempt) / paths.CHUNKS
        try:
            with open(path, "rb", buffering=0) as file:
                return list(chunks.unpack(os.pread(file.fileno(), _BATCH * chunks.SIZE, self._position)))
        except FileNotFoundError:
            return []

    def _take(self, chunk: chunks.Chunk) -> None:
        key = chunk.rank << _SHIFT | chunk.stream
        self._promised[key] = self._promised.get(key, 0) + chunk.length
        at = self._ends.get(key, 0)
        if not (data := self._read(key, at, self._promised[key] - at)):
            return
        time = chunk.time_ns / 1e9
        self._ends[key] = at + len(data)
        self._opened[key] = time
        cursor = data.find(b"\n")
        while cursor >= 0:
            self._add(key, at + cursor, time)
            self._starts[key] = at + cursor + 1
            cursor = data.find(b"\n", cursor + 1)
        while self._ends[key] - self._starts.get(key, 0) > self._longest:
            cut = self._starts.get(key, 0) + self._longest
            self._add(key, cut, time)
            self._starts[key] = cut

    def _add(self, key: int, end: int, time: float) -> None:
        """Append the line from the key's last start to `end`, in pieces if it is too long to show."""
        start = self._starts.get(key, 0)
        while end - start > self._longest:
            self._append(key, start, self._longest, time)
            start += self._longest
        self._append(key, start, end - start, time)

    def _append(self, key: int, start: int, length: int, time: float) -> None:
        self._time.append(time)
        self._key.append(key)
        self._start.append(start)
        self._length.append(length)

    def _read(self, key: int, start: int, length: int) -> bytes:
        try:
            return os.pread(self._file(key), length, start)
        except FileNotFoundError:
            return b""

    def _file(self, key: int) -> int:
        if key not in self._files:
            path = paths.log_file(self._run, self._attempt, key >> _SHIFT, key & 3)
            self._files[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return self._files[key]
