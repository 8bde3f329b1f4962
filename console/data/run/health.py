"""How ranks are doing: their condition in a word, figures that are no longer finite, and alerts. Pure.

Progress is judged by steps, never by how busy a device looks: a wedged gang can show 100 %.

Pure but for what is remembered: the time is an argument, and what is unknown neither raises nor ends
an alert. An alert is raised when a figure has been bad for as long as its rule says, and is over when the
figure has been good for as long.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from statistics import median

from launcher.state.events import RankReported
from launcher.state.run_state import Rank, RankPhase

from ...formatting import count, is_finite
from .figures import Figures
from .metrics import TABLE, Rule
from .stacks import spans

STALE_S = 10.0
HUNG_S = 60.0
SILENT_S, SILENT_PACES = 20.0, 8.0
HUNG_STEPS = 10.0
BEHIND_STEPS = 2
BEHIND_S = 5.0
BEHIND_PACES = 3.0


class Condition(StrEnum):
    """What one rank is doing, the worst last."""

    DONE = "done"
    OK = "running"
    WAITING = "waiting"
    STOPPED = "stopped"
    STALE = "stale"
    SILENT = "silent"
    BEHIND = "behind"
    HUNG = "no step"
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


def condition_of(
    rank: Rank, *, now: float, front: int | None, step_s: float | None, silent: bool = False
) -> Condition:
    """How one rank is doing at `now`, beside the first in the gang and its usual seconds a step."""
    if rank.phase in _BY_PHASE:
        return _BY_PHASE[rank.phase]
    if rank.reported_at is not None and now - rank.reported_at > max(HUNG_S, HUNG_STEPS * (step_s or 0.0)):
        return Condition.HUNG
    if front is not None and _is_behind(rank, now, front, step_s or 0.0):
        return Condition.BEHIND
    if silent:
        return Condition.SILENT
    if rank.sampled_at is not None and now - rank.sampled_at > STALE_S:
        return Condition.STALE
    return Condition.OK


def silent_after(step_s: float | None, limit_s: float | None) -> float | None:
    """Seconds without a sign of life after which a rank is called silent: by the run's own pace and limit.

    None where neither is known: there are trainings that say nothing for hours.
    """
    paced = None if step_s is None else max(SILENT_S, SILENT_PACES * step_s)
    known = [seconds for seconds in (paced, None if limit_s is None else limit_s / 2) if seconds is not None]
    return min(known, default=None)


def signs_of_life(ranks: Sequence[Rank], written: Mapping[int, float]) -> list[float | None]:
    """When each rank showed last that it goes on, by a report or by output; None for one that has not begun.

    Often only rank 0 tells of steps: of a rank that tells none, what any of them does is taken for a sign.
    """
    told = [(rank.reported_at, written.get(rank.rank), rank.entered or rank.started) for rank in ranks]
    own = [max((time for time in times if time is not None), default=None) for times in told]
    newest = max((time for time in own if time is not None), default=None)
    return [time if rank.step is not None else newest for rank, time in zip(ranks, own, strict=True)]


def _is_behind(rank: Rank, now: float, front: int, step_s: float) -> bool:
    """Whether others have gone on for longer than reports usually take: ranks never report all at once."""
    if rank.step is None or rank.reported_at is None or front - rank.step < BEHIND_STEPS:
        return False
    return now - rank.reported_at > max(BEHIND_S, BEHIND_PACES * step_s)


def front_of(ranks: Sequence[Rank]) -> int | None:
    """The step of whoever is or was first, those that have ended included; None if none has reported one."""
    return max((r.step for r in ranks if r.step is not None), default=None)


_SHOWN_RANKS = 4


@dataclass(frozen=True, slots=True)
class NotFinite:
    """A figure that is no number any more; `step` is the first at which it was none, if steps are told."""

    name: str
    ranks: tuple[int, ...]
    step: int | None = None

    def __str__(self) -> str:
        since = "" if self.step is None else f" since step {count(self.step)}"
        return f"{self.name} is not finite{since} ({named_ranks(self.ranks)})"


def named_ranks(ranks: Sequence[int]) -> str:
    """Sorted ranks by their numbers while those are few stretches, else how many."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    named = spans(ranks)
    return f"ranks {named}" if named.count(",") < _SHOWN_RANKS else f"{len(ranks)} ranks"


