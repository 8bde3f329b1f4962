"""What a tracker must be able to do, and what it is told of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from .reports import Point


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """The run at its start, without secrets. `started` in seconds since the epoch."""

    id: str
    name: str
    user: str
    source: str
    started: float
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Record:
    """Where a tracker keeps a run; the fields are those of `launcher.state.events.TrackerLinked`."""

    id: str = ""
    group: str = ""
    store: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How the run ended: its final state, exit code, and when, in seconds since the epoch."""

    state: str
    exit_code: int
    time: float


class TrackerWriter(Protocol):
    """Writes one run to one tracker. Any method may raise anything; it is then called again, later.

    Attributes:
        name: the tracker's name for people.
        most: how many points one `write` takes.
        any_order: whether points may be written in another order than that of their steps.
    """

    name: str
    most: int
    any_order: bool

    def begin(self, run: TrackedRun) -> Record:
        """Make the tracker's record of the run; what an attempt that failed has made is used again."""

    def tag(self, tags: dict[str, str]) -> None:
        """Add what became known later: the code's `revision`, whether it is `dirty`, how many `restarts`."""

    def write(self, points: Sequence[Point]) -> list[str]:
        """Write points; the names of metrics that the tracker refuses for good are returned."""

    def end(self, verdict: Verdict) -> None:
        """Record how the run ended."""
