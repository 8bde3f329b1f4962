"""Distributed training from Python: `Distributor(...).run(train)` on this machine or a Spark cluster.

Importing this costs nothing: every name below is loaded when it is first used, because ranks and
executors import the package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .agent.report import UnpicklableResult, publish, report
    from .distributor import Distributor
    from .errors import (
        AgentLost,
        CannotPlace,
        InternalError,
        LauncherError,
        NoProgress,
        RankFailed,
        RecordError,
        RunNotFound,
        RunStopped,
        SpecError,
        TimeLimit,
    )
    from .job import Job
    from .spec.job import JobSpec

__version__ = "0.1.0"

__all__ = [
    "AgentLost",
    "CannotPlace",
    "Distributor",
    "InternalError",
    "Job",
    "JobSpec",
    "LauncherError",
    "NoProgress",
    "RankFailed",
    "RecordError",
    "RunNotFound",
    "RunStopped",
    "SpecError",
    "TimeLimit",
    "UnpicklableResult",
    "publish",
    "report",
]

_HOMES = {
    "Distributor": "launcher.distributor",
    "Job": "launcher.job",
    "JobSpec": "launcher.spec.job",
    "UnpicklableResult": "launcher.agent.report",
    "publish": "launcher.agent.report",
    "report": "launcher.agent.report",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'launcher' has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "launcher.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
