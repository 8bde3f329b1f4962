"""The Spark session that is active in this process, of either kind, without importing pyspark for it."""

from __future__ import annotations

import sys
from typing import Any

from launcher.spec import Mode


def find_active(want: Mode = Mode.CLUSTER) -> Any:
    """The session that is active in this process, or None. A Connect session may be its thread's alone.

    Ask on the caller's own thread: a thread of ours does not see what another has made active there.
    """
    connect, classic = _active_connect(), _active_classic()
    return (connect or classic) if want is Mode.CONNECT else (classic or connect)


def _active_classic() -> Any:
    core = sys.modules.get("pyspark.core.context") or sys.modules.get("pyspark.context")
    context = core.SparkContext._active_spark_context if core else None  # noqa: SLF001  # no thread's own
    return None if context is None or context._jsc is None else context  # noqa: SLF001


def _active_connect() -> Any:
    package = sys.modules.get("pyspark.sql.connect.session")
    if package is None:
        return None
    kind = package.SparkSession
    return kind.getActiveSession() or kind._get_default_session()  # noqa: SLF001  # every thread's
