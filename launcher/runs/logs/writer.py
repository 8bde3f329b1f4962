"""Write ranks' output to disk: first the bytes, then the records of when and in which order they came.

The unchanged bytes are in one file for each rank and stream. A record contains only a piece's time, rank,
stream and length: offsets follow by addition, and a merged view walks over the records.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...serialization import LATEST
from .. import files, paths
from ..files import Growing

MAGIC = b"rankdeck chunks1"
_RECORD = struct.Struct("<QIIBxxxxxxx")
SIZE = _RECORD.size
LONGEST = (1 << 32) - 1
MOST_RANK = (1 << 20) - 1
_LATEST_NS = int(LATEST * 1e9)
_STREAMS = frozenset((paths.STDOUT, paths.STDERR))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one rank's output: arrival in nanoseconds since the epoch, and length in bytes."""

    time_ns: int
    rank: int
    length: int
    stream: int


def pack_chunk(chunk: Chunk) -> bytes:
    """The record of one piece."""
    return _RECORD.pack(chunk.time_ns, chunk.rank, chunk.length, chunk.stream)


def unpack_chunk(data: bytes) -> Iterator[Chunk]:
    """The pieces in the records of `data`, without invalid records and an incomplete last one."""
    if (parsed := columns(data)) is not None:
        wrong = frozenset(parsed.wrong)
        rows = zip(parsed.times, parsed.ranks, parsed.lengths, parsed.streams, strict=True)
        yield from (Chunk(*row) for i, row in enumerate(rows) if i not in wrong)


@dataclass(frozen=True, slots=True)
class Columns:
    """Many pieces: their times in nanoseconds, ranks, lengths in bytes and streams, in order.

    `wrong` are the places of invalid records; each is replaced by a piece without bytes.
    """

    times: tuple[int, ...]
    ranks: tuple[int, ...]
    lengths: tuple[int, ...]
    streams: tuple[int, ...]
    wrong: tuple[int, ...] = ()


def columns(data: bytes) -> Columns | None:
    """The pieces in complete records of `data`, by column, which is fast; None if there is none."""
    whole = len(data) - len(data) % SIZE
    if not whole:
        return None
    times, ranks, lengths, streams = zip(*_RECORD.iter_unpack(data[:whole]), strict=True)
    if max(ranks) <= MOST_RANK and _STREAMS.issuperset(streams) and max(times) <= _LATEST_NS:
        return Columns(times, ranks, lengths, streams)
    rows = zip(times, ranks, lengths, streams, strict=True)
    valid = [t <= _LATEST_NS and r <= MOST_RANK and s in _STREAMS for t, r, _, s in rows]
    return Columns(
        tuple(t if ok else 0 for t, ok in zip(times, valid, strict=True)),
        tuple(r if ok else 0 for r, ok in zip(ranks, valid, strict=True)),
        tuple(n if ok else 0 for n, ok in zip(lengths, valid, strict=True)),
        tuple(s if ok else paths.STDOUT for s, ok in zip(streams, valid, strict=True)),
        tuple(i for i, ok in enumerate(valid) if not ok),
    )


Pieces = list[tuple[Chunk, memoryview]]


class LogWriter:
    """Writes the bytes of every rank and stream of one attempt, and the records of their order.

    Even after a failed write, no record promises bytes that are missing, and no bytes lack a record. If the
    file of records cannot be created here, `append` tries again.

    Attributes:
        recorded: bytes that are on disk and have a record.
    """

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        self.recorded = 0
        self._most_open = files.most_open()
        self._files: dict[tuple[int, int], Growing] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._touched: set[tuple[int, int]] = set()
        self._records: Growing | None = None
        with contextlib.suppress(OSError):
            self._records_file()

    def append(self, pieces: Pieces) -> None:
        """Write the pieces.

        Raises:
            OSError: the folder did not take all of them; `recorded` counts the bytes that it took.
        """
        records = self._records_file()
        self._touched.clear()
        by_file: dict[tuple[int, int], list[memoryview]] = {}
        for chunk, data in pieces:
            by_file.setdefault((chunk.rank, chunk.stream), []).append(data)
        try:
            for key, buffers in by_file.items():
                self._file(key).write(buffers)
        except OSError:
            self._record(records, self._chunks_on_disk(pieces))
            raise
        self._record(records, [chunk for chunk, _ in pieces])

    def close(self) -> None:
        """Close every file."""
        self._close_files()
        if self._records:
            self._records.close()
            self._records = None

    def _records_file(self) -> Growing:
        if self._records is None:
            folder = paths.log_folder(self._run, self._attempt)
            folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
            file = Growing(folder / paths.CHUNKS)
            try:
                file.whole(MAGIC[file.size :])
            except OSError:
                file.close()
                raise
            self._records = file
        return self._records

    def _file(self, key: tuple[int, int]) -> Growing:
        """A stream's file, cut to its recorded length: a failed write may have left more bytes."""
        if key not in self._files:
            self._files[key] = self._open(key)
        file = self._files[key]
        file.cut(self._lengths.setdefault(key, file.size))
        self._touched.add(key)
        return file

    def _open(self, key: tuple[int, int]) -> Growing:
        """Open a stream's file; close all others first if they are as many as may stay open."""
        path = paths.log_file(self._run, self._attempt, *key)
        if len(self._files) >= self._most_open:
            self._close_files()
        try:
            return Growing(path)
        except OSError as error:
            if error.errno not in files.TOO_MANY_OPEN or not self._files:
                raise
        self._close_files()
        return Growing(path)

    def _close_files(self) -> None:
        self._sizes.update((key, file.size) for key, file in self._files.items())
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _chunks_on_disk(self, pieces: Pieces) -> list[Chunk]:
        """The parts of the pieces that are on disk."""
        ends = dict(self._lengths)
        sizes = self._sizes | {key: file.size for key, file in self._files.items()}
        on_disk = []
        for chunk, _ in pieces:
            key = chunk.rank, chunk.stream
            length = min(chunk.length, sizes[key] - ends[key]) if key in self._touched else 0
            if length:
                ends[key] += length
                on_disk.append(Chunk(chunk.time_ns, chunk.rank, length, chunk.stream))
        return on_disk

    def _record(self, records: Growing, written: list[Chunk]) -> None:
        """Record pieces that are on disk; if that fails, cut off the bytes that have no record."""
        before = records.size
        try:
            self._cut_torn(records)
            before = records.size
            records.write([b"".join(map(pack_chunk, written))])
        except OSError:
            self._count(written[: max(0, records.size - before) // SIZE])
            self._cut_unrecorded(records)
            raise
        self._count(written)

    def _count(self, written: list[Chunk]) -> None:
        for chunk in written:
            self._lengths[chunk.rank, chunk.stream] += chunk.length
            self.recorded += chunk.length

    def _cut_torn(self, records: Growing) -> None:
        records.cut(records.size - (records.size - len(MAGIC)) % SIZE)

    def _cut_unrecorded(self, records: Growing) -> None:
        """Cut off what has no complete record; what cannot be cut now is cut before the next append."""
        with contextlib.suppress(OSError):
            self._cut_torn(records)
            self._close_files()
            for key, length in self._lengths.items():
                if self._sizes.get(key, length) > length:
                    os.truncate(paths.log_file(self._run, self._attempt, *key), length)
                    self._sizes[key] = length
