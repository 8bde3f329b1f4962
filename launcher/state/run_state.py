"""What is known of a run: frozen values that `launcher.state.fold` updates with each fact."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from ..spec.places import Device
from . import events as ev
from .peer_loss import doubt


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
    """One rank as known so far.

    Attributes:
        role: what it does in the gang, if its framework has roles.
        failing: whether it raised by itself, not because the gang was stopped.
        raising: an exception that was raised in it before the gang was stopped, and may yet be caught.
        unreturned: whether it ended with 0 in the middle of the function that it ran.
        left: whether its function ended by `sys.exit`, without a value.
        ended_before_stop: whether its exit was received before the gang was stopped or lost a part.
        awaits_rows: how many rows of the run's DataFrame it has had, while it waits for more; else None.
        message: the last one that its code has sent to whoever started the run.
    """

    rank: int
    phase: RankPhase = RankPhase.PLACED
    role: str = ""
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
    raising: ev.RankRaising | None = None
    failing: bool = False
    unreturned: bool = False
    left: bool = False
    ended_before_stop: bool = False
    returned: ev.RankReturned | None = None
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    reported_at: float | None = None
    awaits_rows: int | None = None
    message: str = ""
    world_size: int = 1
    frameworks: tuple[str, ...] = ()
    sample: ev.RankSample | None = None
    sampled_at: float | None = None

    @property
    def alive(self) -> bool:
        """Whether it has a process."""
        return self.phase in (RankPhase.STARTING, RankPhase.RUNNING)

    @property
    def rows(self) -> int:
        """How many rows a worker of a prediction has predicted, as far as it has said."""
        return int(self.metrics.get(ev.ROWS, 0))

    @property
    def rows_per_s(self) -> float | None:
        """How many rows a second it predicted when it last said so; None if it has not."""
        return self.metrics.get(ev.ROWS_PER_S)

    @property
    def failed_at(self) -> float | None:
        """When it failed: the time of the exception if there was one, else of the process's end.

        An interpreter can take seconds to exit after its exception, while the ranks that wait for it
        fail at once; by the times of exits alone, a victim would look like the cause.
        """
        if not (self.phase is RankPhase.FAILED or (self.failing and not self.phase.ended)):
            return None
        times = [e.time for e in (self.raising, self.raised) if e is not None]
        return min(times, default=self.ended)

    @property
    def doubt(self) -> int:
        """How likely its failure only follows from another rank's: see `launcher.state.peer_loss.doubt`."""
        return doubt(self.raised.message, self.raised.traceback) if self.raised else 0


@dataclass(frozen=True, slots=True)
class Host:
    """One agent's host: its clock, its last system sample and its devices by UUID.

    `attempt` is the last one that the agent belonged to; `address` is the agent's end of its connection to
    the engine.
    """

    agent: int
    host: str
    attempt: int = 0
    pid: int = 0
    clock_offset: float = 0.0
    present: bool = True
    system: ev.HostSample | None = None
    devices: Mapping[str, ev.DeviceSample] = field(default_factory=dict)
    sampled_at: float | None = None
    cleanup: ev.CleanupProven | None = None
    address: str = ""


@dataclass(frozen=True, slots=True)
class Service:
    """A framework's own process beside a rank.

    Attributes:
        is_rank: whether the rank is this service and nothing else.
        ready: since when it can be used; None if it never could.
        url: its page for browsers; empty if it has none.
        lost: why it ended while the ranks needed it; empty if it did not.
    """

    rank: int
    name: str
    host: str
    agent: int
    pid: int = 0
    is_rank: bool = False
    ready: float | None = None
    url: str = ""
    lost: str = ""


Loss = ev.ExecutorLost | ev.ServerLost | ev.ServiceLost | ev.TaskLost


