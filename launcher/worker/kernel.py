"""What Linux is asked about processes and their files; the only place that calls `prctl`.

Light, because every rank imports it before its own first line.
"""

from __future__ import annotations

import ctypes
import os
import select

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt orphaned descendants instead of leaving them to init."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(signum: int) -> None:
    """Have the kernel send this process `signum` when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum)


def await_end(process: int, limit_s: float | None = None) -> bool:
    """Whether a process, given by its pidfd, has ended or does so within `limit_s` seconds; None: no limit.

    It is heard of at once, where `Popen.wait` with a limit looks every 50 ms.
    """
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    return bool(waiting.poll(None if limit_s is None else limit_s * 1000))


def same_file(path: str, descriptor: int) -> bool:
    """Whether `path` leads to the file that `descriptor` has open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
