"""Rows of a log written to a file, as plain text: what a person saves, or reads in a pager."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Protocol

from console.sources.cleaning import plain
from console.sources.log_line import LogLine

_PIECE = 2000


class Rows(Protocol):
    """What can be written: rows by number, of all ranks or of one."""

    def count(self, rank: int | None = None) -> int:
        """How many there are."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of them."""


def copy_rows(
    rows: Rows,
    rank: int | None,
    file: IO[str],
    *,
    stop: threading.Event,
    told: Callable[[float], None],
    times: bool = False,
) -> int | None:
    """Write all rows that there are now; how many, or None if it was stopped before the end.

    Args:
        rank: the only rank whose rows are wanted; without one, each line says its rank.
        told: is told what share is written, now and then.
        times: whether lines say when they came.

    Raises:
        OSError: the file took no more.
    """
    count = rows.count(rank)
    for start in range(0, count, _PIECE):
        if stop.is_set():
            return None
        lines = (rows.line(i, rank) for i in range(start, min(start + _PIECE, count)))
        file.write("".join(_text(line, merged=rank is None, times=times) for line in lines))
        told(start / count)
    return count


def new_file(path: Path, *, replace: bool) -> IO[str]:
    """A file to write to.

    Raises:
        FileExistsError: there is one, which is not to be replaced.
        OSError: it cannot be made.
    """
    return open(path, "w" if replace else "x", encoding="utf-8", errors="replace")


def _text(line: LogLine, *, merged: bool, times: bool) -> str:
    body = plain(line.text.encode("utf-8", "replace"))
    if line.mark:
        return f"{body}\n"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(line.time)) if times else ""
    when = f"{stamp}.{int(line.time * 1000) % 1000:03d} " if times else ""
    return f"{when}{f'r{line.rank} | ' if merged else ''}{body}\n"
