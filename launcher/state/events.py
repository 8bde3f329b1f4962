"""Every fact that a run can produce, as frozen dataclasses in the past tense.

A fact is written once, as one JSON line, and never changed; everything shown or decided is folded from
facts (`launcher.state.fold`). Times are seconds since the epoch on the engine's clock; a fact that came from
an agent also carries the agent's own clock, because the two may differ by seconds across hosts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar

from ..serialization import Amount, DecodeError, ExitCode, Index, Moment, from_plain, to_plain
from ..spec.places import Assignment, Device

SCHEMA = 1
Scope = Literal["attempt", "run"]
Sender = Literal["agent", "rank"]
E = TypeVar("E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all facts have: when, in which attempt, and the agent's own clock if it came from one.

    The decorator `event` sets these for each kind of fact:

    Attributes:
        tag: its name in `events.jsonl` and in an agent's messages.
        from_agent: whether an agent may send it; all others are made by the engine.
        from_rank: whether a rank may send it to its agent.
        scope: ``run`` if it stays true over all attempts; ``attempt`` if it has no effect once its attempt
            is over.
        shows_life: whether it shows that a rank has done something.
        telemetry: whether it goes to `samples/`, which is thinned, and not to `events.jsonl`.
        changes_state: whether `launcher.state.fold` has a handler for it.
    """

    tag: ClassVar[str] = "event"
    from_agent: ClassVar[bool] = False
    from_rank: ClassVar[bool] = False
    scope: ClassVar[Scope] = "attempt"
    shows_life: ClassVar[bool] = False
    telemetry: ClassVar[bool] = False
    changes_state: ClassVar[bool] = True

    time: Moment
    attempt: Index = 0
    agent_time: float | None = None


_kinds: dict[str, type[Event]] = {}


def event(
    *,
    from_agent: bool = False,
    from_rank: bool = False,
    scope: Scope = "attempt",
    shows_life: bool = False,
    telemetry: bool = False,
    changes_state: bool = True,
    recorded: bool = True,
) -> Callable[[type[E]], type[E]]:
    """Make a dataclass a kind of fact; its tag is its name in lower case, with underscores.

    The arguments are those attributes of `Event`. An agent may send whatever its ranks may. `recorded` is
    False for a fact that a reader makes for itself and that is never written.
    """

    def declare(cls: type[E]) -> type[E]:
        cls.from_agent, cls.from_rank = from_agent or from_rank, from_rank
        cls.scope, cls.shows_life, cls.telemetry = scope, shows_life, telemetry
        cls.changes_state = changes_state
        if recorded:
            cls.tag = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
            if _kinds.setdefault(cls.tag, cls) is not cls:
                raise TypeError(f"there is another fact by the name {cls.tag}")
        return cls

    return declare


def known(tag: object) -> type[Event] | None:
    """The kind of fact of this name, or None."""
    return _kinds.get(tag) if isinstance(tag, str) else None


