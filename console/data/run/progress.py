"""The history and progress of a run, collected as its facts are read: device strips, losses, pace.

The facts of a thousand ranks in a day are gigabytes, but the screen shows only a few hundred points of the
leading rank's figures, and the last minutes of every rank. So of the far past only the leader's reports are
read, and if these are too many, only in evenly spaced pieces.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from launcher.runs.reader import decoded
from launcher.runs.samples import Stretch, line_start, lines_of
from launcher.state import events as ev
from launcher.state.ranks import Rank
from launcher.state.run_state import RunState
from launcher.state.usage import RankUsage

from ...formatting import is_finite
from .figures import (
    Charted,
    Curve,
    GangAverages,
    Histories,
    History,
    LifeSums,
    charted,
    sampled_figures,
)
from .health import Soundness, front_of
from .metrics import Metric
from .model import Progress
from .step_times import Paces

_PACES = 32
_STALLED_S, _STALLED_PACES = 20.0, 8.0
_POINTS = 512
_CURVES = 12
STEP_TIME = "s/step"
_NO_FIGURES = ("total_steps", "checkpoint")


class Past:
    """The short histories of one run. Used by one thread; its results are frozen."""

    def __init__(self) -> None:
        self._histories = Histories()
        self._lives: dict[int, LifeSums] = {}
        self._steps, self._gang, self._sound = Paces(), GangAverages(), Soundness()
        self._paces: deque[float] = deque(maxlen=_PACES)
        self._curves: dict[str, list[float]] = {}
        self._frozen_curves: dict[str, Curve] = {}
        self._checkpoint: tuple[float, float] | None = None

    def take(self, facts: Iterable[ev.Event], state: RunState) -> None:
        """Add facts, which are already folded into `state`."""
        leader = _number(state.leader)
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
        """Clear the histories for another attempt: its ranks may be elsewhere, and it repeats steps."""
        for history in (self._lives, self._paces, self._curves, self._frozen_curves):
            history.clear()
        self._histories = Histories()
        self._steps, self._gang, self._sound = Paces(), GangAverages(), Soundness()

    def history(self, rank: int) -> History:
        """A rank's last figures."""
        return self._histories.of(rank)

    @property
    def skew(self) -> float:
        """The number of steps by which ranks may differ that are not behind."""
        return self._steps.skew

    def life(self, rank: int) -> Mapping[Metric, float] | None:
        """A rank's amounts over its life; None if it has no sample."""
        sums = self._lives.get(rank)
        return None if sums is None else sums.amounts

    @property
    def usage(self) -> Mapping[int, RankUsage]:
        """What each rank used, by the samples that were read."""
        return {rank: sums.usage(rank) for rank, sums in self._lives.items()}

    def not_finite(self, rank: int) -> Mapping[str, int | None]:
        """A rank's last figures that are not finite, each with its first such step."""
        return self._sound.of(rank)

    @property
    def step_s(self) -> float | None:
        """The median of the leader's last seconds a step."""
        return median(self._paces) if self._paces else None

    def progress(self, state: RunState, now: float) -> Progress:
        """The run's progress."""
        rank = state.leader
        if rank is None:
            return Progress(gang=self._gang.means)
        total = rank.metrics.get("total_steps")
        saved = self._checkpoint
        slowest = slowest_of(state)
        pace = self.step_s if slowest is None else self._steps.pace(slowest.rank) or self.step_s
        return Progress(
            step=rank.step if slowest is None else slowest.step,
            front=front_of(state.ranks),
            left_pace_s=pace,
            skew=self._steps.skew,
            stalled=_is_stalled(slowest, pace, now),
            total=_whole(total) or None,
            step_s=self.step_s,
            metrics={k: v for k, v in rank.metrics.items() if k not in _NO_FIGURES},
            curves=self._all_curves(),
            checkpoint=_whole(saved[0]) if saved else None,
            checkpoint_age=max(int(now - saved[1]), 0) if saved else None,
            step_times=self._steps.times(frozenset(r.rank for r in state.ranks if r.alive)),
            lags=self._steps.lags,
            gang=self._gang.means,
            not_finite=self._sound.all,
        )

    def _all_curves(self) -> dict[str, Curve]:
        for name, points in self._curves.items():
            if name not in self._frozen_curves:
                self._frozen_curves[name] = tuple(points)
        return dict(self._frozen_curves)

    def _reported(self, fact: ev.RankReported, leader: int | None) -> None:
        self._sound.reported(fact)
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
            if name not in _NO_FIGURES:
                self._plot(name, value)
        saved = fact.metrics.get("checkpoint")
        if saved is not None and (self._checkpoint is None or self._checkpoint[0] != saved):
            self._checkpoint = saved, fact.time

    def _plot(self, name: str, value: float) -> None:
        """Add a point to a curve; a curve with too many points drops every second one."""
        if name not in self._curves and len(self._curves) >= _CURVES:
            return
        points = self._curves.setdefault(name, [])
        points.append(value)
        self._frozen_curves.pop(name, None)
        if len(points) > _POINTS:
            self._curves[name] = points[::2]

    def _sampled(self, fact: ev.Sampled, state: RunState) -> None:
        by_uuid = {device.uuid: device for device in fact.devices}
        rows: list[Charted] = []
        for sample in fact.ranks:
            rank = sample.rank
            if rank >= len(state.ranks):
                continue
            own = [by_uuid[d.uuid] for d in state.ranks[rank].devices if d.uuid in by_uuid]
            figures = sampled_figures(own, sample, self._steps.lag(rank))
            row = charted(figures)
            rows.append(row)
            self._histories.take(rank, row)
            self._lives.setdefault(rank, LifeSums()).take(figures)
        self._gang.sampled(fact.time, rows)


