"""The files of a run's output, read at any place by any thread, and no more of them open than needed."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from launcher.runs import chunks, paths
from launcher.runs.line_rows import SHIFT

_MOST_OLD = 64


class LogFiles:
    """Ranks' bytes and the records of their order, of every attempt of a run.

    Attributes:
        attempt: the current one, whose files stay open.
    """

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self.attempt = attempt
        self._lock = threading.Lock()  # a descriptor must not be closed while another thread reads from it
        self._files: dict[tuple[int, int], int] = {}
        self._old_files: dict[tuple[int, int], int] = {}

    def read(self, key: int, attempt: int, start: int, length: int) -> bytes:
        """Bytes of a stream; fewer, or none, if the file has no more."""
        if not length:
            return b""
        try:
            with self._lock:
                return os.pread(self._file(key, attempt), length, start)
        except FileNotFoundError:
            return b""

    def records(self, attempt: int, position: int, count: int) -> chunks.Columns | None:
        """At most `count` records from a place in their file on; None if there is none yet."""
        path = paths.log_folder(self._run, attempt) / paths.CHUNKS
        try:
            with open(path, "rb", buffering=0) as file:
                return chunks.columns(os.pread(file.fileno(), count * chunks.SIZE, position))
        except FileNotFoundError:
            return None

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

    def _file(self, key: int, attempt: int) -> int:
        files = self._files if attempt == self.attempt else self._old_files
        found = files.get((attempt, key))
        if found is None:
            if len(self._old_files) >= _MOST_OLD:
                os.close(self._old_files.pop(next(iter(self._old_files))))
            path = paths.log_file(self._run, attempt, key >> SHIFT, key & 3)
            found = files[attempt, key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        return found
