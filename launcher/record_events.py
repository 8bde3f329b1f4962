"""Facts about a run's record and its limits, rather than about its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.codec import Index, Moment
from launcher.fact import Event


@dataclass(frozen=True, slots=True)
class Checkout:
    """A folder under version control. `revision` is empty where it has none yet, or it could not be told."""

    root: str
    revision: str = ""
    branch: str = ""
    dirty: bool | None = None


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


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitNear(Event):
    """A limit ends the run at `at` unless something happens; `limit` names it, `limit_s` is its length."""

    limit: str
    limit_s: float
    at: Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressResumed(Event):
    """After a `LimitNear` for want of progress, a rank has shown that it lives."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StacksTaken(Event):
    """What a rank was doing: the stacks of its threads, as its interpreter printed them.

    `text` is empty where it printed none in time; `reason` then says why, as far as that is known.
    """

    rank: Index
    text: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStopped(Event):
    """The run folder takes no more: what comes from now on is counted and dropped. The training goes on."""

    reason: str


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
