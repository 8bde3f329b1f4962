"""Ranks' output on its way to disk: bytes first, then the record of when and in which order they came."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path

from launcher.runs import chunks, paths
from launcher.runs.growing import Growing

_TOO_MANY = (errno.EMFILE, errno.ENFILE)

Pieces = list[tuple[chunks.Chunk, memoryview]]


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
                file.whole(chunks.MAGIC[file.size :])
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

    def _written(self, pieces: Pieces) -> list[chunks.Chunk]:
        """The part of the pieces that is on disk."""
        ends = dict(self._lengths)
        sizes = self._sizes | {key: file.size for key, file in self._files.items()}
        kept = []
        for chunk, _ in pieces:
            key = chunk.rank, chunk.stream
            length = min(chunk.length, sizes[key] - ends[key]) if key in self._touched else 0
            if length:
                ends[key] += length
                kept.append(chunks.Chunk(chunk.time_ns, chunk.rank, length, chunk.stream))
        return kept

    def _record(self, order: Growing, written: list[chunks.Chunk]) -> None:
        """Record pieces that are on disk; where that fails, take back those that have no record."""
        before = order.size
        try:
            self._cut_torn(order)
            before = order.size
            order.write([b"".join(map(chunks.pack, written))])
        except OSError:
            self._count(written[: max(0, order.size - before) // chunks.SIZE])
            self._take_back(order)
            raise
        self._count(written)

    def _count(self, written: list[chunks.Chunk]) -> None:
        for chunk in written:
            self._lengths[chunk.rank, chunk.stream] += chunk.length
            self.recorded += chunk.length

    def _cut_torn(self, order: Growing) -> None:
        order.cut(order.size - (order.size - len(chunks.MAGIC)) % chunks.SIZE)

    def _take_back(self, order: Growing) -> None:
        """What cannot be cut off now is, before anything is appended to it."""
        with contextlib.suppress(OSError):
            self._cut_torn(order)
            self._close_files()
            for key, length in self._lengths.items():
                if self._sizes.get(key, length) > length:
                    os.truncate(paths.log_file(self._run, self._attempt, *key), length)
                    self._sizes[key] = length