class Soundness:
    """Follows what ranks report: which of their last figures are not finite."""

    def __init__(self) -> None:
        self._since: dict[int, dict[str, int | None]] = {}

    def reported(self, fact: RankReported) -> None:
        """Take in one report; what it does not tell of stays as it was."""
        for name, value in fact.metrics.items():
            if not is_finite(value):
                self._since.setdefault(fact.rank, {}).setdefault(name, fact.step)
            elif fact.rank in self._since:
                self._since[fact.rank].pop(name, None)

    def of(self, rank: int) -> Mapping[str, int | None]:
        """What is not finite of one rank, and since which step."""
        return self._since.get(rank, {})

    @property
    def all(self) -> tuple[NotFinite, ...]:
        """Each figure once, a loss before others, with all its ranks and its first step."""
        found: dict[str, list[int]] = {}
        for rank, since in self._since.items():
            for name in sorted(since, key=lambda name: "loss" not in name.lower()):
                found.setdefault(name, []).append(rank)
        return tuple(
            NotFinite(name, tuple(sorted(ranks)), self._first(name)) for name, ranks in found.items()
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
    """Something that is wrong, or was: `over` says when it ended. `rank` may be `GANG`.

    `figure` is the name of the one that is not finite, where that is what is wrong; `step`, since when.
    """

    what: str
    rank: int
    since: float
    over: float | None = None
    figure: str = ""
    step: int | None = None


def not_finite(name: str) -> Rule:
    """The rule for a reported figure, which is 1 where it is NaN or infinite: told at once, and over late."""
    return Rule(f"{name} is not finite", lambda v: v > 0, lambda v: v <= 0, 0.0, name, end_s=5.0)


SILENT = Rule("neither output nor a step for 5 min", lambda v: v >= _SILENT_S, lambda v: v < _SILENT_S, 0.0)


@dataclass(frozen=True, slots=True)
class Looked:
    """What the rules look at: one rank that is at work. Silence is in seconds, None if it never spoke.

    `not_finite` are its figures that are NaN or infinite, and since which step.
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

    def look(self, now: float, ranks: Sequence[Looked]) -> tuple[Alert, ...]:
        """The alerts at `now`: those that go on first, then those that are over, the newest first."""
        seen = set()
        for rule, rank, value in _values(ranks):
            seen.add((rule.what, rank))
            self._judge(rule, rank, value, now)
        for rule, looked in self._figures(ranks):
            seen.add((rule.what, looked.rank))
            self._judge(rule, looked.rank, float(rule.figure in looked.not_finite), now)
            self._date(rule, looked)
        for key in [key for key in self._active if key not in seen]:
            self._end(key, now)
        return self.alerts

    @property
    def alerts(self) -> tuple[Alert, ...]:
        """Those of the last look."""
        going_on = sorted(self._active.values(), key=lambda a: (a.since, a.what, a.rank))
        return (*reversed(going_on), *reversed(self._over))

    def _figures(self, ranks: Sequence[Looked]) -> Iterator[tuple[Rule, Looked]]:
        """Each figure that is not finite, or was when the alert of it was raised."""
        alarmed: dict[int, list[str]] = {}
        for alert in self._active.values():
            if alert.figure:
                alarmed.setdefault(alert.rank, []).append(alert.figure)
        for looked in ranks:
            for name in dict.fromkeys((*looked.not_finite, *alarmed.get(looked.rank, ()))):
                yield not_finite(name), looked

    def _date(self, rule: Rule, looked: Looked) -> None:
        """Say since which step; an earlier one may be found when more of the past is read."""
        alert, step = self._active.get((rule.what, looked.rank)), looked.not_finite.get(rule.figure)
        if alert is not None and step is not None and (alert.step is None or step < alert.step):
            self._active[rule.what, looked.rank] = replace(alert, step=step)

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


def _values(ranks: Sequence[Looked]) -> Iterable[tuple[Rule, int, float | None]]:
    """Every rule's figure for every rank that it concerns."""
    for metric, rule in TABLE.rules:
        figures = [looked.figures.figure(metric) for looked in ranks]
        if rule.median_from is None or _median(figures) >= rule.median_from:
            yield from ((rule, looked.rank, figure) for looked, figure in zip(ranks, figures, strict=True))
    silences = [looked.silent_s for looked in ranks if looked.silent_s is not None]
    if silences:
        yield SILENT, GANG, min(silences)


def _median(figures: Sequence[float | None]) -> float:
    known = [figure for figure in figures if figure is not None]
    return median(known) if known else -math.inf
