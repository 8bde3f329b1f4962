"""Somebody else on this machine, played by a child of root's."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="another user can only be played by root")


def as_nobody(work: Callable[[], bool]) -> int:
    """The exit code of a forked child with another uid: 0 if what it did came out true."""
    pid = os.fork()
    if not pid:
        signal.alarm(20)
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os._exit(0 if work() else 1)
        except BaseException:  # noqa: BLE001  a child must not run the rest of the tests
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
