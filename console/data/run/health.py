"""The health of ranks: their conditions, reported figures that are not finite, and alerts.

Whether a rank is silent or hung is a fact of the engine's (`launcher.diagnosis.silence`), not judged here.

An alert is raised when a figure has been bad for as long as its rule requires, and ends when the figure has
been good for as long. An unknown figure neither raises nor ends an alert. No function reads a clock.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from launcher.diagnosis.stacks import spans
from launcher.state.events import RankReported
from launcher.state.ranks import Rank, RankPhase

from ...formatting import count, is_finite
from .figures import Figures
from .metrics import TABLE, Rule

STALE_S = 10.0
BEHIND_STEPS = 2
BEHIND_S = 5.0
BEHIND_PACES = 3.0


class Condition(StrEnum):
    """A rank's condition, from the best to the worst."""

    DONE = "done"
    OK = "running"
    WAITING = "waiting"
    PAUSED = "paused"
    STOPPED = "stopped"
    STALE = "stale"
    SILENT = "silent"
    BEHIND = "behind"
    HUNG = "HUNG"
    LOST = "lost"
    FAILED = "failed"


_BY_PHASE = {
    RankPhase.PLACED: Condition.WAITING,
    RankPhase.STARTING: Condition.WAITING,
    RankPhase.SUCCEEDED: Condition.DONE,
    RankPhase.FAILED: Condition.FAILED,
    RankPhase.STOPPED: Condition.STOPPED,
    RankPhase.LOST: Condition.LOST,
}


def condition_of(rank: Rank, *, now: float, front: int | None, step_s: float | None) -> Condition:
    """A rank's condition at `now`.

    `front` is the highest step of any rank, `step_s` the usual seconds a step.
    """
    if rank.phase in _BY_PHASE:
        return _BY_PHASE[rank.phase]
    if rank.paused is not None:
        return Condition.PAUSED
    if rank.hung:
        return Condition.HUNG
    if rank.awaits_rows is not None or rank.awaits_log or rank.waits:
        return Condition.WAITING
    if front is not None and _is_behind(rank, now, front, step_s or 0.0):
        return Condition.BEHIND
    if rank.silent_since is not None:
        return Condition.SILENT
    if rank.sampled_at is not None and now - rank.sampled_at > STALE_S:
        return Condition.STALE
    return Condition.OK


def _is_behind(rank: Rank, now: float, front: int, step_s: float) -> bool:
    """Whether a rank has fewer steps than `front` for longer than reports usually take to arrive."""
    if rank.step is None or rank.reported_at is None or front - rank.step < BEHIND_STEPS:
        return False
    return now - rank.reported_at > max(BEHIND_S, BEHIND_PACES * step_s)


def front_of(ranks: Sequence[Rank]) -> int | None:
    """The highest step of any rank, also of those that have ended; None if no rank has reported a step."""
    return max((r.step for r in ranks if r.step is not None), default=None)


_SHOWN_RANKS = 4


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A reported figure that is NaN or infinite; `step` is the first step at which it was, if known."""

    name: str
    ranks: tuple[int, ...]
    step: int | None = None

    def __str__(self) -> str:
        since = "" if self.step is None else f" since step {count(self.step)}"
        return f"{self.name} is not finite{since} ({named_ranks(self.ranks)})"


def named_ranks(ranks: Sequence[int]) -> str:
    """Sorted ranks by number if they form few ranges, else their count."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    numbers = spans(ranks)
    return f"ranks {numbers}" if numbers.count(",") < _SHOWN_RANKS else f"{len(ranks)} ranks"


class Soundness:
    """Tracks which of the ranks' last reported figures are not finite."""

    def __init__(self) -> None:
        self._since: dict[int, dict[str, int | None]] = {}

    def reported(self, fact: RankReported) -> None:
        """Add one report; figures that it does not contain stay as they were."""
        for name, value in fact.metrics.items():
            if not is_finite(value):
                self._since.setdefault(fact.rank, {}).setdefault(name, fact.step)
            elif fact.rank in self._since:
                self._since[fact.rank].pop(name, None)

    def of(self, rank: int) -> Mapping[str, int | None]:
        """One rank's figures that are not finite, each with its first such step."""
        return self._since.get(rank, {})

    @property
    def all(self) -> tuple[NotFinite, ...]:
        """Each figure that is not finite, losses first, with all its ranks and its first step."""
        ranks_of: dict[str, list[int]] = {}
        for rank, since in self._since.items():
            for name in sorted(since, key=lambda name: "loss" not in name.lower()):
                ranks_of.setdefault(name, []).append(rank)
        return tuple(
            NotFinite(name, tuple(sorted(ranks)), self._first(name)) for name, ranks in ranks_of.items()
        )

    def _first(self, name: str) -> int | None:
        steps = (since.get(name) for since in self._since.values())
        return min((step for step in steps if step is not None), default=None)


