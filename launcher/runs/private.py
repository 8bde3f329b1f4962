"""Files that only their owner may read: how all of a run's files are made."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from launcher.runs import paths


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: a file that is made is made private."""
    return os.open(path, flags, paths.FILE_MODE)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one, never half of either.

    Raises:
        OSError: it could not be written; nothing is left of the new one.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=opener) as file:
            file.write(data)
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise
