"""Sources of a run's Spark session: one for the run alone, or one that an engine keeps for many runs."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from ...errors import LauncherError
from ...runs.files import opener
from ...spec.job import SparkSpec
from . import records
from .config import embedded_slots
from .session import Session, open_session
from .sizing import CoreDemand, Reservations
from .waiters import Waiters

WATCH_S = 1.0
"""How often an idle session's engine looks whether somebody waits for what the session holds."""

_SLICE = 8 << 20
_LOG_LIMIT = 64 << 20

_events = logging.getLogger("rankdeck.engine")


class Sessions(Protocol):
    """Gives a session to a run and takes it back. `shared`: whether other runs may use it too."""

    shared: bool

    def reserve(self, run: object, demand: CoreDemand | None) -> bool:
        """Reserve room for a run before it starts; False if it does not fit beside the runs that go on.

        With None it takes whatever there is.
        """
        ...

    def release(self, run: object) -> None:
        """The run is over, and its room is free."""
        ...

    def open(
        self,
        spec: SparkSpec,
        *,
        session: object | None,
        environ: Mapping[str, str],
        log: Path,
        app_name: str,
        slots: int,
        server: bool,
        given: bool,
        limit_s: float,
        demand: CoreDemand | None,
    ) -> Session:
        """As `open_session`, with the cores that the run needs; None for any number."""
        ...

    def let_go(self, session: Session, log: Path) -> None:
        """Take back a session that a run no longer needs; `log` is the run's file for Spark's output."""
        ...

    def end(self, session: Session, log: Path) -> bool:
        """End a session that no other run uses, as `let_go` takes it back; False if another run does."""
        ...


class OwnSession:
    """A session for one run: the caller's, or one that ends with the run."""

    shared = False

    def reserve(self, run: object, demand: CoreDemand | None) -> bool:
        """Nobody else needs room."""
        del run, demand
        return True

    def release(self, run: object) -> None:
        """Nothing was reserved."""

    def open(self, spec: SparkSpec, *, app_name: str, demand: CoreDemand | None, **more: Any) -> Session:
        """Find or make the session."""
        if demand is None:
            return open_session(spec, app_name=app_name, **more)
        return open_session(spec, app_name=demand.name(app_name), cores=demand.limit, **more)

    def let_go(self, session: Session, log: Path) -> None:
        """End the session if it was made here."""
        del log
        session.close()

    def end(self, session: Session, log: Path) -> bool:
        """End the session."""
        self.let_go(session, log)
        return True


@dataclass(slots=True, eq=False)
class _PooledSession:
    """A session, the runs that use it, by their log, and the time since which none does.

    `demand` is what it was made for; None for any number of cores.
    """

    session: Session
    demand: CoreDemand | None
    runs: dict[Path, str] = field(default_factory=dict)
    idle_since: float = 0.0
    used: threading.Event = field(default_factory=threading.Event)
    """Set when the idle session is used again or closed."""

    def fits(self, demand: CoreDemand | None) -> bool:
        """Whether its application may take so many cores, and is seen to wait while a run lacks some."""
        if self.demand is None or demand is None:
            return self.demand is None
        enough = self.demand.least or self.demand.limit
        return demand.limit <= self.demand.limit and (demand.least or demand.limit) <= enough


