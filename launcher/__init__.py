"""Distributed training from Python: `Distributor(...).run(train)` on this machine or a Spark cluster.

Importing this is cheap: every name below is loaded when it is first used, because ranks and executors import
the package too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .names import add_second_name, load_on_use

if TYPE_CHECKING:
    from .agent.report import UnpicklableResult, pause, publish, report
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
        RowsFailed,
        RunNotFound,
        RunStopped,
        SpecError,
        TimeLimit,
    )
    from .job import Job
    from .preflight import doctor
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
    "RowsFailed",
    "RunNotFound",
    "RunStopped",
    "SparkSpec",
    "SpecError",
    "TimeLimit",
    "UnpicklableResult",
    "doctor",
    "pause",
    "publish",
    "report",
]

_HOMES = {
    **dict.fromkeys(__all__, ".errors"),  # all but the following
    "Distributor": ".distributor",
    "Job": ".job",
    "JobSpec": ".spec.job",
    "SparkSpec": ".spec.job",
    "UnpicklableResult": ".agent.report",
    "pause": ".agent.report",
    "doctor": ".preflight",
    "publish": ".agent.report",
    "report": ".agent.report",
}

add_second_name()


def __getattr__(name: str) -> Any:
    return load_on_use(globals(), _HOMES, name)


def __dir__() -> list[str]:
    return sorted(__all__)
