"""`status.json`: a run's summary in one small file, so that listing runs does not read their facts."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ..errors import AgentLost
from ..serialization import ExitCode, Index, Moment, from_plain, to_plain
from ..spec.job import JobSpec
from ..state.run_state import Phase, RunState
from . import files, paths
from .files import write_whole

ARGS = 500
NO_VERDICT = "the process that owned the run is gone and left no verdict"


@dataclass(frozen=True, slots=True)
class Owner:
    """The process that owns a run. The start time distinguishes it from a later process with the same pid."""

    host: str
    pid: int
    start: int

    @classmethod
    def this(cls) -> Owner:
        """The calling process."""
        return cls(socket.gethostname(), os.getpid(), process_start(os.getpid()) or 0)

    @property
    def alive(self) -> bool | None:
        """Whether it still runs; None if that cannot be known from this host."""
        if self.host != socket.gethostname():
            return None
        return process_start(self.pid) == self.start


def process_start(pid: int) -> int | None:
    """A process's start in clock ticks since boot, or None if there is none (a zombie counts as none)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True, slots=True)
class Status:
    """What `ps` shows of a run.

    `warns` is true if `why` warns although the run has succeeded. `host` is where it was submitted; `step`
    and `metrics` are the last ones that its leading rank reported.
    `unreadable` names the fields that could not be read, and were taken from the facts, if possible; it is
    never written.
    """

    id: str
    name: str = ""
    target: str = ""
    state: Phase = Phase.SUBMITTED
    exit_code: ExitCode | None = None
    mode: str = ""
    num_processes: Index = 0
    started: Moment | None = None
    ended: Moment | None = None
    why: str = ""
    warns: bool = False
    owner: Owner = field(default_factory=lambda: Owner("", 0, 0))
    args: str = ""
    user: str = ""
    host: str = ""
    attempt: Index = 0
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    revision: str = ""
    dirty: bool | None = None
    unreadable: str | None = None

    @classmethod
    def of(cls, state: RunState, owner: Owner) -> Status:
        """The summary of a folded state."""
        return cls(
            id=state.id,
            name=state.name,
            target=state.target,
            state=state.phase,
            exit_code=state.exit_code,
            mode=state.mode,
            num_processes=state.num_processes,
            started=state.started,
            ended=state.ended,
            why=state.why,
            warns=state.separate is not None,
            owner=owner,
            attempt=state.attempt,
            **_submission(state),
            **_progress(state),
        )

    @classmethod
    def first(cls, run: str, spec: JobSpec) -> Status:
        """The summary of a new run of this process, from its request alone."""
        spec = spec.redacted()
        return cls(
            id=run,
            name=spec.label,
            target=spec.target.label,
            mode=spec.mode.value,
            num_processes=spec.num_processes,
            owner=Owner.this(),
        )

    def judged(self) -> Status:
        """The same, but lost if its owner ended before the run had a verdict."""
        if self.state.final or self.owner.alive is not False:
            return self
        why = self.why or NO_VERDICT
        return replace(self, state=Phase.LOST, exit_code=AgentLost.exit_code, why=why)


def _submission(state: RunState) -> dict[str, Any]:
    """Who submitted the run, and which code it runs."""
    by, origin = state.submitted, state.origin
    who = {"args": _cut(by.args), "user": by.user, "host": by.host} if by else {}
    return {**who, "revision": origin.revision, "dirty": origin.dirty} if origin else who


def _cut(args: str) -> str:
    return args if len(args) <= ARGS else args[: ARGS - 1] + "…"


def _progress(state: RunState) -> dict[str, Any]:
    """The step and the metrics; the total number of steps is reported as a metric, but is none."""
    leader = state.leader
    if leader is None:
        return {}
    return {
        "step": leader.step,
        "metrics": {k: v for k, v in leader.metrics.items() if k != "total_steps"},
    }


def write_status(run: Path, status: Status) -> None:
    """Replace `status.json` as a whole: a reader sees the old one or the new one."""
    write_whole(run / paths.STATUS, json.dumps(to_plain(status)).encode())


def read_status(run: Path) -> Status | None:
    """The run's status, judged; None if the folder has no readable one."""
    status = stored_status(run)
    return status.judged() if status else None


def stored_status(run: Path) -> Status | None:
    """The run's status as its owner wrote it; None if the folder has no readable one."""
    try:
        status = from_plain(Status, json.loads(files.read_whole(run, run / paths.STATUS)))
    except (OSError, ValueError, RecursionError):
        return None
    return replace(status, unreadable=None) if status.unreadable else status
