"""The attributes of a caller's process that its local ranks adopt.

The engine that starts the ranks may have been started from another shell. So a request includes the limits
and other attributes of its caller's process, and ranks adopt them as far as the kernel allows.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

_LIMITS = ("NOFILE", "CORE", "MEMLOCK", "STACK", "AS", "DATA", "FSIZE", "CPU", "NPROC", "RSS")


@dataclass(frozen=True, slots=True)
class Inherited:
    """The attributes of the caller's process that local ranks adopt.

    Attributes:
        umask: the file mode mask; None to leave it as it is.
        limits: soft limits by their names without ``RLIMIT_``; -1 means none.
        cores: the cores that may be used; empty for all.
        nice: the niceness.
    """

    umask: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    nice: int = 0

    @classmethod
    def here(cls) -> Inherited:
        """The attributes of the calling process."""
        return cls(
            umask=_umask(),
            limits={name: resource.getrlimit(_number(name))[0] for name in _LIMITS},
            cores=tuple(sorted(os.sched_getaffinity(0))),
            nice=os.getpriority(os.PRIO_PROCESS, 0),
        )

    def apply(self) -> None:
        """Adopt them in this process; what the kernel refuses stays as it is."""
        if self.umask is not None:
            os.umask(self.umask)
        for name, soft in self.limits.items():
            _limit(name, soft)
        with contextlib.suppress(OSError, ValueError):
            if self.cores:
                os.sched_setaffinity(0, self.cores)
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, self.nice)


def _umask() -> int | None:
    """The umask, read from the kernel: the C library can return it only by setting it, for all threads."""
    found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else None


def _number(name: str) -> int:
    return int(getattr(resource, f"RLIMIT_{name}"))


def _limit(name: str, soft: int) -> None:
    """Set a soft limit, at most to the hard one."""
    if name not in _LIMITS:
        return
    now, hard = resource.getrlimit(_number(name))
    endless = resource.RLIM_INFINITY
    new = hard if hard != endless and (soft == endless or soft > hard) else soft
    if new != now:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(_number(name), (new, hard))
