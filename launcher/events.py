"""Every fact that a run can produce, as frozen dataclasses in the past tense.

A fact is written once, as one JSON line, and never changed; everything shown or decided is folded from
facts (`launcher.state`). Times are seconds since the epoch on the engine's clock; a fact that came from
an agent also carries the agent's own clock, because the two may differ by seconds across hosts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.codec import from_plain, to_plain
from launcher.fact import Event, known, register
from launcher.record_events import (
    LimitNear,
    OriginFound,
    ProgressResumed,
    RecordingStopped,
    RecordsLost,
    StacksTaken,
)
from launcher.spark_events import (
    DeliveryChosen,
    ExecutorLost,
    JobCancelled,
    SparkReady,
    StageSubmitted,
    TaskLost,
)
from launcher.spec import Assignment, Device
from launcher.telemetry import DeviceSample, HostSample, RankSample, Sampled

__all__ = [
    "AgentDeparted",
    "AgentJoined",
    "CleanupProven",
    "DeliveryChosen",
    "DeviceSample",
    "Event",
    "ExecutorLost",
    "GangPlaced",
    "GangRestarted",
    "HostSample",
    "JobCancelled",
    "LimitNear",
    "NoteMade",
    "OriginFound",
    "ProgressResumed",
    "RankEntered",
    "RankExited",
    "RankRaised",
    "RankReported",
    "RankReturned",
    "RankSample",
    "RankStarted",
    "RecordingStopped",
    "RecordsLost",
    "RunEnded",
    "RunSubmitted",
    "Sampled",
    "SlotsAwaited",
    "SparkReady",
    "StacksTaken",
    "StageSubmitted",
    "StopRequested",
    "TaskLost",
    "Unrecognised",
    "decode",
    "encode",
    "from_dict",
    "to_dict",
]

SCHEMA = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSubmitted(Event):
    """The request was accepted and the run folder made."""

    name: str
    target: str
    mode: str
    num_processes: int
    user: str = ""
    host: str = ""
    pid: int = 0
    args: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotsAwaited(Event):
    """The run waits for slots: what it has, what it needs, how long it may take."""

    have: int
    need: int
    limit_s: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlaced(Event):
    """Every rank has a place."""

    ranks: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentJoined(Event):
    """An agent connected and proved that it belongs to the run.

    `clock_offset` is the agent's clock minus the engine's, in seconds.
    """

    agent: int
    host: str
    pid: int
    python: str = ""
    clock_offset: float = 0.0
    devices: tuple[Device, ...] = ()
    address: str = ""
    torch: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentDeparted(Event):
    """The channel to an agent ended; `expected` says whether it had finished its work."""

    agent: int
    host: str
    expected: bool
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankStarted(Event):
    """A rank's process exists."""

    rank: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEntered(Event):
    """The interpreter is up and the user's code begins."""

    rank: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReported(Event):
    """The user's code called `launcher.report`. Telemetry: bursts are thinned, the newest is kept."""

    rank: int
    step: int | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRaised(Event):
    """The user's code ended with an exception.

    `frames` are (file, line, function) of the user's own code, outermost first; `traceback` is the whole
    text as Python prints it, without rankdeck's own frames.
    """

    rank: int
    kind: str
    message: str
    traceback: str
    frames: tuple[tuple[str, int, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RankReturned(Event):
    """A rank's return value is complete in the run folder, or, where not `kept`, the folder did not take it.

    `type` is the value's qualified type, `size` the pickle's length in bytes; `value` is the value itself
    where JSON can hold it within a bound, and `preview` a short text of it otherwise.
    """

    rank: int
    type: str
    size: int
    value: Any = None
    json: bool = False
    preview: str = ""
    kept: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExited(Event):
    """A rank's process ended: by itself with `exit_code`, or by the signal named `signal`.

    `oom_kills` counts what the kernel's own counters say its OOM killer did while the rank lived;
    None where they cannot be read.
    """

    rank: int
    exit_code: int
    signal: str | None = None
    duration_s: float = 0.0
    oom_kills: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StopRequested(Event):
    """The gang was told to end.

    `by` is a ``person``, a ``limit``, a ``rank`` (that failed), the ``loss`` of an agent, or ``spark``
    (somebody cancelled the job there).
    """

    by: str
    reason: str
    exit_code: int | None = None
    grace_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class GangRestarted(Event):
    """The gang is started again. `attempt` is the new one; `in_place` says that its agents stayed."""

    reason: str
    in_place: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanupProven(Event):
    """An agent looked for survivors of what it had started: how many it had to kill, and who is left."""

    agent: int
    host: str
    terminated: int = 0
    killed: int = 0
    survivors: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoteMade(Event):
    """Something a person should know once: a default that was chosen, a sensor that is missing."""

    text: str
    level: str = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEnded(Event):
    """The verdict: final state, exit code, one sentence, and the rank that failed first if one did."""

    state: str
    exit_code: int
    why: str
    rank: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Unrecognised(Event):
    """A fact written by a newer version; kept so that counts and order stay true."""

    name: str
    data: Mapping[str, Any]


for _cls in (
    RunSubmitted, SlotsAwaited, SparkReady, StageSubmitted, DeliveryChosen, GangPlaced, AgentJoined,
    AgentDeparted, RankStarted, RankEntered, RankReported, RankRaised, RankReturned, RankExited,
    StopRequested, ExecutorLost, TaskLost, JobCancelled, GangRestarted, CleanupProven, Sampled, NoteMade,
    OriginFound, LimitNear, ProgressResumed, StacksTaken, RecordingStopped, RecordsLost, RunEnded,
):  # fmt: skip
    register(_cls)


def to_dict(event: Event, run: str) -> dict[str, Any]:
    """The fact as it is written: its fields and `schema`, `event` and `run`."""
    return {"schema": SCHEMA, "event": event.tag, "run": run, **to_plain(event)}


def from_dict(data: Mapping[str, Any]) -> Event:
    """The fact that `to_dict` wrote; `Unrecognised` for a type that this version does not know."""
    cls = known(data.get("event", ""))
    if cls is None:
        return Unrecognised(time=data.get("time", 0.0), name=str(data.get("event")), data=dict(data))
    return from_plain(cls, data)


def encode(event: Event, run: str) -> bytes:
    """One line of `events.jsonl`, with its newline."""
    return json.dumps(to_dict(event, run), separators=(",", ":")).encode() + b"\n"


def decode(line: bytes) -> Event:
    """The fact on one line; ValueError if it is torn, or was not written by us."""
    try:
        return from_dict(json.loads(line))
    except (TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"not a fact: {error}") from error
