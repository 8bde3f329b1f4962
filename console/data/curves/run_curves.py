"""The curves of a run with what happened beside them, as one value that screens share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import TYPE_CHECKING

from launcher.state.curves import STEP

if TYPE_CHECKING:  # not at run time: whoever shows a run need not import NumPy for it
    from .store import CurvePoints  # noqa: TC004

CHECKPOINT, TOTAL_STEPS = "checkpoint", "total_steps"
STEP_TIME = "s/step"
"""A curve that is not reported, but follows from the others: seconds a step."""

NOT_DRAWN = frozenset({CHECKPOINT, TOTAL_STEPS, STEP})
"""Reported numbers with a meaning of their own: no curve shows them."""


class Axis(Enum):
    """What the horizontal axis counts."""

    STEP = "step"
    TIME = "time"


class What(StrEnum):
    """What a mark says has happened."""

    CHECKPOINT = "checkpoint"
    RESTART = "restart"
    ALERT = "alert"
    NOT_FINITE = "not finite"


@dataclass(frozen=True, slots=True)
class Happened:
    """Something that happened: at which step, if that is known, when, and in a few words.

    `metric` is the only one that it concerns; empty if it concerns all.
    """

    what: What
    step: float | None
    time: float
    text: str
    metric: str = ""

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


def matching(names: Iterable[str], text: str) -> list[str]:
    """The names that contain a text, in capitals or not; all of them for an empty one."""
    sought = text.strip().casefold()
    return [name for name in names if sought in name.casefold()]


def leading(names: Iterable[str]) -> str | None:
    """The metric that tells most of a training: the loss, else one with that in its name, else the first."""
    return min((name for name in names if name not in NOT_DRAWN), key=_rank, default=None)


def _rank(name: str) -> tuple[bool, bool, bool, str]:
    return name != "loss", "loss" not in name, name == STEP_TIME, name


NO_CURVES = RunCurves()
