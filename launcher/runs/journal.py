"""`events.jsonl` while its run goes on: facts in their order, and those that wait because the disk is full.

The file is locked for as long as its writer lives: that tells a run that goes on from one whose owner died.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

from launcher import events as ev
from launcher.runs import paths
from launcher.runs.growing import Growing

WAITING_BYTES = 1 << 20

Keep = Callable[[Callable[[], None]], bool]


class Journal:
    """Appends facts, each whole or not at all.

    Args:
        run: the run folder.
        keep: carries out a write, with all that can be done for it; says whether it succeeded.

    Attributes:
        lost: facts for which there was no room even among those that wait.

    Raises:
        OSError: the file cannot be made.
    """

    def __init__(self, run: Path, keep: Keep) -> None:
        self._id = run.name
        self._keep = keep
        self._file = Growing(run / paths.EVENTS)
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._torn = False
        self.lost = 0
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._file.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    @property
    def behind(self) -> bool:
        """Whether facts wait to be written."""
        return bool(self._waiting)

    @property
    def removed(self) -> bool:
        """Whether somebody has deleted the file."""
        return os.fstat(self._file.descriptor).st_nlink == 0

    def put(self, event: ev.Event) -> None:
        """Put a fact behind those that wait; it counts as lost where there are too many."""
        line = ev.encode(event, self._id)
        if self._waiting and self._bytes + len(line) > WAITING_BYTES:
            self.lost += 1
            return
        self._waiting.append(line)
        self._bytes += len(line)

    def flush(self, keep: Keep | None = None) -> bool:
        """Write what waits, oldest first; whether nothing is left."""
        keep = keep or self._keep
        while self._waiting and keep(self._write_first):
            self._bytes -= len(self._waiting.popleft())
        return not self._waiting

    def give_up(self) -> None:
        """Count as lost what still waits."""
        self.lost += len(self._waiting)
        self._waiting.clear()
        self._bytes = 0

    def close(self) -> None:
        """Close the file, and unlock it."""
        self._file.close()

    def _write_first(self) -> None:
        """After a line that could not be taken back, on a line of its own."""
        line = self._waiting[0]
        before = self._file.size
        try:
            self._file.write([b"\n" + line if self._torn else line])
        except OSError:
            self._take_back(before)
            raise
        self._torn = False

    def _take_back(self, before: int) -> None:
        torn = self._file.size > before
        try:
            self._file.cut(before)
        except OSError:
            self._torn = self._torn or torn
