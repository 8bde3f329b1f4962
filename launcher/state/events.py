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

from ..serialization import DecodeError, ExitCode, Index, Moment, from_plain, to_plain
from ..spec.places import Assignment, Device

SCHEMA = 1
Scope = Literal["attempt", "run"]
Sender = Literal["agent", "rank"]
E = TypeVar("E", bound="Event")


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all facts have: when, in which attempt, and the agent's own clock if it came from one.

    What `event` says of each kind:

    Attributes:
        tag: its name in `events.jsonl`, and on the way from an agent.
        from_agent: whether an agent may tell it; all others are the engine's own.
        from_rank: whether a rank may tell it, to its agent.
        scope: what it is about: the whole run, or its attempt, and nothing once that is over.
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

    The arguments are those attributes of `Event`. What a rank may tell, its agent may too. `recorded` is
    False for what a reader makes for itself, and no record holds.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class RankSample:
    """One rank's process tree at one moment: CPU in percent of one core, memory and I/O in bytes."""

    rank: Index
    cpu: float | None = None
    rss: int | None = None
    processes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None
    device_memory: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSample:
    """One host at one moment: CPU in percent of the whole machine, memory in bytes."""

    cpu: float | None = None
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
    """A folder under version control. `revision` is empty where it has none yet, or it could not be told."""

    root: str
    revision: str = ""
    branch: str = ""
    dirty: bool | None = None


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class OriginFound(Event):
    """What was run, as far as it can be told: the code's revision, and the packages beside it.

    `revision` is that of the checkout that holds the target, else of the working directory's; it is empty
    where neither is under version control. `dirty` is None where it could not be found out in time; a target
    that is not in the revision is dirty. `beside` is the working directory's checkout, where it is another
    one. `packages` are distribution names and versions, as the caller's interpreter has them.
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
    """After a `LimitNear` for want of progress, a rank has shown that it lives."""


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class StacksTaken(Event):
    """What a rank was doing: the stacks of its threads, as its interpreter printed them.

    `text` is empty where it printed none in time; `reason` then says why, as far as that is known.
    """

    rank: Index
    text: str = ""
    reason: str = ""


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStopped(Event):
    """The run folder takes no more: what comes from now on is counted and dropped. The training goes on."""

    reason: str


@event(scope="run", recorded=False)
@dataclass(frozen=True, slots=True, kw_only=True)
class PartUnreadable(Event):
    """Something in the folder cannot be read: what a reader says to itself, and nobody writes down.

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
    """What was dropped so far while the folder took nothing: bytes of output, of return values, and facts.

    All numbers count from the run's beginning; samples and reports are not among the facts. `resumed` says
    that the folder takes records again.
    """

    output_bytes: int = 0
    result_bytes: int = 0
    facts: int = 0
    resumed: bool = False


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class SparkReady(Event):
    """There is a Spark session: which, and where its own pages and those of its standalone masters are."""

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
    """By which way agents came: ``live`` to this machine, a ``relay`` beside the Connect server, ``spool``.

    Older runs have ``carried`` too: what the ranks wrote came home with the stage.
    """

    way: str
    reason: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorLost(Event):
    """Spark says that an executor went away with the tasks that it ran; `reason` in Spark's words."""

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
    """The run waits for slots: what it has, what it needs, how long it may take."""

    have: Index
    need: Index
    limit_s: float | None = None
    reason: str = ""


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced(Event):
    """Every rank has a place."""

    ranks: tuple[Assignment, ...]


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJoined(Event):
    """An agent connected and proved that it belongs to the run.

    `clock_offset` is the agent's clock minus the engine's, in seconds.
    """

    agent: Index
    host: str
    pid: int
    python: str = ""
    clock_offset: float = 0.0
    devices: tuple[Device, ...] = ()
    address: str = ""
    torch: str = ""


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