def kinds() -> tuple[type[Event], ...]:
    """Every kind of fact that a record may hold."""
    return tuple(_kinds.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSample:
    """One device at one moment. None is unknown, never zero. Memory in bytes, power in watts."""

    uuid: str
    index: int | None = None
    util: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    temperature_c: float | None = None
    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    throttle: tuple[str, ...] | None = None
    pcie_rx_kbs: int | None = None
    pcie_tx_kbs: int | None = None
    nvlink_active: int | None = None
    nvlink_rx_kbs: int | None = None
    nvlink_tx_kbs: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSample:
    """One rank's process tree at one moment: CPU in percent of one core, memory and I/O in bytes.

    `disk_wait` is whether one of its processes was in a wait that no signal interrupts, as for a disk.
    """

    rank: Index
    cpu: float | None = None
    rss: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    disk_wait: bool | None = None
    device_memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One host at one moment: CPU in percent of the whole machine, memory in bytes.

    `steal` is the part of `cpu` that a hypervisor gave to other machines.
    """

    cpu: float | None = None
    steal: float | None = None
    memory_used: int | None = None
    memory_total: int | None = None
    load1: float | None = None


@event(from_agent=True, telemetry=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled(Event):
    """What one agent's sensors measured, once per interval."""

    agent: Index
    host: str
    system: HostSample | None = None
    devices: tuple[DeviceSample, ...] = ()
    ranks: tuple[RankSample, ...] = ()


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder under version control. `revision` is empty if it has none yet, or could not be found out."""

    root: str
    revision: str = ""
    branch: str = ""
    dirty: bool | None = None


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFound(Event):
    """What was run, as far as it could be found out: the code's revision and the installed packages.

    `revision` is that of the checkout that holds the target, else that of the working directory's; it is
    empty where neither is under version control. `dirty` is None where it could not be found out in time; a
    target that is not in the revision is dirty. `beside` is the working directory's checkout, if it is
    another one. `packages` maps distribution names to the versions in the caller's interpreter.
    """

    revision: str = ""
    branch: str = ""
    dirty: bool | None = None
    root: str = ""
    python: str = ""
    beside: Checkout | None = None
    packages: Mapping[str, str] = field(default_factory=dict)


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNear(Event):
    """A limit ends the run at `at` unless something happens; `limit` names it, `limit_s` is its length."""

    limit: str
    limit_s: float
    at: Moment


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressResumed(Event):
    """After a `LimitNear` of the limit without progress, a rank has shown a sign of life."""


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankPaused(Event):
    """The user's code pauses by `launcher.pause`, for this reason; if `over`, it goes on."""

    rank: Index
    reason: str = ""
    over: bool = False


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class RanksSilent(Event):
    """Ranks show no activity: no step, no output, no use of CPUs, GPUs or disks.

    Attributes:
        ranks: which.
        since: the last moment at which one of them showed some.
        hung: whether the gang's others wait for them, or none of the gang is active.
        waiting: the ranks that were seen to wait for them; only if they are hung.
    """

    ranks: tuple[Index, ...]
    since: Moment
    hung: bool = False
    waiting: tuple[Index, ...] = ()


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class RanksResumed(Event):
    """Ranks of a `RanksSilent` show activity again, or a declared pause explains why they show none."""

    ranks: tuple[Index, ...]


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class StacksTaken(Event):
    """What a rank was doing: the stacks of its threads, as its interpreter printed them.

    `text` is empty where it printed none in time; `reason` is then why, as far as that is known. `native` has
    the native frames too, as `py-spy` printed them; it is empty while another fact with them may follow, and
    None if there are none.
    """

    rank: Index
    text: str = ""
    reason: str = ""
    native: str | None = None


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStopped(Event):
    """The run folder cannot be written: from now on, records are counted and dropped. Training goes on."""

    reason: str


@event(scope="run", recorded=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnreadable(Event):
    """Something in the folder cannot be read. A reader makes this fact; it is never written.

    Attributes:
        file: its name in the run folder.
        lines: which lines, counted from 1, or a few of them; none if it is the whole file.
        count: how many lines; 0 if it is the whole file.
        reason: what is wrong with the first of them.
    """

    file: str
    lines: tuple[int, ...] = ()
    count: int = 0
    reason: str = ""


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsLost(Event):
    """What was dropped so far because the folder could not be written: bytes of output, of values, and facts.

    All numbers count from the run's beginning; telemetry is not among the facts. `resumed` is true if the
    folder can be written again.
    """

    output_bytes: int = 0
    result_bytes: int = 0
    facts: int = 0
    resumed: bool = False


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReady(Event):
    """There is a Spark session. `ui` is the address of its pages, `pages` those of its standalone masters."""

    application: str
    master: str
    version: str
    name: str = ""
    ui: str = ""
    remote: bool = False
    pages: tuple[str, ...] = ()


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class StageSubmitted(Event):
    """A barrier stage of `tasks` tasks was handed to Spark; an agent comes from each."""

    tasks: Index


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryChosen(Event):
    """How agents connect: ``live`` to this machine, by a ``relay`` beside the Connect server, by ``spool``.

    Older runs have ``carried`` too: the ranks' output arrived with the result of the stage.
    """

    way: str
    reason: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class FilesAwaited(Event):
    """Hosts wait for the run's files; told now and then, about the one that waits longest.

    Attributes:
        host: its name.
        others: how many more hosts wait.
        file: the file that it gets now; empty while it compares or lays out files by itself.
        files: how many it lacked, and their `size` in bytes; `sent` is how much of that was sent.
    """

    host: str
    others: Index = 0
    file: str = ""
    files: Index = 0
    sent: Amount = 0
    size: Amount = 0


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerFound(Event):
    """A Python worker of Spark predicts. It counts as a rank, by the order of arrival.

    `agent` is the number of the agent beside it, and its process is `pid`.
    """

    rank: Index
    agent: Index
    host: str
    pid: int = 0
    devices: tuple[Device, ...] = ()


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class PredictionAdvanced(Event):
    """How far a prediction is.

    Attributes:
        done: the share of its work that is done, 0 to 1; None while that is not known.
        skipped: the share that was done before this run.
        unit: how many of its units, which are written one after the other, are done; `units` is how many
            there are.
        rows: how many rows those units had that this run has done.
        output: where the rows are written; told once all are.
    """

    done: float | None = None
    skipped: float = 0.0
    unit: Index = 0
    units: Index = 1
    rows: Amount = 0
    output: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLost(Event):
    """Spark reports that an executor and its tasks were lost; `reason` is Spark's own text."""

    reason: str
    executor: str = ""
    host: str = ""
    task: Index | None = None


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLost(Event):
    """The Connect server at `server`, or our session on it, is gone; its executors go with it."""

    server: str
    reason: str = ""
    task: int | None = None


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLost(Event):
    """One Spark task ended before its agent was done: its Python worker was killed or broke."""

    reason: str
    task: Index | None = None


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStarted(Event):
    """A process of the framework's own was started beside a rank; `name` is what people call it.

    If `is_rank`, the rank is that process and nothing else: it runs no target.
    """

    agent: Index
    host: str
    rank: Index
    name: str
    pid: int = 0
    is_rank: bool = False


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceReady(Event):
    """The service beside a rank can be used; `url` is its page for browsers, if it has one."""

    agent: Index
    host: str
    rank: Index
    name: str
    url: str = ""


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceLost(Event):
    """The service beside a rank ended while the ranks needed it; `reason` is what became of it.

    `started` is false if it has never been ready: then it is no loss but a failure to start.
    """

    agent: Index
    host: str
    rank: Index
    name: str
    reason: str
    started: bool = True


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class JobCancelled(Event):
    """Somebody ended the job in Spark itself: its pages, its API, or the end of its application."""

    reason: str


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunSubmitted(Event):
    """The request was accepted and the run folder made."""

    name: str
    target: str
    mode: str
    num_processes: Index
    user: str = ""
    host: str = ""
    pid: int = 0
    args: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsAwaited(Event):
    """The run waits for slots: how many it has, how many it needs, and for how long it may wait."""

    have: Index
    need: Index
    limit_s: float | None = None
    reason: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced(Event):
    """Every rank has a place. `roles` has each rank's role, if its framework has roles."""

    ranks: tuple[Assignment, ...]
    roles: tuple[str, ...] = ()


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJoined(Event):
    """An agent connected and proved that it belongs to the run.

    `clock_offset` is the agent's clock minus the engine's, in seconds, and `clock_error` by how much that may
    be wrong: half the time in which it was found out. `torch` and `cuda` are what its Python would import.
    """

    agent: Index
    host: str
    pid: int
    python: str = ""
    clock_offset: float = 0.0
    devices: tuple[Device, ...] = ()
    address: str = ""
    torch: str = ""
    cuda: str = ""
    clock_error: float = 0.0


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeparted(Event):
    """The channel to an agent ended; `expected` says whether it had finished its work."""

    agent: Index
    host: str
    expected: bool
    reason: str = ""


@event(from_agent=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankStarted(Event):
    """A rank's process exists."""

    rank: Index
    pid: int


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankEntered(Event):
    """The interpreter is up and the user's code begins."""

    rank: Index


ROWS, ROWS_PER_S = "rows", "rows_per_s"
"""The figures that a worker of a prediction reports, in place of a step and its pace."""


@event(from_rank=True, shows_life=True, telemetry=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankReported(Event):
    """The user's code called `launcher.report`. Of a burst, some are dropped, but never the newest."""

    rank: Index
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAwaited(Event):
    """A rank waits for rows of the run's DataFrame, after `rows` of them; if `over`, it no longer does."""

    rank: Index
    rows: Amount = 0
    over: bool = False


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class LogAwaited(Event):
    """A rank waits until its output is read: it writes more than is taken; if `over`, it no longer does."""

    rank: Index
    over: bool = False


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class MessageLogged(Event):
    """The user's code has sent a message to whoever started the run: `launcher.compat.log_to_driver`."""

    rank: Index
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceExcerpt:
    """The source around the line that a frame was at, read when the exception was raised.

    Attributes:
        file, line, function: the frame, as a traceback names it; no function for a syntax error.
        first: the number of the first of `lines`.
        lines: the source, without line ends.
        changed: whether the file was written after the rank had started, so that other lines may have run.
    """

    file: str
    line: int
    function: str = ""
    first: int = 1
    lines: tuple[str, ...] = ()
    changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """A local variable of the user's innermost frame.

    Attributes:
        name: its name.
        type: its type's qualified name, without `builtins`.
        about: what is known without running the value's own code: a tensor's shape, dtype and device, or a
            container's length.
        text: its value, if values were asked for and it is a plain one; None otherwise.
    """

    name: str
    type: str
    about: str = ""
    text: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """The last collective of a rank in one group, as torch's flight recorder has it.

    Attributes:
        group: the group's description and name; of the default group ``default_pg``, of others only the name
            where they have no description.
        number: how many collectives the rank had called in the group.
        operation: what it called, such as ``all_reduce``.
        sizes: the sizes of what it gave, as ``[[4]]``.
    """

    group: str
    number: int
    operation: str
    sizes: str = ""


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaised(Event):
    """The user's code ended with an exception.

    `frames` are (file, line, function) of the user's own code, outermost first; `traceback` is the whole
    text as Python prints it, without rankdeck's own frames. `excerpts` are of frames of that text, the
    innermost ones first; `variables` are those of the last of `frames`. `collectives` are the
    last of each group.
    """

    rank: Index
    kind: str
    message: str
    traceback: str
    frames: tuple[tuple[str, int, str], ...] = ()
    excerpts: tuple[SourceExcerpt, ...] = ()
    variables: tuple[Variable, ...] = ()
    collectives: tuple[CollectiveCall, ...] = ()


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupJoined(Event):
    """The rank has joined a process group of `world_size` ranks, as its framework counts them."""

    rank: Index
    world_size: Index


@event(from_rank=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworksUsed(Event):
    """At its end, a rank that had joined no group with others had used these frameworks."""

    rank: Index
    frameworks: tuple[str, ...]


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class FrameworkChosen(Event):
    """The framework by whose rules the ranks get their places.

    `detected` are the frameworks that the target's source uses to train together; `whole` is whether ranks
    run all of that source, and not one function of it. `asked` is whether it was chosen by name.
    """

    framework: str
    asked: bool = False
    detected: tuple[str, ...] = ()
    whole: bool = True


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class SeparateTrainings(Event):
    """No rank of a gang that used these frameworks has joined a group with others, and all have ended well.

    `cure` is what makes them meet. If `required`, the run has failed for it.
    """

    ranks: Index
    frameworks: tuple[str, ...]
    cure: str = ""
    required: bool = False


@event(from_rank=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaising(Event):
    """An exception was seen on its way through the user's code, with the fields of a `RankRaised`.

    A caller further up may still catch it, so it counts only if the rank then fails or is terminated.
    """

    rank: int
    kind: str
    message: str
    traceback: str
    frames: tuple[tuple[str, int, str], ...] = ()
    excerpts: tuple[SourceExcerpt, ...] = ()
    variables: tuple[Variable, ...] = ()
    collectives: tuple[CollectiveCall, ...] = ()


@event(from_rank=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecovered(Event):
    """The exception of a `RankRaising` did not end the rank: it was caught."""

    rank: int


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class RankReturned(Event):
    """A rank's return value has arrived. It is in the run folder unless `kept` is false: writing it failed.

    `type` is the value's qualified type, `size` the pickle's length in bytes; `value` is the value itself
    if it is small enough and JSON can hold it, else `preview` is a short text of it.
    """

    rank: Index
    type: str
    size: int
    value: Any = None
    json: bool = False
    preview: str = ""
    kept: bool = True


@event(from_agent=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankExited(Event):
    """A rank's process ended: by itself with `exit_code`, or by the signal named `signal`.

    `oom_kills` is the number of OOM kills that the kernel counted while the rank lived; None where its
    counters cannot be read. `unreturned` is true if the rank ran a function and ended with 0 although the
    function had neither returned nor raised; `left`, if the function ended by `sys.exit` and has no value.
    `after_return` is true if its function had returned, and the process then ended badly. `collectives` are
    the rank's last ones, if NCCL's watchdog wrote them down before it aborted a rank.
    """

    rank: Index
    exit_code: ExitCode
    signal: str | None = None
    duration_s: float = 0.0
    oom_kills: int | None = None
    unreturned: bool = False
    left: bool = False
    after_return: bool = False
    collectives: tuple[CollectiveCall, ...] = ()


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The gang is being stopped.

    `by` is the cause: a ``person``, a ``limit``, a ``rank`` (that failed), the ``loss`` of an agent, or
    ``spark`` (somebody cancelled the job there).
    """

    by: str
    reason: str
    exit_code: ExitCode | None = None
    grace_s: float = 0.0


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class GangRestarted(Event):
    """The gang is started again. `attempt` is the new one; `in_place` is true if its agents stayed."""

    reason: str
    in_place: bool


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupProven(Event):
    """An agent looked for survivors among the processes that it had started.

    It had to terminate and kill so many; `survivors` are the pids that are left.
    """

    agent: Index
    host: str
    terminated: int = 0
    killed: int = 0
    survivors: tuple[int, ...] = ()


@event(from_agent=True, scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class NoteMade(Event):
    """Something a person should know once: a default that was chosen, a sensor that is missing."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file that came home.

    `rank` is the one that wrote it, None if that is not known; `again` says that an older version was here.
    """

    path: str
    size: Amount = 0
    rank: Index | None = None
    again: bool = False


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsKept(Event):
    """Files that ranks wrote have come home. One fact may tell of many files of one host.

    Attributes:
        host: where they were written.
        files, size: how many came, and how large they are together, in bytes.
        named: some of them: those that are new here, and of these the largest, come first.
        total_files, total_size: the same for all files of the run that are here now.
    """

    host: str
    files: Amount
    size: Amount
    named: tuple[NamedFile, ...] = ()
    total_files: Amount = 0
    total_size: Amount = 0


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactsAwaited(Event):
    """The ranks of a host have ended, and files that they wrote are still to come home."""

    host: str
    files: Amount
    size: Amount


@event(from_rank=True, scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerLinked(Event):
    """An experiment tracker has a record of this run: an MLflow run, a W&B run or a TensorBoard folder.

    Attributes:
        tracker: ``mlflow``, ``wandb`` or ``tensorboard``.
        rank: the rank whose code made the record; None if it is rankdeck's own, of ``--track``.
        id: the tracker's id of it, if it has one.
        group: the experiment or project that it is in.
        store: where it is kept: the tracking URI, or a folder on the rank's host.
        url: its page for browsers; empty if it has none.
    """

    tracker: str
    rank: Index | None = None
    id: str = ""
    group: str = ""
    store: str = ""
    url: str = ""


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class XidLogged(Event):
    """NVIDIA's driver logged an error of a GPU, a program's or its own: an Xid, as `dmesg` shows it.

    `uuid` and `index` are those of a device that the agent may use. https://docs.nvidia.com/deploy/xid-errors
    lists the numbers. The driver does not say which process it was.
    """

    agent: Index
    host: str
    uuid: str
    xid: Index
    index: int | None = None


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class CauseFound(Event):
    """Why the gang failed, where that is known: the result of `launcher.diagnosis`.

    Attributes:
        id: the rule's name, such as ``cuda-oom``. It does not change between versions.
        certainty: ``certain`` if the evidence leaves no other cause, else ``likely``.
        text: the cause in one sentence.
        rank: the rank that it is about.
        evidence: what was found, one sentence each.
        remedy: what to do, the best first.
    """

    id: str
    certainty: str
    text: str
    rank: Index | None = None
    evidence: tuple[str, ...] = ()
    remedy: tuple[str, ...] = ()


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The verdict: final state, exit code, one sentence, and the rank that failed first if one did."""

    state: str
    exit_code: ExitCode
    why: str
    rank: Index | None = None


@event(scope="run", recorded=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecognised(Event):
    """A fact written by a newer version; kept so that counts and order stay right."""

    name: str
    data: Mapping[str, Any]


def to_dict(event: Event, run: str) -> dict[str, Any]:
    """The fact as JSON values: its fields and `schema`, `event` and `run`."""
    return {"schema": SCHEMA, "event": event.tag, "run": run, **to_plain(event)}


def from_dict(data: Mapping[str, Any]) -> Event:
    """The fact that `to_dict` wrote; `Unrecognised` for one that only a newer version knows.

    Raises:
        DecodeError: it is no fact, or a field has a value that it cannot have.
    """
    tag, schema = data.get("event"), data.get("schema", SCHEMA)
    if not isinstance(tag, str) or type(schema) is not int:
        raise DecodeError("it names no kind of fact")
    cls = known(tag)
    if cls is None:
        return _unrecognised(tag, data)
    try:
        return from_plain(cls, data)
    except DecodeError:
        if schema > SCHEMA:
            return _unrecognised(tag, data)
        raise


def _unrecognised(tag: str, data: Mapping[str, Any]) -> Unrecognised:
    return from_plain(Unrecognised, {**data, "name": tag, "data": data})


_ENCODER = json.JSONEncoder(separators=(",", ":"))


def encode(event: Event, run: str) -> bytes:
    """One line of `events.jsonl`, with its newline."""
    return _ENCODER.encode(to_dict(event, run)).encode() + b"\n"


def decode(line: bytes) -> Event:
    """The fact on one line.

    Raises:
        DecodeError: it is torn, or was not written by us.
    """
    try:
        data = json.loads(line.decode())  # of bytes, it would try which encoding they have
    except (ValueError, RecursionError):
        raise DecodeError("it is no JSON") from None
    if not isinstance(data, dict):
        raise DecodeError("it is no JSON object")
    return from_dict(data)


def to_wire(event: Event) -> dict[str, Any]:
    """The fact as an agent sends it to the engine, which knows the run and the attempt itself."""
    return {"event": event.tag, **to_plain(event)}


def from_wire(data: Mapping[str, Any], sender: Sender, known_better: Mapping[str, Any]) -> Event:
    """The fact that an agent has sent to the engine, or a rank to its agent.

    Args:
        data: the output of `to_wire`, from a sender that may be broken.
        sender: whether an agent or a rank sent it.
        known_better: fields that the receiver knows; they replace those of the sender.

    Raises:
        DecodeError: it is no fact that such a sender may send, or a field has a value that it cannot have.
    """
    kind = known(tag := data.get("event"))
    if kind is None or not (kind.from_rank if sender == "rank" else kind.from_agent):
        raise DecodeError(f"no {sender} may send the fact {tag!r:.40}")
    return from_plain(kind, {**data, **known_better})
