"""A request to launch: the spec, and what must not be written down with it.

The caller's environment may hold secrets and a pickled callable may be large; both travel beside the
spec, never inside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.errors import SpecError
from launcher.inherited import Inherited
from launcher.spec import JobSpec


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
