"""What is known of a run: frozen values that `launcher.state.fold` updates with each fact.

They have no slots, for `launcher.state.changes`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from . import events as ev
from .ranks import Rank, RankPhase, Ranks

CLOCKS_DIFFER_S = 2.0  # an agent's moment and the engine's are told apart only if they lie further apart
AT_ONCE_S = 0.001  # reports of one moment's failures by processes of one host lie this far apart


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


@dataclass(frozen=True)
class Host:
    """One agent's host: its clock, its last system sample and its devices by UUID.

    `attempt` is the last one that the agent belonged to; `address` is the agent's end of its connection to
    the engine. `python`, `torch` and `cuda` are versions; empty for those that are not known. `departed` is
    why its agent went away before its work was done.
    """

    agent: int
    host: str
    attempt: int = 0
    pid: int = 0
    clock_offset: float = 0.0
    clock_error: float = 0.0
    present: bool = True
    system: ev.HostSample | None = None
    devices: Mapping[str, ev.DeviceSample] = field(default_factory=dict)
    sampled_at: float | None = None
    cleanup: ev.CleanupProven | None = None
    address: str = ""
    python: str = ""
    torch: str = ""
    cuda: str = ""
    departed: str = ""


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
        xids: the errors that the driver logged of its ranks' GPUs in this attempt, each once.
        found: why its last attempt failed, where that is known.
        near: the last warning that a limit is near, unless the danger has passed.
        stacks: the latest stacks of the ranks of this attempt, by rank.
        stacked_last: the ranks whose stacks have come after what ended the gang.
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
    ranks: Ranks = field(default_factory=Ranks)
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
    xids: tuple[ev.XidLogged, ...] = ()
    found: ev.CauseFound | None = None
    near: ev.LimitNear | None = None
    stacks: tuple[ev.StacksTaken, ...] = ()
    stacked_last: frozenset[int] = frozenset()
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
        failed = [r for r in self.ranks.failing if r.phase is RankPhase.FAILED]
        return min(failed, key=_guilt, default=None)

    @property
    def cause(self) -> Rank | None:
        """Like `first_failure`, but among ranks that raised and still run too: exiting may take seconds."""
        return min(self.ranks.failing, key=_guilt, default=None)

    @property
    def failed_together(self) -> tuple[Rank, ...]:
        """The ranks that failed so close to `first_failure` that any of them may have been the first."""
        first = self.first_failure
        failed = [r for r in self.ranks.failing if r.phase is RankPhase.FAILED]
        if first is None or len(failed) < 2:
            return ()
        close = (r for r in failed if r.doubt == first.doubt and r.rank != first.rank)
        return tuple(sorted((r for r in close if self._is_as_early(r, first)), key=lambda r: r.rank))

    def _is_as_early(self, rank: Rank, first: Rank) -> bool:
        after = (rank.failed_at or 0.0) - (first.failed_at or 0.0)
        return after <= self.tells_apart((rank, first))

    @property
    def left_early(self) -> tuple[Rank, ...]:
        """The ranks that had ended with 0 before the gang was stopped or lost a part."""
        return tuple(r for r in self.ranks if r.phase is RankPhase.SUCCEEDED and r.ended_before_stop)

    @property
    def last_stacks(self) -> tuple[ev.StacksTaken, ...]:
        """Those of `stacks` that show where a rank is, or was when the attempt ended.

        They were taken after a failure, stop or loss ended the gang; or the rank has shown no activity since
        then, or waits for one that has not. After all others the rank went on, and they tell nothing of its
        end. Nor do any of a run that succeeded.
        """
        if self.phase is Phase.SUCCEEDED:
            return ()
        stuck_at = min((r.silent_since for r in self.ranks if r.hung and r.silent_since), default=None)
        return tuple(each for each in self.stacks if self._still_there(each, stuck_at))

    @property
    def is_ending(self) -> bool:
        """Whether a failure, stop or loss has ended the gang of this attempt."""
        return self.disrupted_at is not None or next(iter(self.ranks.failing), None) is not None

    def _still_there(self, taken: ev.StacksTaken, stuck_at: float | None) -> bool:
        if taken.rank in self.stacked_last:
            return True
        if not 0 <= taken.rank < len(self.ranks):
            return False
        rank = self.ranks[taken.rank]
        idle_at = stuck_at if rank.waits else rank.silent_since
        if idle_at is None or taken.time < idle_at - CLOCKS_DIFFER_S:
            return False
        return rank.reported_at is None or taken.time >= rank.reported_at

    def tells_apart(self, ranks: Collection[Rank]) -> float:
        """How many seconds must lie between failures of these ranks for it to be known which came first.

        Ranks of one agent share its clock; those of others are related by clocks that are known less well.
        """
        agents = {rank.agent for rank in ranks}
        if len(agents) < 2:
            return AT_ONCE_S
        errors = sorted(self.hosts[agent].clock_error for agent in agents if agent in self.hosts)
        return max(AT_ONCE_S, sum(errors[-2:]))

    @property
    def undecided(self) -> bool:
        """Whether the cause is in doubt, and a rank that could still turn out to be the cause is running."""
        cause = self.cause
        return cause is not None and cause.doubt > 0 and self.ranks.standing.undecided > 0

    def memory_of(self, agent: int | None) -> tuple[int, int] | None:
        """The memory in bytes of an agent's host, used and in all, as it was sampled last."""
        host = self.hosts.get(-1 if agent is None else agent)
        system = host.system if host is not None else None
        if system is None or system.memory_used is None or system.memory_total is None:
            return None
        return system.memory_used, system.memory_total

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
        return 0 < self.ranks.standing.ended == len(self.ranks)


def _guilt(rank: Rank) -> tuple[int, float, int]:
    """The key by which failed ranks are sorted: the cause comes first."""
    return rank.doubt, rank.failed_at or 0.0, rank.rank
