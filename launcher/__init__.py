"""Distributed training from Python: `Distributor(...).run(train)` on this machine or a Spark cluster.

Importing this is cheap: every name below is loaded when it is first used, because ranks and executors import
the package too.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .names import add_second_name

if TYPE_CHECKING:
    from .agent.report import UnpicklableResult, publish, report
    from .distributor import Distributor
    from .errors import (
        AgentLost,
        CannotPlace,
        InternalError,
        LauncherError,
        NoGroup,
        NoProgress,
        RankFailed,
        RecordError,
        RunNotFound,
        RunStopped,
        SpecError,
        TimeLimit,
    )
    from .job import Job
    from .spec.job import JobSpec, SparkSpec

__version__ = "0.1.0"

__all__ = [
    "AgentLost",
    "CannotPlace",
    "Distributor",
    "InternalError",
    "Job",
    "JobSpec",
    "LauncherError",
    "NoGroup",
    "NoProgress",
    "RankFailed",
    "RecordError",
    "RunNotFound",
    "RunStopped",
    "SparkSpec",
    "SpecError",
    "TimeLimit",
    "UnpicklableResult",
    "publish",
    "report",
]

_HOMES = {
    "Distributor": ".distributor",
    "Job": ".job",
    "JobSpec": ".spec.job",
    "SparkSpec": ".spec.job",
    "UnpicklableResult": ".agent.report",
    "publish": ".agent.report",
    "report": ".agent.report",
}

add_second_name()


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, ".errors"), __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
