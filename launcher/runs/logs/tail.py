"""Read the last lines of a run's output, to show them while the lines before them are still counted."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .. import files, paths
from . import writer
from .files import LogFiles
from .line_index import Batch, Line
from .rows import SHIFT, Rows, StreamPosition, last_segments

TAIL_BYTES = 16 << 10
_RECORDS = 512


def tail_of(run: Path, attempt: int, rank: int, stream: int, *, most: int) -> list[bytes]:
    """The last lines that a rank wrote to a stream, at most `most`; none if the file cannot be read.

    Only the file's last `TAIL_BYTES` are read.
    """
    try:
        with files.open_file(run, paths.log_file(run, attempt, rank, stream)) as file:
            skipped = max(0, os.fstat(file.fileno()).st_size - TAIL_BYTES)
            file.seek(skipped)
            lines = list(last_segments(file.read(TAIL_BYTES)))
    except OSError:
        return []
    whole = lines[1:] if skipped and len(lines) > 1 else lines
    return whole[-most:]


def last_lines(run: Path, *, longest: int) -> list[Line] | None:
    """The last whole lines, and after them the unfinished ones, of the newest attempt.

    A `LineIndex` ends with the same lines. None if that is not certain: the run is writing just now, the
    folder is damaged, or a line is longer than `longest` bytes.
    """
    attempts = paths.attempts(run)
    if not attempts:
        return None
    log_files = LogFiles(run, attempts[-1])
    try:
        return _Ending(run, log_files, longest).lines()
    except OSError:
        return None
    finally:
        log_files.close()


class _Ending:
    """The last records of an attempt, and their bytes."""

    def __init__(self, run: Path, log_files: LogFiles, longest: int) -> None:
        self._run, self._files, self._longest = run, log_files, longest
        self._records = paths.log_folder(run, log_files.attempt) / paths.CHUNKS

    def lines(self) -> list[Line] | None:
        count = self._count_records()
        first = max(count - _RECORDS, 0)
        columns = self._files.records(self._files.attempt, len(writer.MAGIC) + first * writer.SIZE, _RECORDS)
        if columns is None or columns.wrong:
            return None
        batch = Batch(columns)
        parts = self._read(batch.sizes(0, len(batch)), from_start=first == 0)
        unchanged = self._count_records() == count
        return self._walk(batch, parts) if parts is not None and unchanged else None

    def _count_records(self) -> int:
        """The number of records in the file."""
        size = files.stat_file(self._run, self._records).st_size
        return (size - len(writer.MAGIC)) // writer.SIZE

    def _read(
        self, sizes: dict[int, int], *, from_start: bool
    ) -> dict[int, tuple[StreamPosition, bytes]] | None:
        """Each stream's position before the records, and the bytes of its records; None if not certain."""
        parts = {}
        for key, size in sizes.items():
            path = paths.log_file(self._run, self._files.attempt, key >> SHIFT, key & 3)
            end = files.stat_file(self._run, path).st_size - size
            lead = min(self._longest + 1, max(end, 0))
            data = self._files.read(key, self._files.attempt, end - lead, lead + size) if end >= 0 else b""
            line = data.rfind(b"\n", 0, lead) + 1
            if end < 0 or len(data) < lead + size or (from_start and end):
                return None
            if not line and lead > self._longest and b"\r" not in data[:lead].rstrip(b"\r"):
                return None  # it is unknown where pieces of this line were split off
            stream = StreamPosition(key, end, end)
            stream.begin_line(end - lead + line)
            stream.write_over(data, line, lead, end - lead)
            parts[key] = stream, data[lead:]
        return parts

    def _walk(self, batch: Batch, parts: dict[int, tuple[StreamPosition, bytes]]) -> list[Line] | None:
        rows, at = Rows(self._longest), dict.fromkeys(parts, 0)
        for time_ns, key, length in zip(batch.times, batch.keys, batch.lengths, strict=True):
            stream, data = parts[key]
            rows.take(stream, data, at[key], at[key] + length, time_ns / 1e9)
            at[key] += length
        places = zip(rows.time, rows.key, rows.start, rows.length, strict=True)
        whole = [self._line(*place) for place in list(places)[-_RECORDS:]]
        return whole + self._unfinished(stream for stream, _ in parts.values())

    def _unfinished(self, streams: Iterable[StreamPosition]) -> list[Line]:
        rest = sorted((s for s in streams if s.end > s.start), key=lambda stream: stream.opened)
        parts = [(s, *s.line_up_to(s.end, self._longest)) for s in rest]
        return [self._line(s.opened, s.key, start, length, unfinished=True) for s, start, length in parts]

    def _line(self, time: float, key: int, start: int, length: int, *, unfinished: bool = False) -> Line:
        data = self._files.read(key, self._files.attempt, start, length)
        return Line(time, key >> SHIFT, key & 3, data, open=unfinished)
