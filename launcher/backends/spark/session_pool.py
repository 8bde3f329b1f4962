"""Sources of a run's Spark session: one for the run alone, or one that an engine keeps for many runs."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ... import runtime_dir
from ...errors import LauncherError
from ...runs.files import opener, write_whole
from ...runs.status import process_start
from ...spec.job import SparkSpec
from .config import embedded_slots
from .session import Session, open_session

_SLICE = 8 << 20
_LOG_LIMIT = 64 << 20
_RECORD = 1 << 12


class Sessions(Protocol):
    """Gives a session to a run and takes it back. `shared`: whether other runs may use it too."""

    shared: bool

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
    ) -> Session:
        """As `launcher.backends.spark.session.open_session`."""
        ...

    def let_go(self, session: Session, log: Path) -> None:
        """Take back a session that a run no longer needs; `log` is the run's file for Spark's output."""
        ...


class OwnSession:
    """A session for one run: the caller's, or one that ends with the run."""

    shared = False

    def open(self, spec: SparkSpec, **more: Any) -> Session:
        """Find or make the session."""
        return open_session(spec, **more)

    def let_go(self, session: Session, log: Path) -> None:
        """End the session if it was made here."""
        del log
        session.close()


@dataclass(slots=True)
class _PooledSession:
    """A session, the number of runs that use it, and the time since which none does."""

    session: Session
    users: int = 0
    idle_since: float = 0.0


class WarmSessions:
    """One session, kept for a while after its last run. Any thread may use it.

    Args:
        log: the file that the session's JVM writes to; each run gets a copy of what was written during it.
        idle_s: seconds without a run after which the session ends and its executors are free.
        clock: the time.
        make: makes a session.
    """

    shared = True

    def __init__(
        self,
        log: Path,
        *,
        idle_s: float,
        clock: Callable[[], float] = time.monotonic,
        make: Callable[..., Session] = open_session,
    ) -> None:
        self._log, self._idle_s, self._clock, self._make = log, idle_s, clock, make
        self._lock = threading.Lock()
        self._pooled: _PooledSession | None = None
        self._begins: dict[Path, int] = {}

    def open(self, spec: SparkSpec, *, log: Path, app_name: str, slots: int, **more: Any) -> Session:
        """The session, made if there is none or if it has broken.

        Raises:
            LauncherError: as `open_session`.
        """
        del app_name  # the application is not of one run
        with self._lock:
            self._begins[log] = _size(self._log)
            pooled = self._usable()
            if pooled is None:
                pooled = self._pooled = _PooledSession(self._make_session(spec, log, slots, more))
            pooled.users += 1
            _withdraw_offer()
            return pooled.session

    def let_go(self, session: Session, log: Path) -> None:
        """Take back the session; copy what Spark wrote during the run to the run's own file."""
        self._copy(log)
        with self._lock:
            if self._pooled is None or self._pooled.session is not session:
                return session.close()  # it had broken, and was replaced
            self._pooled.users -= 1
            self._pooled.idle_since = self._clock()
            if not self._pooled.users:
                _offer(session.application)
        return None

    def tend(self) -> None:
        """End the session if no run has used it for long; else empty its log if that is large."""
        with self._lock:
            pooled = self._pooled
            if pooled is None or pooled.users:
                return
            if self._clock() - pooled.idle_since >= self._idle_s:
                self._pooled = None
                _withdraw_offer()
                pooled.session.close()
            elif _size(self._log) > _LOG_LIMIT:
                os.truncate(self._log, 0)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            pooled, self._pooled = self._pooled, None
        _withdraw_offer()
        if pooled is not None:
            pooled.session.close()

    def describe(self) -> dict[str, Any] | None:
        """The session's properties for people; None if there is none."""
        pooled = self._pooled
        if pooled is None:
            return None
        session = pooled.session
        idle = 0.0 if pooled.users else self._clock() - pooled.idle_since
        return {
            "master": session.master,
            "application": session.application,
            "version": session.version,
            "ui": session.ui,
            "pages": list(session.pages or ()),
            "runs": pooled.users,
            "idle_s": idle,
        }

    def _usable(self) -> _PooledSession | None:
        """The session, unless it has broken; then it is dropped."""
        pooled = self._pooled
        if pooled is None or pooled.session.usable:
            return pooled
        self._pooled = None
        if not pooled.users:
            _withdraw_offer()
            pooled.session.close()
        return None

    def _make_session(self, spec: SparkSpec, log: Path, slots: int, more: dict[str, Any]) -> Session:
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        more["session"] = None
        try:
            return self._make(spec, log=self._log, app_name="rankdeck", slots=embedded_slots(slots), **more)
        except LauncherError as error:
            self._copy(log)
            if error.hint:
                error.hint = error.hint.replace(str(self._log), str(log))
            raise

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


_IDLE = "idle-*.json"


def _offer(application: str) -> None:
    """Record that no run uses this process's session, for runs elsewhere that wait for what it holds.

    The record is a help only, so it may fail.
    """
    identity = {"application": application, "start": process_start(os.getpid())}
    with contextlib.suppress(OSError, LauncherError):
        write_whole(_offer_of(os.getpid()), json.dumps(identity).encode())


def _withdraw_offer() -> None:
    with contextlib.suppress(OSError, LauncherError):
        _offer_of(os.getpid()).unlink(missing_ok=True)


def _offer_of(pid: int) -> Path:
    return runtime_dir.runtime_folder() / _IDLE.replace("*", str(pid))


def idle_applications() -> dict[str, int]:
    """The applications of this user's sessions that no run uses, each with the pid of its engine.

    Records of processes that are gone are removed.
    """
    found: dict[str, int] = {}
    for path in runtime_dir.runtime_place().glob(_IDLE):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            pid, identity = int(path.stem.rpartition("-")[2]), json.loads(path.read_bytes()[:_RECORD])
            if identity["start"] is not None and identity["start"] == process_start(pid):
                found[str(identity["application"])] = pid
            else:
                path.unlink(missing_ok=True)
    return found
