"""How the backend of each mode is made, and the resources that an engine keeps for all backends.

`launcher.spec.modes` lists what each backend can do. The module of the Spark backend is imported when the
first run needs it: a run on this machine needs no Spark.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..spec.modes import Mode
from .base import Backend
from .local import LocalBackend, RunQueue
from .zygotes import Zygotes

if TYPE_CHECKING:
    from .spark.session_pool import WarmSessions


class SharedResources:
    """What outlives a run: the queue of runs on this machine, and the Spark session that runs share.

    Args:
        max_local_runs: how many runs may go on at once on this machine.
        session_log: the log file of the session's JVM.
        session_idle_s: seconds without a run after which the session ends.
    """

    def __init__(self, *, max_local_runs: int, session_log: Path, session_idle_s: float) -> None:
        self.run_queue = RunQueue(max_local_runs)
        self.zygotes = Zygotes(idle_s=session_idle_s)
        self._session_log = session_log
        self._session_idle_s = session_idle_s
        self._sessions: WarmSessions | None = None

    @property
    def sessions(self) -> WarmSessions:
        """The pool of Spark sessions, made on first use. Not thread-safe."""
        if self._sessions is None:
            from .spark.session_pool import WarmSessions

            self._sessions = WarmSessions(self._session_log, idle_s=self._session_idle_s)
        return self._sessions

    def close_idle(self) -> None:
        """Close a session that has been idle for too long."""
        self.zygotes.close_idle()
        if self._sessions is not None:
            self._sessions.tend()

    @property
    def barren(self) -> bool:
        """Whether runs need a Spark session, and the last could not be made: there is nothing to keep."""
        return self._sessions is not None and self._sessions.barren

    def close(self) -> None:
        """Close the session, and end the zygotes."""
        self.zygotes.close()
        if self._sessions is not None:
            self._sessions.close()

    def describe(self) -> dict[str, Any]:
        """How many local runs go on, and the session's description, None if there is none."""
        session = self._sessions.describe() if self._sessions is not None else None
        queue = self.run_queue
        return {
            "slots": {"local_runs": queue.held, "of": queue.limit},
            "session": session,
            "zygotes": self.zygotes.describe(),
        }


OWN = Zygotes()
"""Those of a program that starts runs itself. They end with it, as nobody else has their sockets."""


def _local(mode: Mode, shared: SharedResources | None) -> Backend:
    del mode
    return LocalBackend(shared.run_queue, shared.zygotes) if shared else LocalBackend(None, OWN)


def _spark(mode: Mode, shared: SharedResources | None) -> Backend:
    from .spark.backend import SparkBackend

    return SparkBackend(shared.sessions if shared else None, server=mode.traits.through_server)


Factory = Callable[[Mode, SharedResources | None], Backend]
FACTORIES: Mapping[Mode, Factory] = {Mode.LOCAL: _local, Mode.CLUSTER: _spark, Mode.CONNECT: _spark}


def make_backend(mode: Mode, shared: SharedResources | None = None) -> Backend:
    """A new backend for a run in this mode, with the resources that an engine shares among runs, if any."""
    return FACTORIES[mode](mode, shared)