@event(from_rank=True, shows_life=True, telemetry=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankReported(Event):
    """The user's code called `launcher.report`. Of a burst, some are dropped, but never the newest."""

    rank: Index
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@event(from_rank=True, shows_life=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaised(Event):
    """The user's code ended with an exception.

    `frames` are (file, line, function) of the user's own code, outermost first; `traceback` is the whole
    text as Python prints it, without rankdeck's own frames.
    """

    rank: Index
    kind: str
    message: str
    traceback: str
    frames: tuple[tuple[str, int, str], ...] = ()


@event(from_rank=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaising(Event):
    """An exception was seen on its way through the user's code, with the fields of a `RankRaised`.

    It is evidence: something above may still catch it. It counts where the rank then fails, or is ended.
    """

    rank: int
    kind: str
    message: str
    traceback: str
    frames: tuple[tuple[str, int, str], ...] = ()


@event(from_rank=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class RankRecovered(Event):
    """The exception that was seen on its way did not end the rank: it was caught."""

    rank: int


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class RankReturned(Event):
    """A rank's return value is complete in the run folder, or, where not `kept`, the folder did not take it.

    `type` is the value's qualified type, `size` the pickle's length in bytes; `value` is the value itself
    where JSON can hold it within a bound, and `preview` a short text of it otherwise.
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

    `oom_kills` counts what the kernel's own counters say its OOM killer did while the rank lived;
    None where they cannot be read. `unreturned` says that it ran a function, and ended with 0 although that
    had neither returned nor raised; `left` that this ended by `sys.exit`, and so has no value.
    """

    rank: Index
    exit_code: ExitCode
    signal: str | None = None
    duration_s: float = 0.0
    oom_kills: int | None = None
    unreturned: bool = False
    left: bool = False


@event()
@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The gang was told to end.

    `by` is a ``person``, a ``limit``, a ``rank`` (that failed), the ``loss`` of an agent, or ``spark``
    (somebody cancelled the job there).
    """

    by: str
    reason: str
    exit_code: ExitCode | None = None
    grace_s: float = 0.0


@event(scope="run")
@dataclass(frozen=True, slots=True, kw_only=True)
class GangRestarted(Event):
    """The gang is started again. `attempt` is the new one; `in_place` says that its agents stayed."""

    reason: str
    in_place: bool


@event(from_agent=True)
@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupProven(Event):
    """An agent looked for survivors of what it had started: how many it had to kill, and who is left."""

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
    """A fact written by a newer version; kept so that counts and order stay true."""

    name: str
    data: Mapping[str, Any]


def to_dict(event: Event, run: str) -> dict[str, Any]:
    """The fact as it is written: its fields and `schema`, `event` and `run`."""
    return {"schema": SCHEMA, "event": event.tag, "run": run, **to_plain(event)}


def from_dict(data: Mapping[str, Any]) -> Event:
    """The fact that `to_dict` wrote; `Unrecognised` for one that only a newer version knows.

    Raises:
        DecodeError: it is no fact, or a field of it holds what it cannot hold.
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


def encode(event: Event, run: str) -> bytes:
    """One line of `events.jsonl`, with its newline."""
    return json.dumps(to_dict(event, run), separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Event:
    """The fact on one line.

    Raises:
        DecodeError: it is torn, or was not written by us.
    """
    try:
        data = json.loads(line)
    except (ValueError, RecursionError):
        raise DecodeError("it is no JSON") from None
    if not isinstance(data, dict):
        raise DecodeError("it is no JSON object")
    return from_dict(data)


def to_wire(event: Event) -> dict[str, Any]:
    """The fact as an agent sends it to the engine, which knows run and attempt itself."""
    return {"event": event.tag, **to_plain(event)}


def from_wire(data: Mapping[str, Any], sender: Sender, known_better: Mapping[str, Any]) -> Event:
    """The fact that an agent has sent to the engine, or a rank to its agent.

    Args:
        data: what `to_wire` made, if it can be trusted.
        sender: who says so.
        known_better: fields that the receiver knows, whatever the sender says.

    Raises:
        DecodeError: it is no fact that such a sender tells, or a field of it holds what it cannot hold.
    """
    kind = known(tag := data.get("event"))
    if kind is None or not (kind.from_rank if sender == "rank" else kind.from_agent):
        raise DecodeError(f"no {sender} tells the fact {tag!r:.40}")
    return from_plain(kind, {**data, **known_better})
