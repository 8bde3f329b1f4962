"""What happened lately, kept from the facts as they pass: device strips, losses, and the pace of steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from statistics import median

from console.sources.gang_course import GangCourse
from console.sources.rank_views import sampled_reading
from console.sources.readings import HISTORY, Curve, Reading
from console.sources.step_times import Paces
from console.sources.view import Progress
from launcher import events as ev
from launcher.state import RunState

_PACES = 32
_POINTS = 512
_CURVES = 12
STEP_TIME = "s/step"
_NO_FIGURES = ("total_steps", "checkpoint")


class Past:
    """Short histories of one run. Fed by the thread that reads it; what it returns is frozen."""

    def __init__(self) -> None:
        self._readings: dict[int, deque[Reading]] = {}
        self._frozen: dict[int, tuple[Reading, ...]] = {}
        self._steps, self._gang = Paces(), GangCourse()
        self._paces: deque[float] = deque(maxlen=_PACES)
        self._curves: dict[str, list[float]] = {}
        self._drawn: dict[str, Curve] = {}
        self._checkpoint: tuple[float, float] | None = None

    def take(self, facts: Iterable[ev.Event], state: RunState) -> None:
        """Remember what `facts`, already folded into `state`, say."""
        leader = leader_of(state)
        for fact in facts:
            if isinstance(fact, ev.GangRestarted):
                self.forget()
            elif fact.attempt < state.attempt:
                continue
            elif isinstance(fact, ev.RankReported):
                self._reported(fact, leader)
            elif isinstance(fact, ev.Sampled):
                self._sampled(fact, state)

    def forget(self) -> None:
        """Another attempt begins: its ranks may be elsewhere, and its steps go on from a checkpoint."""
        for history in (self._readings, self._frozen, self._paces, self._curves, self._drawn):
            history.clear()
        self._steps, self._gang = Paces(), GangCourse()

    def readings(self, rank: int) -> tuple[Reading, ...]:
        """A rank's last figures, oldest first."""
        frozen = self._frozen.get(rank)
        if frozen is None:
            frozen = self._frozen[rank] = tuple(self._readings.get(rank, ()))
        return frozen

    @property
    def step_s(self) -> float | None:
        """The middle of the last seconds a step."""
        return median(self._paces) if self._paces else None

    def progress(self, state: RunState, now: float) -> Progress:
        """The run's progress."""
        leader = leader_of(state)
        if leader is None:
            return Progress(gang=self._gang.means)
        rank = state.ranks[leader]
        total = rank.metrics.get("total_steps")
        saved = self._checkpoint
        return Progress(
            step=rank.step,
            total=_whole(total) or None,
            step_s=self.step_s,
            metrics={k: v for k, v in rank.metrics.items() if k not in _NO_FIGURES},
            curves=self._all_curves(),
            checkpoint=_whole(saved[0]) if saved else None,
            checkpoint_age=max(int(now - saved[1]), 0) if saved else None,
            step_times=self._steps.times,
            lags=self._steps.lags,
            gang=self._gang.means,
        )

    def _all_curves(self) -> dict[str, Curve]:
        for name, points in self._curves.items():
            if name not in self._drawn:
                self._drawn[name] = tuple(points)
        return dict(self._drawn)

    def _reported(self, fact: ev.RankReported, leader: int | None) -> None:
        if fact.rank == leader:
            self._figures(fact)
        if fact.step is None:
            return
        pace = self._steps.reported(fact.rank, fact.step, fact.time)
        if pace is not None and fact.rank == leader:
            self._paces.append(pace)
            self._plot(STEP_TIME, pace)

    def _figures(self, fact: ev.RankReported) -> None:
        for name, value in fact.metrics.items():
            if name not in _NO_FIGURES and math.isfinite(value):
                self._plot(name, value)
        saved = fact.metrics.get("checkpoint")
        if saved is not None and (self._checkpoint is None or self._checkpoint[0] != saved):
            self._checkpoint = saved, fact.time

    def _plot(self, name: str, value: float) -> None:
        """Another point; every second one goes when there are many, so that the whole course stays."""
        if name not in self._curves and len(self._curves) >= _CURVES:
            return
        points = self._curves.setdefault(name, [])
        points.append(value)
        self._drawn.pop(name, None)
        if len(points) > _POINTS:
            self._curves[name] = points[::2]

    def _sampled(self, fact: ev.Sampled, state: RunState) -> None:
        told = [
            (s.rank, sampled_reading(fact, s.cpu, state.ranks[s.rank], self._steps.lag(s.rank)))
            for s in fact.ranks
            if s.rank < len(state.ranks)
        ]
        self._gang.sampled(fact.time, [reading for _, reading in told])
        for rank, reading in told:
            self._readings.setdefault(rank, deque(maxlen=HISTORY)).append(reading)
            self._frozen.pop(rank, None)


def _whole(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) else None


def leader_of(state: RunState) -> int | None:
    """The first rank that reports; its figures stand for the run's."""
    return next((r.rank for r in state.ranks if r.reported_at is not None), None)