REMEMBERED = 50
GANG = -1
"""The rank of an alert that concerns the whole gang."""

_SILENT_S = 300.0


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert; `over` is the time of its end, None while it goes on. `rank` may be `GANG`.

    For an alert about a figure that is not finite, `figure` is its name and `step` its first such step.
    """

    what: str
    rank: int
    since: float
    over: float | None = None
    figure: str = ""
    step: int | None = None


def not_finite(name: str) -> Rule:
    """The rule for a reported figure; its value is 1 if the figure is not finite. It alerts at once."""
    return Rule(f"{name} is not finite", lambda v: v > 0, lambda v: v <= 0, 0.0, name, end_s=5.0)


SILENT = Rule("neither output nor a step for 5 min", lambda v: v >= _SILENT_S, lambda v: v < _SILENT_S, 0.0)


@dataclass(frozen=True, slots=True)
class AlertInput:
    """One working rank's data for the rules.

    `silent_s` is the time since its last output or step, None if it had none. `not_finite` maps its figures
    that are NaN or infinite to their first such step.
    """

    rank: int
    figures: Figures
    silent_s: float | None = None
    not_finite: Mapping[str, int | None] = field(default_factory=dict)


class Alarms:
    """The alerts of one run."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, int], Alert] = {}
        self._turning: dict[tuple[str, int], float] = {}
        self._over: deque[Alert] = deque(maxlen=REMEMBERED)

    def look(self, now: float, ranks: Sequence[AlertInput]) -> tuple[Alert, ...]:
        """Apply the rules at `now`; return the alerts: active ones first, then ended ones, newest first."""
        seen = set()
        for rule, rank, value in _values(ranks):
            seen.add((rule.what, rank))
            self._judge(rule, rank, value, now)
        for rule, data in self._figures(ranks):
            seen.add((rule.what, data.rank))
            self._judge(rule, data.rank, float(rule.figure in data.not_finite), now)
            self._set_step(rule, data)
        for key in [key for key in self._active if key not in seen]:
            self._end(key, now)
        return self.alerts

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """The alerts after the last call of `look`."""
        active = sorted(self._active.values(), key=lambda a: (a.since, a.what, a.rank))
        return (*reversed(active), *reversed(self._over))

    def _figures(self, ranks: Sequence[AlertInput]) -> Iterator[tuple[Rule, AlertInput]]:
        """The rules and ranks of figures that are not finite or have an active alert."""
        alarmed: dict[int, list[str]] = {}
        for alert in self._active.values():
            if alert.figure:
                alarmed.setdefault(alert.rank, []).append(alert.figure)
        for data in ranks:
            for name in dict.fromkeys((*data.not_finite, *alarmed.get(data.rank, ()))):
                yield not_finite(name), data

    def _set_step(self, rule: Rule, data: AlertInput) -> None:
        """Set an alert's first step; reading more of the past may find an earlier one."""
        alert, step = self._active.get((rule.what, data.rank)), data.not_finite.get(rule.figure)
        if alert is not None and step is not None and (alert.step is None or step < alert.step):
            self._active[rule.what, data.rank] = replace(alert, step=step)

    def _judge(self, rule: Rule, rank: int, value: float | None, now: float) -> None:
        key = rule.what, rank
        turns = value is not None and (rule.good if key in self._active else rule.bad)(value)
        if not turns:
            self._turning.pop(key, None)
            return
        since = self._turning.setdefault(key, now)
        hold = rule.end_s if key in self._active and rule.end_s is not None else rule.hold_s
        if now - since < hold:
            return
        self._turning.pop(key)
        if key in self._active:
            self._end(key, now)
        else:
            self._active[key] = Alert(rule.what, rank, since, figure=rule.figure)

    def _end(self, key: tuple[str, int], now: float) -> None:
        self._turning.pop(key, None)
        self._over.append(replace(self._active.pop(key), over=now))


def _values(ranks: Sequence[AlertInput]) -> Iterable[tuple[Rule, int, float | None]]:
    """Every rule with each rank that it applies to and that rank's figure."""
    for metric, rule in TABLE.rules:
        figures = [data.figures.figure(metric) for data in ranks]
        if rule.median_from is None or _median(figures) >= rule.median_from:
            yield from ((rule, data.rank, figure) for data, figure in zip(ranks, figures, strict=True))
    silences = [data.silent_s for data in ranks if data.silent_s is not None]
    if silences:
        yield SILENT, GANG, min(silences)


def _median(figures: Sequence[float | None]) -> float:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else -math.inf
