"""A file that only grows, whose length is known: what a failed write left behind can be cut off again."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable
from errno import EINVAL
from pathlib import Path

from launcher.runs import paths

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_IOV = 512

Buffer = bytes | memoryview


class Growing:
    """An append-only file.

    Attributes:
        size: its length, however the last write ended.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, _APPEND, paths.FILE_MODE)
        found = os.fstat(self.descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self.descriptor)
            raise OSError(EINVAL, "it is no regular file", str(path))
        self.size = found.st_size

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Append all buffers; a short write goes on where it ended.

        Raises:
            OSError: the file took no more; `size` says how much it took.
        """
        queue = [memoryview(buffer) for buffer in buffers]
        while queue:
            written = os.writev(self.descriptor, queue[:_IOV])
            self.size += written
            while queue and written >= len(queue[0]):
                written -= len(queue.pop(0))
            if written:
                queue[0] = queue[0][written:]

    def whole(self, buffer: Buffer) -> None:
        """Append a buffer, or nothing of it.

        Raises:
            OSError: the file took no more.
        """
        before = self.size
        try:
            self.write([buffer])
        except OSError:
            self.cut(before)
            raise

    def cut(self, size: int) -> None:
        """Shorten the file.

        Raises:
            OSError: not even that is possible.
        """
        if self.size > size:
            os.ftruncate(self.descriptor, size)
            self.size = size

    def close(self) -> None:
        """Close it; what a remote disk says only now comes too late."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
