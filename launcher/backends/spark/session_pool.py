"""Where a run's Spark session comes from: one for the run alone, or one that an engine keeps for many."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ...errors import LauncherError
from ...runs.files import opener
from ...spec.job import SparkSpec
from .config import embedded_slots
from .session import Session, open_session

_SLICE = 8 << 20
_LOG_LIMIT = 64 << 20


class Sessions(Protocol):
    """Gives a session to a run and takes it back. `shared` says whether others may use it too."""

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
        limit_s: float,
    ) -> Session:
        """As `launcher.backends.spark.session.open_session`."""
        ...

    def let_go(self, session: Session, log: Path) -> None:
        """The run is done with it; `log` is the run's file for what Spark says."""
        ...


class OwnSession:
    """A session for one run: the caller's, or one that ends with the run."""

    shared = False

    def open(self, spec: SparkSpec, **around: Any) -> Session:
        """Find or make it."""
        return open_session(spec, **around)

    def let_go(self, session: Session, log: Path) -> None:
        """End it if it is ours."""
        del log
        session.close()


@dataclass(slots=True)
class _Kept:
    """A session, how many runs use it, and since when none does."""

    session: Session
    users: int = 0
    idle_since: float = 0.0


class WarmSessions:
    """One session, kept for a while after its last run. For any thread.

    Args:
        log: where the session's JVM writes to; each run gets a copy of what was said in its time.
        idle_s: seconds without a run after which the session ends and its executors are free.
        clock: the time.
        make: how a session is made.
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
        self._kept: _Kept | None = None
        self._begins: dict[Path, int] = {}

    def open(self, spec: SparkSpec, *, log: Path, app_name: str, slots: int, **around: Any) -> Session:
        """The session, made if there is none or if it has broken.

        Raises:
            LauncherError: as `open_session`.
        """
        del app_name  # it is not one run's application
        with self._lock:
            self._begins[log] = _size(self._log)
            kept = self._usable()
            if kept is None:
                kept = self._kept = _Kept(self._made(spec, log, slots, around))
            kept.users += 1
            return kept.session

    def let_go(self, session: Session, log: Path) -> None:
        """One run fewer; what Spark said during it goes to its own file."""
        self._copy(log)
        with self._lock:
            if self._kept is None or self._kept.session is not session:
                return session.close()  # it had broken, and another one took its place
            self._kept.users -= 1
            self._kept.idle_since = self._clock()
        return None

    def tend(self) -> None:
        """End the session if nobody has used it for long."""
        with self._lock:
            kept = self._kept
            if kept is None or kept.users:
                return
            if self._clock() - kept.idle_since >= self._idle_s:
                self._kept = None
                kept.session.close()
            elif _size(self._log) > _LOG_LIMIT:
                os.truncate(self._log, 0)

    def close(self) -> None:
        """End the session."""
        with self._lock:
            kept, self._kept = self._kept, None
        if kept is not None:
            kept.session.close()

    def describe(self) -> dict[str, Any] | None:
        """The session in words; None if there is none."""
        kept = self._kept
        if kept is None:
            return None
        held = kept.session
        idle = 0.0 if kept.users else self._clock() - kept.idle_since
        return {
            "master": held.master,
            "application": held.application,
            "version": held.version,
            "ui": held.ui,
            "pages": list(held.pages or ()),
            "runs": kept.users,
            "idle_s": idle,
        }

    def _usable(self) -> _Kept | None:
        """What is kept, unless it has broken; then it is dropped."""
        kept = self._kept
        if kept is None or kept.session.usable:
            return kept
        self._kept = None
        if not kept.users:
            kept.session.close()
        return None

    def _made(self, spec: SparkSpec, log: Path, slots: int, around: dict[str, Any]) -> Session:
        self._log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        around["session"] = None
        try:
            return self._make(spec, log=self._log, app_name="rankdeck", slots=embedded_slots(slots), **around)
        except LauncherError as error:
            self._copy(log)
            if error.hint:
                error.hint = error.hint.replace(str(self._log), str(log))
            raise

    def _copy(self, log: Path) -> None:
        """What the JVM has said since the run began, to the run's own file."""
        begin = self._begins.pop(log, 0)
        with contextlib.suppress(OSError), open(self._log, "rb") as file:
            file.seek(max(begin, _size(self._log) - _SLICE))
            said = file.read(_SLICE)
            if said:
                with open(log, "ab", opener=opener) as own:
                    own.write(said)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