class WarmSessions:
    """One session, kept for a while after its last run, if nobody waits for it. Any thread may use it.

    Args:
        log: the file that the session's JVM writes to; each run gets a copy of what was written during it.
        idle_s: seconds without a run after which the session ends and its executors are free.
        clock: the time.
        make: makes a session.
        who_waits: one that waits for what an idle session holds, by name; empty if nobody does.

    Attributes:
        barren: whether there is no session, since the last one could not be made.
    """

    shared = True

    def __init__(
        self,
        log: Path,
        *,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
        make: Callable[..., Session] = open_session,
        who_waits: Callable[[Session], str] | None = None,
    ) -> None:
        self._log, self._idle_s, self._clock, self._make = log, idle_s, clock, make
        self._who_waits = who_waits or Waiters()
        self._lock = threading.Lock()
        self._pooled: _PooledSession | None = None
        self._begins: dict[Path, int] = {}
        self._reservations = Reservations()
        self.barren = False

    def reserve(self, run: object, demand: CoreDemand | None) -> bool:
        """Reserve room for a run in the session, or in the next one; False if runs leave too little."""
        return self._reservations.take(run, demand)

    def release(self, run: object) -> None:
        """The run is over, and its room is free."""
        self._reservations.give_back(run)

    def open(
        self,
        spec: SparkSpec,
        *,
        log: Path,
        app_name: str,
        slots: int,
        demand: CoreDemand | None,
        **more: Any,
    ) -> Session:
        """The session, made if there is none, or if it has broken or does not fit the demand.

        Raises:
            LauncherError: as `open_session`.
        """
        del app_name  # the application is not of one run
        with self._lock:
            self._begins[log] = _size(self._log)
            demand = self._reservations.widened(demand)
            pooled = self._usable(demand)
            if pooled is None:
                pooled = self._pooled = self._make_session(spec, log, slots, demand, more)
            pooled.used.set()
            pooled.runs[log] = log.parent.name
            self._record(pooled)
            return pooled.session

    def let_go(self, session: Session, log: Path) -> None:
        """Take back the session; copy what Spark wrote during the run to the run's own file."""
        self._copy(log)
        with self._lock:
            pooled = self._pooled
            if pooled is None or pooled.session is not session:
                return session.close()  # it had broken, and was replaced
            pooled.runs.pop(log, None)
            pooled.idle_since = self._clock()
            self._record(pooled)
            if not pooled.runs:
                self._watch(pooled)
        return None

    def end(self, session: Session, log: Path) -> bool:
        """End a session that no other run uses, as `let_go` takes it back; False if another run does."""
        with self._lock:
            pooled = self._pooled
            if pooled is None or pooled.session is not session or pooled.runs.keys() != {log}:
                return False
            self._copy(log)
            self._end()
        return True

    def tend(self) -> None:
        """End the session if no run has used it for long; else empty its log if that is large."""
        with self._lock:
            pooled = self._pooled
            if pooled is None or pooled.runs:
                return
            if self._clock() - pooled.idle_since >= self._idle_s:
                self._end()
            elif _size(self._log) > _LOG_LIMIT:
                os.truncate(self._log, 0)

    def yield_to_waiting(self) -> bool:
        """End the session if it is idle and somebody waits for what it holds; whether it is idle still."""
        pooled = self._pooled
        if pooled is None or pooled.runs:
            return False
        who = self._who_waits(pooled.session)
        with self._lock:
            if self._pooled is not pooled or pooled.runs:
                return False
            if who:
                _events.info("the idle session %s makes room for %s", pooled.session.application, who)
                self._end()
        return not who

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._end()

    def describe(self) -> dict[str, Any] | None:
        """The session's properties for people; None if there is none."""
        pooled = self._pooled
        if pooled is None:
            return None
        session = pooled.session
        idle = 0.0 if pooled.runs else self._clock() - pooled.idle_since
        return {
            "master": session.master,
            "application": session.application,
            "version": session.version,
            "ui": session.ui,
            "pages": list(session.pages or ()),
            "cores": session.limit,
            "runs": len(pooled.runs),
            "idle_s": idle,
        }

    def _watch(self, pooled: _PooledSession) -> None:
        """Look for somebody who waits, at once and then now and then, until the session is used or ended."""
        pooled.used = used = threading.Event()

        def watch() -> None:
            while not used.is_set() and self.yield_to_waiting():
                used.wait(WATCH_S)

        threading.Thread(target=watch, name="rankdeck-idle", daemon=True).start()

    def _end(self) -> None:
        """End the session if there is one. The caller holds the lock."""
        pooled, self._pooled = self._pooled, None
        records.remove_session()
        self._reservations.on_application_ended()
        if pooled is not None:
            pooled.used.set()
            pooled.session.close()

    def _record(self, pooled: _PooledSession) -> None:
        """Record the session for the user's other processes."""
        records.write_session(pooled.session.application, tuple(pooled.runs.values()))

    def _usable(self, demand: CoreDemand | None) -> _PooledSession | None:
        """The session; not if it has broken, or if no run uses it and it does not fit. Then it is dropped."""
        pooled = self._pooled
        if pooled is None or (pooled.session.usable and (pooled.runs or pooled.fits(demand))):
            return pooled
        if pooled.runs:
            self._pooled = None  # its last run closes it
        else:
            self._end()
        return None

    def _make_session(
        self, spec: SparkSpec, log: Path, slots: int, demand: CoreDemand | None, more: dict[str, Any]
    ) -> _PooledSession:
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        name = demand.name("rankdeck") if demand else "rankdeck"
        more |= {"session": None, "cores": demand.limit if demand else None}
        self.barren = True
        try:
            made = self._make(spec, log=self._log, app_name=name, slots=embedded_slots(slots), **more)
        except LauncherError as error:
            self._copy(log)
            if error.hint:
                error.hint = error.hint.replace(str(self._log), str(log))
            raise
        self.barren = False
        return _PooledSession(made, demand)

    def _copy(self, log: Path) -> None:
        """Copy what the JVM has written since the run began to the run's own file."""
        begin = self._begins.pop(log, 0)
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            file.seek(max(begin, _size(self._log) - _SLICE))
            output = file.read(_SLICE)
            if output:
                with open(log, "ab", opener=opener) as copy:
                    copy.write(output)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
