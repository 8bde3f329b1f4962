"""The backends: how that of each mode is made, and what an engine keeps for all of them.

What a backend is and can do stands in `launcher.spec.modes`. A backend's own module is imported when the
first run needs it: a run on this machine needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..spec.modes import Mode
from .base import Backend
from .local import LocalBackend, RunQueue

if TYPE_CHECKING:
    from .spark.session_pool import WarmSessions


class SharedResources:
    """What outlives a run: the turns of runs on this machine, and the Spark session that runs share.

    Args:
        max_local_runs: how many runs may go on at once on this machine.
        session_log: where the session's JVM writes to.
        session_idle_s: seconds without a run after which the session ends.
    """

    def __init__(self, *, max_local_runs: int, session_log: Path, session_idle_s: float) -> None:
        self.turns = RunQueue(max_local_runs)
        self._session_log = session_log
        self._session_idle_s = session_idle_s
        self._sessions: WarmSessions | None = None

    @property
    def sessions(self) -> WarmSessions:
        """Where Spark runs get their session from; made with the first that asks. One caller at a time."""
        if self._sessions is None:
            from .spark.session_pool import WarmSessions

            self._sessions = WarmSessions(self._session_log, idle_s=self._session_idle_s)
        return self._sessions

    def tend(self) -> None:
        """Let go of what has been idle for too long."""
        if self._sessions is not None:
            self._sessions.tend()

    def close(self) -> None:
        """Let go of everything."""
        if self._sessions is not None:
            self._sessions.close()

    def describe(self) -> dict[str, Any]:
        """The turns that are taken, and the session in words; None where there is none."""
        session = self._sessions.describe() if self._sessions is not None else None
        return {"slots": {"local_runs": self.turns.held, "of": self.turns.limit}, "session": session}


def _local(mode: Mode, shared: SharedResources | None) -> Backend:
    del mode
    return LocalBackend(shared.turns if shared else None)


def _spark(mode: Mode, shared: SharedResources | None) -> Backend:
    from .spark.backend import SparkBackend

    return SparkBackend(shared.sessions if shared else None, server=mode.traits.through_server)


Factory = Callable[[Mode, SharedResources | None], Backend]
FACTORIES: Mapping[Mode, Factory] = {Mode.LOCAL: _local, Mode.CLUSTER: _spark, Mode.CONNECT: _spark}


def make_backend(mode: Mode, shared: SharedResources | None = None) -> Backend:
    """The way to start a run's agents in this mode, with what an engine shares among its runs, if any."""
    return FACTORIES[mode](mode, shared)
