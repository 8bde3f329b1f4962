"""Read the files of a run's output, from any offset and any thread, with few of them open."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from errno import EINVAL
from pathlib import Path
from typing import BinaryIO, TypeVar

from ...errors import counted
from ...state.events import PartUnreadable
from ...state.fold import UNREADABLE_LINES
from .. import files, paths
from ..files import NotPlain
from . import writer
from .rows import SHIFT

_GARBAGE = 4000
"""If at least so many records are read at once and all are invalid, nothing after them can be read."""


_Opened = TypeVar("_Opened", int, BinaryIO)


class LogFiles:
    """The files of ranks' bytes and of the records of their order, for every attempt of a run.

    Attributes:
        attempt: the current attempt.
        unreadable: files and records that could not be read, by the file's path in the run folder.
    """

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self.attempt = attempt
        self.unreadable: dict[str, PartUnreadable] = {}
        self._lock = threading.Lock()  # a descriptor must not be closed while another thread reads from it
        self._most_open = files.most_open()
        self._files: dict[tuple[int, int], int] = {}  # the one that was read last stands last

    def read(self, key: int, attempt: int, start: int, length: int) -> bytes:
        """Read `length` bytes of a stream; fewer, or none, if the file has no more."""
        if not length:
            return b""
        try:
            with self._lock:
                descriptor = self._file(key, attempt)
                length = min(length, os.fstat(descriptor).st_size - start)  # a bad record promises any length
                return os.pread(descriptor, length, start) if length > 0 else b""
        except FileNotFoundError:
            return b""
        except (NotPlain, PermissionError) as error:
            self._note_error(self._path(key, attempt), error)
            return b""

    def records(self, attempt: int, position: int, count: int) -> writer.Columns | None:
        """Read at most `count` records from offset `position` of their file; None if there is none yet."""
        path = paths.log_folder(self._run, attempt) / paths.CHUNKS
        try:
            with self._opened(path) as file:
                magic = os.pread(file.fileno(), len(writer.MAGIC), 0)
                if magic != writer.MAGIC:
                    if not writer.MAGIC.startswith(magic):
                        raise NotPlain(EINVAL, "is not of this version", str(path))
                    return None
                columns = writer.columns(os.pread(file.fileno(), count * writer.SIZE, position))
                if columns is not None and len(columns.times) == len(columns.wrong) >= _GARBAGE:
                    size = os.fstat(file.fileno()).st_size
                    garbage = counted(size - position, "byte")
                    raise NotPlain(EINVAL, f"ends in {garbage} of garbage", str(path))
                return columns
        except FileNotFoundError:
            return None
        except (NotPlain, PermissionError) as error:
            self._note_error(path, error)
            return None

    def try_file(self, path: Path) -> None:
        """Try to open a file of the output; note in `unreadable` if it cannot be opened."""
        try:
            self._opened(path).close()
        except FileNotFoundError:
            return
        except (NotPlain, PermissionError) as error:
            self._note_error(path, error)

    def note_wrong(self, attempt: int, first: int, wrong: Sequence[int]) -> None:
        """Note invalid records: `wrong` are their places after record `first`, which is counted from 0."""
        path = paths.log_folder(self._run, attempt) / paths.CHUNKS
        numbers = tuple(first + at + 1 for at in wrong[:UNREADABLE_LINES])
        self._note(path, "it is no record", numbers, len(wrong))

    def _note_error(self, path: Path, error: OSError) -> None:
        self._note(path, error.strerror or str(error))

    def _note(self, path: Path, reason: str, lines: tuple[int, ...] = (), count: int = 0) -> None:
        file = path.relative_to(self._run).as_posix()
        earlier = self.unreadable.get(file)
        known = earlier.lines if earlier is not None else ()
        self.unreadable[file] = PartUnreadable(
            time=0.0,
            file=file,
            lines=(*known, *lines)[:UNREADABLE_LINES],
            count=count + (earlier.count if earlier is not None else 0),
            reason=reason,
        )

    def following(self) -> int | None:
        """The attempt after the current one, if it has begun."""
        return next((a for a in paths.attempts(self._run) if a > self.attempt), None)

    def close(self) -> None:
        """Close the files; `read` opens them again when needed."""
        with self._lock:
            self._close_files()

    def _close_files(self) -> None:
        for descriptor in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def _path(self, key: int, attempt: int) -> Path:
        return paths.log_file(self._run, attempt, key >> SHIFT, key & 3)

    def _file(self, key: int, attempt: int) -> int:
        """A stream's descriptor; of those that are open, the one that was not read for longest gives way."""
        descriptor = self._files.pop((attempt, key), None)
        if descriptor is None:
            if len(self._files) >= self._most_open:
                os.close(self._files.pop(next(iter(self._files))))
            descriptor = self._open(files.open_descriptor, self._path(key, attempt))
        self._files[attempt, key] = descriptor
        return descriptor

    def _opened(self, path: Path) -> BinaryIO:
        """A file that its reader closes."""
        with self._lock:
            return self._open(files.open_file, path)

    def _open(self, opened: Callable[[Path, Path], _Opened], path: Path) -> _Opened:
        """Open a file; close all others first if this process has no room for one more."""
        try:
            return opened(self._run, path)
        except OSError as error:
            if error.errno not in files.TOO_MANY_OPEN or not self._files:
                raise
        self._close_files()
        return opened(self._run, path)
