"""Whether a run's folder takes anything more, and a little room kept for when it does not.

The reserve is a file with nothing in it but its length, really allocated. A full disk takes small things
that matter, each at the expense of a piece of it, so that somebody else's files do not get all of it at
once; its last part is the verdict's.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from pathlib import Path

from launcher.runs import paths

RESERVE = 256 << 10
PER_RANK = 512
LAST = 64 << 10
HEADROOM = 256 << 10
RETRY_S = 1.0
LONGEST_RETRY_S = 60.0
_PIECE = 16 << 10
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Room:
    """The reserve of one folder, and when to try again after the folder has taken no more.

    Attributes:
        stopped: whether it takes no more.

    Args:
        folder: the run folder.
        ranks: how many ranks will have something to say.
        monotonic: a clock in seconds.
    """

    def __init__(self, folder: Path, ranks: int, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._path = folder / paths.RESERVE
        self._whole = max(RESERVE, PER_RANK * ranks + LAST)
        self._monotonic = monotonic
        self._left = 0
        self._wait, self._due, self._resumed = RETRY_S, 0.0, float("-inf")
        self.stopped = False
        self._refill(0)

    @property
    def due(self) -> bool:
        """Whether it is time to look again whether the folder takes anything: seldom, for it costs."""
        return self._monotonic() >= self._due

    def put_off(self) -> None:
        """Look again a moment later."""
        self._due = self._monotonic() + self._wait

    def stop(self) -> None:
        """The folder has taken no more. The sooner after the last time, the later it is tried again."""
        now = self._monotonic()
        again = now < self._resumed + LONGEST_RETRY_S
        self._wait = min(2 * self._wait, LONGEST_RETRY_S) if again else RETRY_S
        self.stopped = True
        self.put_off()

    def has_come_back(self) -> bool:
        """Whether the folder takes something again: the whole reserve, and somewhat more."""
        self.put_off()
        if not self._refill(HEADROOM):
            return False
        self.stopped, self._resumed = False, self._monotonic()
        return True

    def spend(self, error: OSError, *, last: bool = False) -> bool:
        """Give a piece of the reserve back to the disk; whether what failed may be tried again.

        Args:
            error: what it failed with: only a full disk is helped so.
            last: whether it is the verdict, for which the last part is kept.
        """
        floor = 0 if last else LAST
        if error.errno not in _FULL or self._left <= floor:
            return False
        self._left = max(floor, self._left - _PIECE)
        with contextlib.suppress(OSError):
            os.truncate(self._path, self._left)
            return True
        return False

    def release(self) -> None:
        """Give all of it back: the run is over."""
        self._left = 0
        with contextlib.suppress(OSError):
            self._path.unlink()

    def _refill(self, headroom: int) -> bool:
        """Make the reserve whole, if that and some room beside it are to be had."""
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, paths.FILE_MODE)
        except OSError:
            return False
        try:
            os.posix_fallocate(descriptor, 0, self._whole + headroom)
            self._left = self._whole
        except OSError:
            return False
        finally:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, self._left)
            os.close(descriptor)
        return True
