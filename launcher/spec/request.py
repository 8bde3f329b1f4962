"""A request to launch: the job, its secrets, and the process context of its caller.

The caller's environment may hold secrets and a pickled callable may be large; both travel beside the
spec, never inside it.

Ranks are started by an engine that somebody else may have started, from another shell; they get what
their own caller had, as far as a process may take it.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import SpecError
from .job import JobSpec

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


@dataclass(frozen=True, slots=True)
class Request:
    """All that is needed to start a run.

    Attributes:
        spec: what to run; its `workdir` is absolute.
        environ: the caller's environment, which local ranks inherit.
        python: the interpreter that ranks run.
        payload: the pickled callable or arguments, where the target says so.
        path: the caller's `sys.path`, where the target is a function of the caller's own world.
        bundle: the target's sources, for hosts that have none of the caller's files.
        inherited: the caller's file mask, limits and cores, which local ranks get.
        session: the caller's own Spark session, where it is to be used.
    """

    spec: JobSpec
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    python: str = sys.executable
    payload: bytes | None = field(default=None, repr=False)
    path: tuple[str, ...] = ()
    bundle: bytes | None = field(default=None, repr=False)
    inherited: Inherited = field(default_factory=Inherited.here)
    session: Any = field(default=None, repr=False, compare=False)


def require_workdir(spec: JobSpec) -> None:
    """Refuse a working directory that is none.

    Raises:
        SpecError: it is not there, or is no folder.
    """
    if not os.path.isdir(spec.workdir):
        is_what = "is not a folder" if os.path.lexists(spec.workdir) else "does not exist"
        raise SpecError(f"the working directory {spec.workdir} {is_what}")


def require_py_files(spec: JobSpec) -> None:
    """Refuse what is to be sent along and is not there; what it is, only packing tells.

    Raises:
        SpecError: something is not there.
    """
    for text in spec.py_files:
        if not os.path.exists(path := py_file(spec, text)):
            raise SpecError(f"--py-files: there is no {path}", hint="give the option once for each file")


def py_file(spec: JobSpec, text: str) -> str:
    """Where something to be sent along lies: a relative path starts in the working directory."""
    return os.path.abspath(os.path.join(spec.workdir, os.path.expanduser(text)))
