"""The curves of a run with what happened beside them, as one value that screens share."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from launcher.state.run_state import RunState

from .store import CurvePoints
from .window import Axis

if TYPE_CHECKING:
    from ..run.health import Alert

CHECKPOINT, TOTAL_STEPS = "checkpoint", "total_steps"
NOT_DRAWN = frozenset({CHECKPOINT, TOTAL_STEPS})
"""Reported numbers with a meaning of their own: no curve shows them."""

MOST_MARKS = 256


class What(StrEnum):
    """What a mark says has happened."""

    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    ALERT = "alert"
    NOT_FINITE = "not finite"


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened: at which step, if that is known, when, and in a few words."""

    what: What
    step: float | None
    time: float
    text: str

    def at(self, axis: Axis, begin: float) -> float | None:
        """Its position on an axis; None if it has none there."""
        return self.time - begin if axis is Axis.TIME else self.step


@dataclass(frozen=True, slots=True, eq=False)
class RunCurves:
    """All curves of a run at one moment. Two are equal only if they are the same object.

    `begin` is the time of the run's first report.
    """

    points: Mapping[str, CurvePoints] = field(default_factory=dict)
    begin: float = 0.0
    happened: Sequence[Happened] = ()

    @property
    def names(self) -> list[str]:
        """The metrics in their usual order: the loss first, then by name."""
        return sorted(self.points.keys() - NOT_DRAWN, key=_rank)


def _rank(name: str) -> tuple[bool, bool, str]:
    return name != "loss", "loss" not in name, name


def begin_of(points: Mapping[str, CurvePoints]) -> float:
    """The time of the first report; 0 if there is none."""
    return min((float(each.time.min()) for each in points.values() if len(each)), default=0.0)


def what_happened(
    points: Mapping[str, CurvePoints], state: RunState, alerts: Iterable[Alert]
) -> tuple[Happened, ...]:
    """The last `MOST_MARKS` of each kind of event that a curve is read with, in order of time."""
    every = [*_checkpoints(points), *_restarts(points, state), *_alerts(points, alerts), *_not_finite(points)]
    kept = (group[-MOST_MARKS:] for group in ([e for e in every if e.what is what] for what in What))
    return tuple(sorted((each for group in kept for each in group), key=lambda each: each.time))


def _checkpoints(points: Mapping[str, CurvePoints]) -> Iterator[Happened]:
    saved = points.get(CHECKPOINT)
    if saved is None:
        return
    changes = np.flatnonzero(np.diff(saved.high, prepend=np.nan) != 0)
    for at in changes[-MOST_MARKS:].tolist():
        if np.isfinite(saved.high[at]):
            step = float(saved.high[at])
            yield Happened(What.CHECKPOINT, step, float(saved.time[at]), f"checkpoint of step {step:,.0f}")


def _restarts(points: Mapping[str, CurvePoints], state: RunState) -> Iterator[Happened]:
    for number, restart in enumerate(state.restarts, 1):
        text = f"attempt {number} began"
        yield Happened(What.RESTART, step_at(points, restart.time), restart.time, text)


def _alerts(points: Mapping[str, CurvePoints], alerts: Iterable[Alert]) -> Iterator[Happened]:
    for alert in alerts:
        step = alert.step if alert.step is not None else step_at(points, alert.since)
        yield Happened(What.ALERT, step, alert.since, alert.what)


def _not_finite(points: Mapping[str, CurvePoints]) -> Iterator[Happened]:
    """Where each metric's first value of a stretch was not finite."""
    for name, each in points.items():
        starts = np.flatnonzero(each.broken & ~np.append(False, each.broken[:-1]))
        for at in starts[:MOST_MARKS].tolist():
            step = int(each.step[at])
            yield Happened(What.NOT_FINITE, step, float(each.time[at]), f"{name} was not finite")


def step_at(points: Mapping[str, CurvePoints], time: float) -> float | None:
    """The last step that was reported before a time; None if there was none."""
    longest = max(points.values(), key=len, default=None)
    if longest is None or not len(longest):
        return None
    before = longest.step[longest.time <= time]
    return float(before[-1]) if len(before) else None
