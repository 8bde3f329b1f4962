"""What happened lately, kept from the facts as they pass: device strips, losses, and the pace of steps."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from statistics import median

from console.sources.view import HISTORY, Progress
from launcher import events as ev
from launcher.state import RunState

_PACES = 32
_LOSSES = 512


class Past:
    """Short histories of one run. Fed by the thread that reads it; what it returns is frozen."""

    def __init__(self) -> None:
        self._strips: dict[int, deque[float | None]] = {}
        self._frozen: dict[int, tuple[float | None, ...]] = {}
        self._steps: dict[int, tuple[int, float]] = {}
        self._paces: deque[float] = deque(maxlen=_PACES)
        self._losses: list[float] = []

    def take(self, facts: Iterable[ev.Event], state: RunState) -> None:
        """Remember what `facts`, already folded into `state`, say."""
        leader = _leader(state)
        for fact in facts:
            if isinstance(fact, ev.RankReported):
                self._reported(fact, leader)
            elif isinstance(fact, ev.Sampled):
                self._sampled(fact, state)

    def strip(self, rank: int) -> tuple[float | None, ...]:
        """A rank's last utilisations, oldest first."""
        return self._frozen.get(rank, ())

    @property
    def step_s(self) -> float | None:
        """The middle of the last seconds a step."""
        return median(self._paces) if self._paces else None

    def progress(self, state: RunState) -> Progress:
        """The run's progress."""
        leader = _leader(state)
        if leader is None:
            return Progress()
        rank = state.ranks[leader]
        total = rank.metrics.get("total_steps")
        metrics = {k: v for k, v in rank.metrics.items() if k != "total_steps"}
        return Progress(
            step=rank.step,
            total=int(total) if total else None,
            step_s=self.step_s,
            metrics=metrics,
            losses=tuple(self._losses),
        )

    def _reported(self, fact: ev.RankReported, leader: int | None) -> None:
        if fact.rank == leader and "loss" in fact.metrics:
            self._losses.append(fact.metrics["loss"])
            if len(self._losses) > _LOSSES:
                self._losses = self._losses[::2]
        if fact.step is None:
            return
        step, time = self._steps.get(fact.rank, (fact.step, fact.time))
        if fact.step > step and fact.time > time and fact.rank == leader:
            self._paces.append((fact.time - time) / (fact.step - step))
        self._steps[fact.rank] = fact.step, fact.time

    def _sampled(self, fact: ev.Sampled, state: RunState) -> None:
        for sample in fact.ranks:
            if sample.rank >= len(state.ranks):
                continue
            rank = state.ranks[sample.rank]
            strip = self._strips.setdefault(sample.rank, deque(maxlen=HISTORY))
            strip.append(_then(fact, sample, bool(rank.devices), {d.uuid for d in rank.devices}))
            self._frozen[sample.rank] = tuple(strip)


def _then(fact: ev.Sampled, sample: ev.RankSample, on_device: bool, uuids: set[str]) -> float | None:
    if not on_device:
        return sample.cpu
    known = [d.util for d in fact.devices if d.uuid in uuids and d.util is not None]
    return sum(known) / len(known) if known else None


def _leader(state: RunState) -> int | None:
    return next((r.rank for r in state.ranks if r.reported_at is not None), None)
