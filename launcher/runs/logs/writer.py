"""Ranks' output on its way to disk: bytes first, then the record of when and in which order they came.

The bytes themselves are in one file a rank and stream, untouched. A record says only when a piece came,
whose it was and how long, so offsets follow by addition, and a merged view is a walk over the records.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...serialization import LATEST
from .. import paths
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
    """The pieces in whole records of `data`, without a torn last one, and without what nobody wrote so."""
    if (found := columns(data)) is not None:
        wrong = frozenset(found.wrong)
        rows = zip(found.times, found.ranks, found.lengths, found.streams, strict=True)
        yield from (Chunk(*row) for i, row in enumerate(rows) if i not in wrong)


@dataclass(frozen=True, slots=True)
class Columns:
    """Many pieces: their times in nanoseconds, ranks, lengths in bytes and streams, in order.

    `wrong` are the places of records that nobody wrote so; a piece without bytes stands for each.
    """

    times: tuple[int, ...]
    ranks: tuple[int, ...]
    lengths: tuple[int, ...]
    streams: tuple[int, ...]
    wrong: tuple[int, ...] = ()


def columns(data: bytes) -> Columns | None:
    """The pieces in whole records of `data`, by column, which is quick; None if there is none."""
    whole = len(data) - len(data) % SIZE
    if not whole:
        return None
    times, ranks, lengths, streams = zip(*_RECORD.iter_unpack(data[:whole]), strict=True)
    if max(ranks) <= MOST_RANK and _STREAMS.issuperset(streams) and max(times) <= _LATEST_NS:
        return Columns(times, ranks, lengths, streams)
    rows = zip(times, ranks, lengths, streams, strict=True)
    right = [t <= _LATEST_NS and r <= MOST_RANK and s in _STREAMS for t, r, _, s in rows]
    return Columns(
        tuple(t if ok else 0 for t, ok in zip(times, right, strict=True)),
        tuple(r if ok else 0 for r, ok in zip(ranks, right, strict=True)),
        tuple(n if ok else 0 for n, ok in zip(lengths, right, strict=True)),
        tuple(s if ok else paths.STDOUT for s, ok in zip(streams, right, strict=True)),
        tuple(i for i, ok in enumerate(right) if not ok),
    )


_TOO_MANY = (errno.EMFILE, errno.ENFILE)

Pieces = list[tuple[Chunk, memoryview]]


class LogWriter:
    """The bytes of every rank and stream of one attempt, and the record of their order.

    After a write that failed, a record still never promises bytes that are not there, and no bytes are
    there that no record tells of. What the folder did not take when it was made, it is asked for again.

    Attributes:
        recorded: bytes that are on disk and recorded.
    """

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        self.recorded = 0
        self._files: dict[tuple[int, int], Growing] = {}
        self._lengths: dict[tuple[int, int], int] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._touched: set[tuple[int, int]] = set()
        self._chunks: Growing | None = None
        with contextlib.suppress(OSError):
            self._order()

    def append(self, pieces: Pieces) -> None:
        """Write the pieces.

        Raises:
            OSError: the folder did not take all of them; `recorded` tells how much it took.
        """
        order = self._order()
        self._touched.clear()
        by_file: dict[tuple[int, int], list[memoryview]] = {}
        for chunk, data in pieces:
            by_file.setdefault((chunk.rank, chunk.stream), []).append(data)
        try:
            for key, buffers in by_file.items():
                self._file(key).write(buffers)
        except OSError:
            self._record(order, self._written(pieces))
            raise
        self._record(order, [chunk for chunk, _ in pieces])

    def close(self) -> None:
        """Close every file."""
        self._close_files()
        if self._chunks:
            self._chunks.close()
            self._chunks = None

    def _order(self) -> Growing:
        if self._chunks is None:
            folder = paths.log_folder(self._run, self._attempt)
            folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
            file = Growing(folder / paths.CHUNKS)
            try:
                file.whole(MAGIC[file.size :])
            except OSError:
                file.close()
                raise
            self._chunks = file
        return self._chunks

    def _file(self, key: tuple[int, int]) -> Growing:
        """A stream's file, without what an earlier failure may have left behind its records."""
        if key not in self._files:
            self._files[key] = self._opened(key)
        file = self._files[key]
        file.cut(self._lengths.setdefault(key, file.size))
        self._touched.add(key)
        return file

    def _opened(self, key: tuple[int, int]) -> Growing:
        """Thousands of ranks may have more files than a process may hold open: the others close for it."""
        path = paths.log_file(self._run, self._attempt, *key)
        try:
            return Growing(path)
        except OSError as error:
            if error.errno not in _TOO_MANY or not self._files:
                raise
        self._close_files()
        return Growing(path)

    def _close_files(self) -> None:
        self._sizes.update((key, file.size) for key, file in self._files.items())
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _written(self, pieces: Pieces) -> list[Chunk]:
        """The part of the pieces that is on disk."""
        ends = dict(self._lengths)
        sizes = self._sizes | {key: file.size for key, file in self._files.items()}
        kept = []
        for chunk, _ in pieces:
            key = chunk.rank, chunk.stream
            length = min(chunk.length, sizes[key] - ends[key]) if key in self._touched else 0
            if length:
                ends[key] += length
                kept.append(Chunk(chunk.time_ns, chunk.rank, length, chunk.stream))
        return kept

    def _record(self, order: Growing, written: list[Chunk]) -> None:
        """Record pieces that are on disk; where that fails, take back those that have no record."""
        before = order.size
        try:
            self._cut_torn(order)
            before = order.size
            order.write([b"".join(map(pack_chunk, written))])
        except OSError:
            self._count(written[: max(0, order.size - before) // SIZE])
            self._take_back(order)
            raise
        self._count(written)

    def _count(self, written: list[Chunk]) -> None:
        for chunk in written:
            self._lengths[chunk.rank, chunk.stream] += chunk.length
            self.recorded += chunk.length

    def _cut_torn(self, order: Growing) -> None:
        order.cut(order.size - (order.size - len(MAGIC)) % SIZE)

    def _take_back(self, order: Growing) -> None:
        """What cannot be cut off now is, before anything is appended to it."""
        with contextlib.suppress(OSError):
            self._cut_torn(order)
            self._close_files()
            for key, length in self._lengths.items():
                if self._sizes.get(key, length) > length:
                    os.truncate(paths.log_file(self._run, self._attempt, *key), length)
                    self._sizes[key] = length
