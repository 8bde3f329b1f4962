"""`doctor` for clients of an engine, which starts agents in the Spark session that it keeps warm."""

from __future__ import annotations

from ..diagnosis.checks.check import CheckReport
from ..preflight import prepare
from ..spec.request import Request
from .client import examine


def diagnose(request: Request) -> CheckReport:
    """Check a launch: on this machine by this process, on a cluster by the engine of such runs. Blocks.

    Raises:
        LauncherError: the launch is not allowed, or there can be no engine.
    """
    prepared = prepare(request)
    if not request.spec.mode.traits.keeps_session:
        return prepared.judge(prepared.examine())
    return prepared.judge(examine(prepared.asking, prepared.questions))
