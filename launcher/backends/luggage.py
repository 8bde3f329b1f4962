"""A run folder that comes home in pieces, with the rows of its Spark task: packed there, unpacked here."""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath

from launcher.runs import paths
from launcher.runs.private import opener

PIECE_BYTES = 1 << 20
SLICE_BYTES = 4 << 20
BLOCK_BYTES = 64 << 10
_PARTIAL, _UNPACKED = ".carried.tar.gz", ".carried"
_LEVEL = 1


class _Full(Exception):
    """There is no room for more."""


class _Pieces:
    """A file to write to, which hands over what it gets in pieces of one size."""

    def __init__(self, send: Callable[[bytes], None], limit: int) -> None:
        self._send, self._room = send, limit or float("inf")
        self._buffer = bytearray()

    def write(self, data: bytes) -> int:
        self._room -= len(data)
        if self._room < 0:
            raise _Full
        self._buffer += data
        while len(self._buffer) >= PIECE_BYTES:
            self._send(bytes(self._buffer[:PIECE_BYTES]))
            del self._buffer[:PIECE_BYTES]
        return len(data)

    def flush(self) -> None:
        """As files have it; pieces leave when they are full."""

    def finish(self) -> None:
        if self._buffer:
            self._send(bytes(self._buffer))


def send_folder(run: Path, send: Callable[[bytes], None], *, limit: int = 0) -> None:
    """Pack a run folder and hand it over in pieces; what is beyond the limit is left out.

    What a verdict and a result need comes first, so that only output can be missing, and of every rank some.

    Args:
        run: the folder.
        send: takes a piece.
        limit: the most bytes to send; 0 for any number.

    Raises:
        OSError: the folder cannot be read, or a piece cannot be sent.
    """
    pieces = _Pieces(send, limit)
    try:
        with (
            gzip.GzipFile(fileobj=pieces, mode="wb", compresslevel=_LEVEL) as packed,
            tarfile.open(fileobj=packed, mode="w|", bufsize=PIECE_BYTES) as tar,
        ):
            for file, start, size in _slices(_files(run)):
                member = tarfile.TarInfo(str(file.relative_to(run)))
                member.size = size
                with open(file, "rb") as source:
                    source.seek(start)
                    tar.addfile(member, source)
    except _Full:
        pass
    pieces.finish()


def _files(run: Path) -> list[Path]:
    """What must come home, in the order in which it can be missed least."""
    order = (paths.EVENTS, paths.RESULT, paths.SAMPLES, paths.LOGS)
    found = {Path(at, name) for at, _, names in os.walk(run) for name in names}
    ranked = [(order.index(first), f) for f in found if (first := f.relative_to(run).parts[0]) in order]
    return [f for _, f in sorted(ranked, key=lambda pair: (pair[0], pair[1].name != paths.CHUNKS, pair[1]))]


def _slices(files: Iterable[Path]) -> Iterator[tuple[Path, int, int]]:
    """(file, start, length) of slices, in rounds, so that no large file keeps all others waiting."""
    waiting = deque((file, 0, file.stat().st_size) for file in files)
    while waiting:
        file, start, size = waiting.popleft()
        yield file, start, min(SLICE_BYTES, size - start)
        if start + SLICE_BYTES < size:
            waiting.append((file, start + SLICE_BYTES, size))


class Luggage:
    """What has come home for one run, in its folder, under names that nobody looks at."""

    def __init__(self, folder: Path) -> None:
        self._packed, self._unpacked = folder / _PARTIAL, folder / _UNPACKED
        self.whole = True

    def add(self, data: bytes) -> None:
        """Keep the next piece.

        Raises:
            OSError: there is no room.
        """
        with open(self._packed, "ab", opener=opener) as file:
            file.write(data)

    def unpack(self) -> Path | None:
        """The folder, unpacked as far as it came; `whole` says whether that is all. None if nothing came.

        Raises:
            OSError: there is no room.
        """
        if not self._packed.exists():
            return None
        self._unpacked.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
        self.whole = False
        try:
            with tarfile.open(self._packed, mode="r|gz", bufsize=PIECE_BYTES) as tar:
                for member in tar:
                    self._take(tar, member)
            self.whole = True
        except (tarfile.ReadError, EOFError, zlib.error):
            pass
        return self._unpacked

    def discard(self) -> None:
        """Remove all of it."""
        self._packed.unlink(missing_ok=True)
        shutil.rmtree(self._unpacked, ignore_errors=True)

    def _take(self, tar: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Only files, and only below: whatever wrote the names was on another host."""
        place = PurePosixPath(member.name)
        source = tar.extractfile(member) if member.isreg() else None
        if source is None or place.is_absolute() or ".." in place.parts:
            return
        target = self._unpacked / place
        target.parent.mkdir(mode=paths.FOLDER_MODE, parents=True, exist_ok=True)
        with open(target, "ab", opener=opener) as file:  # large files come in slices
            shutil.copyfileobj(source, file, BLOCK_BYTES)
