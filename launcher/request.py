"""A request to launch: the spec, and what must not be written down with it.

The caller's environment may hold secrets and a pickled callable may be large; both travel beside the
spec, never inside it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field

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
    """

    spec: JobSpec
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    python: str = sys.executable
    payload: bytes | None = field(default=None, repr=False)
    path: tuple[str, ...] = ()
