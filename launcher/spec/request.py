"""A request to launch: the job, its secrets, and the process context of its caller.

The caller's environment may hold secrets and a pickled callable may be large, so both are kept beside the
spec, never inside it.

The engine that starts the ranks may have been started from another shell. So a request includes the limits
and other attributes of its caller's process, and ranks adopt them as far as the kernel allows.
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


@dataclass(frozen=True, slots=True)
class Request:
    """All that is needed to start a run.

    Attributes:
        spec: what to run; its `workdir` is absolute.
        environ: the caller's environment, which local ranks inherit.
        python: the interpreter that ranks run.
        payload: the pickled callable or arguments, if `spec.target.pickled`.
        path: the caller's `sys.path`, if the target is a function; a script does not need it.
        bundle: the target's sources, for hosts that have none of the caller's files.
        inherited: the umask, limits, cores and niceness of the caller, which local ranks adopt.
        session: the caller's own Spark session, if the run is to use it.
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
    """Refuse a working directory that does not exist.

    Raises:
        SpecError: it does not exist, or is no folder.
    """
    if not os.path.isdir(spec.workdir):
        is_what = "is not a folder" if os.path.lexists(spec.workdir) else "does not exist"
        raise SpecError(f"the working directory {spec.workdir} {is_what}")


def require_py_files(spec: JobSpec) -> None:
    """Refuse ``--py-files`` that do not exist. Their kind is checked when they are packed.

    Raises:
        SpecError: a path does not exist.
    """
    for text in spec.py_files:
        if not os.path.exists(path := py_file(spec, text)):
            raise SpecError(f"--py-files: there is no {path}", hint="give the option once for each file")


def py_file(spec: JobSpec, text: str) -> str:
    """The absolute path of one of ``--py-files``; a relative one starts in the working directory."""
    return os.path.abspath(os.path.join(spec.workdir, os.path.expanduser(text)))
