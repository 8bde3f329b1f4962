"""Return values on their way to disk, and their summaries for people."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..serialization import Index, to_plain
from ..state import events as ev
from . import paths
from .files import Growing, write_whole


class ResultFile:
    """A return value that is being written: its file gets its name only when it is complete.

    After a failed write, the bytes are only counted, and an older file of that name is removed: it is no
    longer what the rank returned.

    Attributes:
        size: bytes so far.
        kept: whether they are on disk.

    Args:
        path: the file.
        failed: called with the error of a write that failed.
        ended: called when the value is complete, kept or not.
        kept: if False, nothing is written at all.
    """

    def __init__(
        self,
        path: Path,
        failed: Callable[[OSError], None],
        ended: Callable[[ResultFile], None],
        *,
        kept: bool = True,
    ) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        self._failed, self._ended = failed, ended
        self._file: Growing | None = None
        self.size = 0
        self.kept = kept
        self._try(self._open)

    def write(self, data: memoryview) -> None:
        """Append bytes."""
        self.size += len(data)
        if file := self._file:
            self._try(lambda: file.write([data]))

    def commit(self) -> None:
        """The value is complete: give the file its name."""
        self._try(self._rename)
        if not self.kept:
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
        self._ended(self)

    def discard(self) -> None:
        """The value will not be completed: remove the partial file."""
        if self._file:
            self._file.close()
            self._file = None
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)

    def _open(self) -> None:
        self._partial.unlink(missing_ok=True)
        self._file = Growing(self._partial)

    def _rename(self) -> None:
        assert self._file
        os.close(self._file.descriptor)  # some disks report only now that they are full
        self._file = None
        self._partial.replace(self._path)

    def _try(self, write: Callable[[], None]) -> None:
        if not self.kept:
            return
        try:
            write()
        except OSError as error:
            self.kept = False
            self.discard()
            self._failed(error)


@dataclass(frozen=True, slots=True)
class Summary:
    """What people see of a rank's value: the value itself if `json`, else a short text."""

    rank: Index
    type: str
    size: int
    value: Any = None
    json: bool = False


def summary_of(event: ev.RankReturned) -> dict[str, Any]:
    """What people see of a value."""
    value = event.value if event.json else event.preview
    return {"rank": event.rank, "type": event.type, "size": event.size, "value": value, "json": event.json}


def write_summaries(run: Path, returned: Iterable[ev.RankReturned]) -> None:
    """Replace the file of summaries, by rank.

    Raises:
        OSError: it cannot be written.
    """
    listed = [to_plain(summary_of(event)) for event in sorted(returned, key=lambda e: e.rank)]
    write_whole(run / paths.SUMMARY, json.dumps(listed).encode())


def forget_results(run: Path) -> None:
    """Remove the values of an attempt that failed: they are not the run's result."""
    for stale in (run / paths.SUMMARY, *(run / paths.RESULT).glob("*.pickle")):
        with contextlib.suppress(OSError):
            stale.unlink(missing_ok=True)
