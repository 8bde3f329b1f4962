"""The files of a run's output, read at any place by any thread, and no more of them open than needed."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from errno import EINVAL
from pathlib import Path

from ...state.events import PartUnreadable
from ...state.fold import UNREADABLE_LINES
from .. import files, paths
from .. import files as opening
from ..files import NotPlain
from . import writer
from .rows import SHIFT

_MOST_OLD = 64
_GARBAGE = 4000
"""So many records at once that are none are no damage, but the end of all that can be read."""


class LogFiles:
    """Ranks' bytes and the records of their order, of every attempt of a run.

    Attributes:
        attempt: the current one, whose files stay open.
        unreadable: what was found to be unreadable, by the file's name in the folder.
    """

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self.attempt = attempt
        self.unreadable: dict[str, PartUnreadable] = {}
        self._lock = threading.Lock()  # a descriptor must not be closed while another thread reads from it
        self._files: dict[tuple[int, int], int] = {}
        self._old_files: dict[tuple[int, int], int] = {}

    def read(self, key: int, attempt: int, start: int, length: int) -> bytes:
        """Bytes of a stream; fewer, or none, if the file has no more."""
        if not length:
            return b""
        path = paths.log_file(self._run, attempt, key >> SHIFT, key & 3)
        try:
            with self._lock:
                descriptor = self._file(key, attempt, path)
                length = min(length, os.fstat(descriptor).st_size - start)  # records may promise anything
                return os.pread(descriptor, length, start) if length > 0 else b""
        except FileNotFoundError:
            return b""
        except (NotPlain, PermissionError) as error:
            self._refuse(path, error)
            return b""

    def records(self, attempt: int, position: int, count: int) -> writer.Columns | None:
        """At most `count` records from a place in their file on; None if there is none yet."""
        path = paths.log_folder(self._run, attempt) / paths.CHUNKS
        try:
            with files.open_file(self._run, path, buffering=0) as file:
                begin = os.pread(file.fileno(), len(writer.MAGIC), 0)
                if begin != writer.MAGIC:
                    if not writer.MAGIC.startswith(begin):
                        raise NotPlain(EINVAL, "is not of this version", str(path))
                    return None
                found = writer.columns(os.pread(file.fileno(), count * writer.SIZE, position))
                if found is not None and len(found.times) == len(found.wrong) >= _GARBAGE:
                    size = os.fstat(file.fileno()).st_size
                    raise NotPlain(EINVAL, f"ends in {size - position:,} bytes of garbage", str(path))
                return found
        except FileNotFoundError:
            return None
        except (NotPlain, PermissionError) as error:
            self._refuse(path, error)
            return None

    def try_file(self, path: Path) -> None:
        """Find out whether a file of the output can be opened at all."""
        try:
            os.close(files.open_descriptor(self._run, path))
        except FileNotFoundError:
            return
        except (NotPlain, PermissionError) as error:
            self._refuse(path, error)

    def note_wrong(self, attempt: int, first: int, wrong: Sequence[int]) -> None:
        """Some of the records from the `first` on, counted from 0, are none."""
        path = paths.log_folder(self._run, attempt) / paths.CHUNKS
        numbers = tuple(first + at + 1 for at in wrong[:UNREADABLE_LINES])
        self._note(path, "it is no record", numbers, len(wrong))

    def _refuse(self, path: Path, error: OSError) -> None:
        self._note(path, error.strerror or str(error))

    def _note(self, path: Path, reason: str, lines: tuple[int, ...] = (), count: int = 0) -> None:
        file = path.relative_to(self._run).as_posix()
        old = self.unreadable.get(file)
        known = old.lines if old is not None else ()
        self.unreadable[file] = PartUnreadable(
            time=0.0,
            file=file,
            lines=(*known, *lines)[:UNREADABLE_LINES],
            count=count + (old.count if old is not None else 0),
            reason=reason,
        )

    def following(self) -> int | None:
        """The attempt after the current one, if it has begun."""
        return next((a for a in paths.attempts(self._run) if a > self.attempt), None)

    def close(self) -> None:
        """Close the files; one that is asked for again is opened again."""
        with self._lock:
            for files in (self._files, self._old_files):
                for descriptor in files.values():
                    os.close(descriptor)
                files.clear()

    def _file(self, key: int, attempt: int, path: Path) -> int:
        files = self._files if attempt == self.attempt else self._old_files
        found = files.get((attempt, key))
        if found is None:
            if len(self._old_files) >= _MOST_OLD:
                os.close(self._old_files.pop(next(iter(self._old_files))))
            found = files[attempt, key] = opening.open_descriptor(self._run, path)
        return found