@dataclass(frozen=True, slots=True)
class RunState:
    """A run, folded from its facts. What belongs to an attempt is that of the latest attempt.

    Attributes:
        submitted: who submitted the run, and with which arguments.
        origin: which code it runs, with which packages; None while that is not known.
        requested: the world size that was requested; `num_processes` is the one that was placed.
        attempt: 0 at first, one more with every restart.
        since: every phase that was entered and when, over all attempts; those of this attempt begin at
            `attempt_index`.
        services: the framework's own processes beside the ranks, by rank.
        stop: why this attempt was stopped.
        final_stop: a request that ends the run and not only this attempt: no restart follows it.
        files: the files that its hosts wait for; None once ranks have started.
        disrupted_at: when the gang was stopped or lost a part: later failures follow from that.
        losses: what was lost in this attempt, in the order in which the losses were reported.
        lost_tasks: the agents that ran in the lost tasks, as far as that is known.
        framework: by whose rules the ranks got their places; None if that is not recorded.
        separate: set if all ranks ended well, and each had trained by itself.
        trackers: the records of it in experiment trackers, over all attempts; only the first ones.
        artifacts: the last news of files that came home, by host.
        coming: the files that hosts still send home after their ranks' end.
        near: the last warning that a limit is near, unless the danger has passed.
        stacks: the latest stacks of the ranks of this attempt, by rank.
        recording: why the folder cannot be written; None while it can.
        lost: what could not be written to the folder, in all.
        prediction: how far a prediction is, whose ranks are workers; None for a training.
        unreadable: what could not be read in the folder, by file.
        newer: how many facts were written by a newer version, and skipped.
    """

    id: str = ""
    name: str = ""
    target: str = ""
    mode: str = ""
    num_processes: int = 0
    submitted: ev.RunSubmitted | None = None
    origin: ev.OriginFound | None = None
    requested: int = 0
    attempt: int = 0
    restarts: tuple[ev.GangRestarted, ...] = ()
    phase: Phase = Phase.SUBMITTED
    since: tuple[tuple[Phase, float], ...] = ()
    attempt_index: int = 0
    started: float | None = None
    ended: float | None = None
    exit_code: int | None = None
    why: str = ""
    waiting: ev.SlotsAwaited | None = None
    ranks: tuple[Rank, ...] = ()
    hosts: Mapping[int, Host] = field(default_factory=dict)
    services: tuple[Service, ...] = ()
    stop: ev.StopRequested | None = None
    final_stop: ev.StopRequested | None = None
    disrupted_at: float | None = None
    losses: tuple[Loss, ...] = ()
    lost_tasks: frozenset[int] = frozenset()
    cancelled: ev.JobCancelled | None = None
    spark: ev.SparkReady | None = None
    delivery: ev.DeliveryChosen | None = None
    files: ev.FilesAwaited | None = None
    notes: tuple[ev.NoteMade, ...] = ()
    trackers: tuple[ev.TrackerLinked, ...] = ()
    artifacts: Mapping[str, ev.ArtifactsKept] = field(default_factory=dict)
    coming: tuple[ev.ArtifactsAwaited, ...] = ()
    near: ev.LimitNear | None = None
    stacks: tuple[ev.StacksTaken, ...] = ()
    recording: ev.RecordingStopped | None = None
    lost: ev.RecordsLost | None = None
    framework: ev.FrameworkChosen | None = None
    separate: ev.SeparateTrainings | None = None
    blamed: int | None = None
    prediction: ev.PredictionAdvanced | None = None
    unreadable: tuple[ev.PartUnreadable, ...] = ()
    newer: int = 0

    @property
    def came_home(self) -> ev.ArtifactsKept | None:
        """The last news of files that came home, which counts all of them; None if none came."""
        return max(self.artifacts.values(), key=lambda e: e.time, default=None)

    @property
    def first_failure(self) -> Rank | None:
        """The rank that caused the other failures.

        That is the first one by the engine's clock, except that an exception about the transport comes after
        all others: it means that a peer went away, and often arrives before the peer's own failure does.
        """
        failed = [r for r in self.ranks if r.phase is RankPhase.FAILED]
        return min(failed, key=_guilt, default=None)

    @property
    def cause(self) -> Rank | None:
        """Like `first_failure`, but among ranks that raised and still run too: exiting may take seconds."""
        return min((r for r in self.ranks if r.failed_at is not None), key=_guilt, default=None)

    @property
    def undecided(self) -> bool:
        """Whether the cause is in doubt, and a rank that could still turn out to be the cause is running."""
        cause = self.cause
        open_ends = any(not r.phase.ended and r.raised is None for r in self.ranks)
        return cause is not None and cause.doubt > 0 and open_ends

    def service_as(self, rank: Rank) -> Service | None:
        """The service that the rank is; None for a rank that runs the target."""
        return next((each for each in self.services if each.is_rank and each.rank == rank.rank), None)

    @property
    def leader(self) -> Rank | None:
        """The first rank that reports: its step and metrics are shown as the run's."""
        return next((r for r in self.ranks if r.reported_at is not None), None)

    @property
    def attempt_since(self) -> tuple[tuple[Phase, float], ...]:
        """The phases of this attempt, and when each was entered."""
        return self.since[self.attempt_index :]

    @property
    def all_ended(self) -> bool:
        """Whether every rank's process is gone."""
        return bool(self.ranks) and all(r.phase.ended for r in self.ranks)


def _guilt(rank: Rank) -> tuple[int, float, int]:
    """The key by which failed ranks are sorted: the cause comes first."""
    return rank.doubt, rank.failed_at or 0.0, rank.rank