def _number(rank: Rank | None) -> int | None:
    return None if rank is None else rank.rank


def _whole(value: float | None) -> int | None:
    return int(value) if is_finite(value) else None


def _is_stalled(rank: Rank | None, pace: float | None, now: float) -> bool:
    if rank is None or rank.reported_at is None or pace is None:
        return False
    return now - rank.reported_at > max(_STALLED_S, _STALLED_PACES * pace)


def slowest_of(state: RunState) -> Rank | None:
    """The rank with the lowest step, of the living ones that report steps; of all if none is alive."""
    reporting = [rank for rank in state.ranks if rank.step is not None]
    living = [rank for rank in reporting if rank.alive] or reporting
    return min(living, key=lambda rank: rank.step or 0, default=None)


NEAR_BYTES, PIECE_BYTES, MOST_PIECES = 32 << 20, 1 << 20, 96


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the past that is read at once: the facts of all ranks if it is `near`, else the leader's."""

    stretch: Stretch
    near: bool


def pieces(skipped: Sequence[Stretch]) -> list[Piece]:
    """The pieces to read of skipped stretches, oldest first; a piece may begin and end within a line."""
    cut = [part for stretch in skipped for part in _cut(stretch)]
    near = sum(1 for _ in _last(cut, NEAR_BYTES))
    far = cut[: len(cut) - near]
    some = [far[i * len(far) // MOST_PIECES] for i in range(MOST_PIECES)] if len(far) > MOST_PIECES else far
    return [
        *(Piece(part, near=False) for part in some),
        *(Piece(part, near=True) for part in cut[len(far) :]),
    ]


def _cut(stretch: Stretch) -> Iterator[Stretch]:
    for start in range(stretch.start, stretch.end, PIECE_BYTES):
        yield Stretch(stretch.path, start, min(start + PIECE_BYTES, stretch.end))


def _last(cut: Sequence[Stretch], limit: int) -> Iterator[Stretch]:
    for part in reversed(cut):
        limit -= part.end - part.start
        if limit < 0:
            return
        yield part


class PastReader:
    """The past of a run: new facts at once, and a long past piece by piece. Used by one thread.

    While the long past is read, `known` has only the new facts; then it is replaced by the whole past.
    """

    def __init__(self) -> None:
        self.known = Past()
        self._whole: Past | None = None
        self._new_facts: list[ev.Event] = []
        self._unread: list[Piece] = []
        self._piece_count = 0

    def take(self, facts: Iterable[ev.Event], state: RunState, skipped: Sequence[Stretch] = ()) -> None:
        """Add new facts; the first call also passes the stretches that were `skipped` before them."""
        facts = list(facts)
        self.known.take(facts, state)
        if self._whole is not None:
            self._new_facts += facts
        elif skipped and not self._piece_count:
            self._unread = pieces(skipped)[::-1]
            self._piece_count = len(self._unread)
            self._whole = Past()
            # without restarts: an old one would clear what the newer pieces have added
            self._new_facts = [fact for fact in facts if fact.telemetry]

    @property
    def recalled(self) -> float:
        """The share of the past that has been read, 0 to 1."""
        return 1.0 - len(self._unread) / self._piece_count if self._piece_count else 1.0

    def recall(self, state: RunState, enough: Callable[[], bool]) -> bool:
        """Read at least one piece of the long past, until `enough` returns True; return if more is left."""
        whole = self._whole
        if whole is None:
            return False
        while self._unread:
            whole.take(facts_of(self._unread.pop(), _number(state.leader)), state)
            if enough():
                break
        if not self._unread:
            whole.take(self._new_facts, state)
            self.known, self._whole, self._new_facts = whole, None, []
        return bool(self._unread)


def facts_of(piece: Piece, leader: int | None) -> list[ev.Event]:
    """The facts whose lines begin in a piece; none if the file was thinned meanwhile."""
    part = piece.stretch
    try:
        ends = [line_start(part.path, offset) for offset in (part.start, part.end)]
    except FileNotFoundError:
        return []
    lines: Iterable[bytes] = lines_of(Stretch(part.path, *ends))
    if not piece.near:
        mark = b'"rank":%d,' % (-1 if leader is None else leader)
        lines = (line for line in lines if mark in line and b'"rank_reported"' in line)
    return decoded(lines)
