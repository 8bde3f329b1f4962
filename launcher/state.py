"""What is known of a run: frozen values that `launcher.fold` moves on by facts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from launcher import events as ev
from launcher.spec import Device


class Phase(StrEnum):
    """Where a run is. The last four are final."""

    SUBMITTED = "submitted"
    WAITING = "waiting"
    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def final(self) -> bool:
        """Whether nothing more can happen."""
        return self in (Phase.SUCCEEDED, Phase.FAILED, Phase.STOPPED, Phase.LOST)


class RankPhase(StrEnum):
    """Where one rank is."""

    PLACED = "placed"
    STARTING = "starting"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    STOPPED = "stopped"
    LOST = "lost"

    @property
    def ended(self) -> bool:
        """Whether its process is gone."""
        return self not in (RankPhase.PLACED, RankPhase.STARTING, RankPhase.RUNNING)


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank as known so far. `failing` says that it raised by itself, not because the gang was stopped."""

    rank: int
    phase: RankPhase = RankPhase.PLACED
    host: str = ""
    agent: int = 0
    local_rank: int = 0
    devices: tuple[Device, ...] = ()
    pid: int | None = None
    started: float | None = None
    entered: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    oom_kills: int | None = None
    raised: ev.RankRaised | None = None
    failing: bool = False
    returned: ev.RankReturned | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    reported_at: float | None = None
    sample: ev.RankSample | None = None
    sampled_at: float | None = None

    @property
    def failed_at(self) -> float | None:
        """When it went wrong: the exception if there was one, else the end of a failed process.

        An interpreter can take seconds to die after its exception, while the ranks that wait for it
        fail at once; by their exits alone the victim would look like the cause.
        """
        if self.phase is not RankPhase.FAILED:
            return None
        return self.raised.time if self.raised else self.ended


@dataclass(frozen=True, slots=True)
class Host:
    """One agent's host: its clock, its last system sample and its devices by UUID."""

    agent: int
    host: str
    pid: int = 0
    clock_offset: float = 0.0
    present: bool = True
    system: ev.HostSample | None = None
    devices: Mapping[str, ev.DeviceSample] = field(default_factory=dict)
    sampled_at: float | None = None
    cleanup: ev.CleanupProven | None = None


@dataclass(frozen=True, slots=True)
class RunState:
    """A run, folded from its facts."""

    id: str = ""
    name: str = ""
    target: str = ""
    mode: str = ""
    num_processes: int = 0
    attempt: int = 0
    phase: Phase = Phase.SUBMITTED
    since: tuple[tuple[Phase, float], ...] = ()
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    why: str = ""
    waiting: ev.SlotsAwaited | None = None
    ranks: tuple[Rank, ...] = ()
    hosts: Mapping[int, Host] = field(default_factory=dict)
    stop: ev.StopRequested | None = None
    notes: tuple[ev.NoteMade, ...] = ()
    blamed: int | None = None

    @property
    def first_failure(self) -> Rank | None:
        """The rank that failed first in the whole gang, by the engine's clock."""
        failed = [r for r in self.ranks if r.failed_at is not None]
        return min(failed, key=lambda r: (r.failed_at or 0.0, r.rank), default=None)

    @property
    def all_ended(self) -> bool:
        """Whether every rank's process is gone."""
        return bool(self.ranks) and all(r.phase.ended for r in self.ranks)
