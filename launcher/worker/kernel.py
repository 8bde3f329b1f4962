"""What Linux is asked about processes and their files; the only place that calls `prctl`.

Light, because every rank imports it before its own first line.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt orphaned descendants instead of leaving them to init."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(signum: int) -> None:
    """Have the kernel send this process `signum` when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum)


def same_file(path: str, descriptor: int) -> bool:
    """Whether `path` leads to the file that `descriptor` has open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False
