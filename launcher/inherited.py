"""What a process has from its starter beside its environment: file mask, limits, cores, niceness.

Ranks are started by an engine that somebody else may have started, from another shell; they get what
their own caller had, as far as a process may take it.
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
    """One process's share of these.

    Attributes:
        umask: the bits that new files lack; None to leave it alone.
        limits: soft limits by their names without ``RLIMIT_``; -1 means none.
        cores: the cores that may be used; empty for all that there are.
        nice: the niceness.
    """

    umask: int | None = None
    limits: Mapping[str, int] = field(default_factory=dict)
    cores: tuple[int, ...] = ()
    nice: int = 0

    @classmethod
    def here(cls) -> Inherited:
        """The calling process's."""
        return cls(
            umask=_umask(),
            limits={name: resource.getrlimit(_number(name))[0] for name in _LIMITS},
            cores=tuple(sorted(os.sched_getaffinity(0))),
            nice=os.getpriority(os.PRIO_PROCESS, 0),
        )

    def apply(self) -> None:
        """Take them on in this process; what it may not have stays as it is."""
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
    """As the kernel tells it: to ask the C library is to set it, for all threads."""
    found = re.search(r"^Umask:\s*([0-7]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    return int(found[1], 8) if found else None


def _number(name: str) -> int:
    return int(getattr(resource, f"RLIMIT_{name}"))


def _limit(name: str, soft: int) -> None:
    """A soft limit, up to the hard one."""
    if name not in _LIMITS:
        return
    now, hard = resource.getrlimit(_number(name))
    endless = resource.RLIM_INFINITY
    wanted = hard if hard != endless and (soft == endless or soft > hard) else soft
    if wanted != now:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(_number(name), (wanted, hard))
