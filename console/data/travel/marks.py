"""What a run's timeline marks: training, restarts, checkpoints, failures, alerts, the end. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

from launcher.state import events as ev

from ..curves.run_curves import RunCurves, What
from .course import Dated

MOST_MARKS = 512


class LandmarkKind(IntEnum):
    """What a mark is about; of several at one place, the greatest is shown."""

    CHECKPOINT = 1
    TRAINING = 2
    END = 3
    ALERT = 4
    RESTART = 5
    FAILURE = 6


@dataclass(frozen=True, slots=True)
class Landmark:
    """Something at a moment of the run."""

    moment: float
    kind: LandmarkKind


_KINDS: dict[type[ev.Event], LandmarkKind] = {
    ev.GangRestarted: LandmarkKind.RESTART,
    ev.XidLogged: LandmarkKind.ALERT,
    ev.RanksSilent: LandmarkKind.ALERT,
    ev.LimitNear: LandmarkKind.ALERT,
    ev.RunEnded: LandmarkKind.END,
}
_LOSSES = (ev.ExecutorLost, ev.ServerLost, ev.TaskLost, ev.ServiceLost)


class Landmarks:
    """The marks of facts, as these are read; of each attempt the first rank's entry and the first failure."""

    def __init__(self) -> None:
        self._found: list[Landmark] = []
        self._once: set[tuple[int, LandmarkKind]] = set()

    def take(self, facts: Iterable[Dated]) -> None:
        """Add facts."""
        for moment, fact in facts:
            kind = kind_of(fact)
            if kind in (LandmarkKind.TRAINING, LandmarkKind.FAILURE):
                if (fact.attempt, kind) in self._once:
                    continue
                self._once.add((fact.attempt, kind))
            if kind is not None and len(self._found) < MOST_MARKS:
                self._found.append(Landmark(moment, kind))

    def all(self, curves: RunCurves) -> tuple[Landmark, ...]:
        """All marks, with those of curves."""
        return (*self._found, *_of_curves(curves))


def kind_of(fact: ev.Event) -> LandmarkKind | None:
    """What a fact marks; None if nothing."""
    if isinstance(fact, ev.RankEntered):
        return LandmarkKind.TRAINING
    failed = isinstance(fact, ev.RankExited) and fact.exit_code != 0 and fact.signal != "SIGTERM"
    if failed or isinstance(fact, (ev.RankRaised, *_LOSSES)):
        return LandmarkKind.FAILURE
    return _KINDS.get(type(fact))


def _of_curves(curves: RunCurves) -> Iterator[Landmark]:
    for each in curves.happened:
        if each.what is What.CHECKPOINT:
            yield Landmark(each.time, LandmarkKind.CHECKPOINT)
        elif each.what is What.NOT_FINITE:
            yield Landmark(each.time, LandmarkKind.ALERT)
