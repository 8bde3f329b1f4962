"""What the run screen shows, as one frozen value a tick: the folded state and what is derived from it.

None is unknown and stays unknown.

Pure: a state and a time in, views out. None is unknown and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from launcher.state.events import DeviceSample
from launcher.state.run_state import Phase, Rank, RunState

from ...formatting import is_finite
from ..logs.book import LogState
from .figures import Curve, Figures, History, sampled_figures
from .health import Alert, Condition, NotFinite, condition_of, front_of, signs_of_life, silent_after
from .metrics import LAG, Aggregate, Metric
from .step_times import StepTimes, behind, furthest_behind


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank on the screen. Ages are whole seconds, so that equal views stay equal within one.

    Of a rank that has ended the amounts are what those of its whole life come to.
    """

    rank: Rank
    condition: Condition
    device: str = ""
    figures: Figures = field(default_factory=Figures)
    step_age: int | None = None
    log_age: int | None = None
    sample_age: int | None = None
    past: History = field(default_factory=History)

    @property
    def lag(self) -> float | None:
        """How many steps it is behind."""
        return self.figures.amounts.get(LAG)

    def amount(self, metric: Metric) -> float | None:
        """How much it has of something, in the unit of the sensor."""
        return self.figures.amounts.get(metric)

    def amount_text(self, metric: Metric) -> str:
        """The same as text, and of how much."""
        return metric.amount_text(self.figures.amounts.get(metric), self.figures.totals.get(metric))

    def figure(self, metric: Metric) -> float | None:
        """The same on the scale on which it is charted."""
        return self.figures.figure(metric)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far training is, by what ranks reported: figures are rank 0's, or those of the first that reports.

    `step` is that of the slowest rank that lives, for which all must wait, and `left_pace_s` its pace; it is
    `stalled` where it has told of no step for so long that its pace says nothing of what is left. `front` is
    the step of the first. `gang` has what each charted figure over all ranks came to, second by second.
    """

    step: int | None = None
    front: int | None = None
    total: int | None = None
    step_s: float | None = None
    left_pace_s: float | None = None
    skew: float = 1.0
    stalled: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    curves: Mapping[str, Curve] = field(default_factory=dict)
    checkpoint: int | None = None
    checkpoint_age: int | None = None
    step_times: StepTimes | None = None
    lags: Curve = ()
    gang: Mapping[Metric, Curve] = field(default_factory=dict)
    not_finite: tuple[NotFinite, ...] = ()

    @property
    def left_s(self) -> float | None:
        """Seconds to the last step, if the total and the pace are known."""
        pace = self.step_s if self.left_pace_s is None else self.left_pace_s
        if self.step is None or self.total is None or pace is None or self.stalled:
            return None
        left = max(self.total - self.step, 0) * pace
        return left if is_finite(left) else None

    @property
    def spread(self) -> bool:
        """Whether ranks are at steps so far apart that it is worth a word."""
        return bool(behind(self.step, self.front, self.skew))

    @property
    def losses(self) -> Curve:
        """The course of the loss."""
        return self.curves.get("loss", ())


@dataclass(frozen=True, slots=True)
class RunView:
    """A run at one moment.

    `max_restarts` is how many attempts may follow the first; `recalled`, the share of its past that is known.
    """

    state: RunState
    now: float
    ranks: tuple[RankView, ...] = ()
    progress: Progress = Progress()
    results: tuple[Mapping[str, Any], ...] = ()
    logs: LogState = field(default_factory=LogState)
    max_restarts: int = 0
    alerts: tuple[Alert, ...] = ()
    recalled: float = 1.0

    @property
    def straggler(self) -> tuple[int, float] | None:
        """The rank that is the most steps behind the front of the gang, and how many, if any is."""
        return furthest_behind((view.rank.rank, view.lag) for view in self.ranks if view.rank.alive)

    @property
    def size(self) -> int:
        """How many ranks there are, or were asked for while none has a place."""
        return len(self.ranks) or self.state.num_processes

    @property
    def has_devices(self) -> bool:
        """Whether any rank was given a GPU."""
        return any(v.rank.devices for v in self.ranks)

    @property
    def live(self) -> bool:
        """Whether anything can still happen."""
        return not self.state.phase.final


def together(ranks: Iterable[RankView], metrics: Iterable[Metric]) -> list[float | None]:
    """What the amounts of several ranks come to, metric by metric; None if none is known."""
    told = [view.figures.amounts for view in ranks]
    return [metric.together.of([some[metric] for some in told if metric in some]) for metric in metrics]


def fullest(ranks: Iterable[RankView], metric: Metric) -> float | None:
    """The same for one of them, whose sums are those of one rank: that which has most."""
    how = Aggregate.MAX if metric.together is Aggregate.SUM else metric.together
    return how.of([view.figures.amounts[metric] for view in ranks if metric in view.figures.amounts])


Past = Callable[[int], History]
Life = Callable[[int], Mapping[Metric, float] | None]
Ages = tuple[int | None, int | None, int | None]


def _unknown(_: int) -> None:
    return None


class RankViews:
    """Makes the views of all ranks again and again, and takes over those that are as they were.

    A gang of a thousand is looked at several times a second, and most of it has said nothing since. What has
    not changed is the same object as before, all of it or each rank.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[tuple[object, ...], RankView]] = {}
        self._made_of: tuple[RunState, int, Past] | None = None
        self._all: tuple[RankView, ...] = ()

    def of(
        self,
        state: RunState,
        *,
        now: float,
        written: Mapping[int, float],
        past: Past,
        step_s: float | None,
        limit_s: float | None = None,
        life: Life = _unknown,
        skew: float = 1.0,
    ) -> tuple[RankView, ...]:
        """Every rank of `state` at `now`; `written` says when each last wrote a line, asked once a second.

        `limit_s` is how long the gang may be without progress, if there is a limit; `life`, what the
        amounts of a rank that has ended come to; `skew`, how many steps lie between ranks that go together.
        """
        if not self._is_of(state, int(now), past):
            self._made_of = state, int(now), past
            self._all = self._views(
                state, now, written, past, step_s, silent_after(step_s, limit_s), life, skew
            )
        return self._all

    def _is_of(self, state: RunState, second: int, past: Past) -> bool:
        made = self._made_of
        return made is not None and made[0] is state and made[1:] == (second, past)

    def _views(
        self,
        state: RunState,
        now: float,
        written: Mapping[int, float],
        past: Past,
        step_s: float | None,
        silent_s: float | None,
        life: Life,
        skew: float,
    ) -> tuple[RankView, ...]:
        front = front_of(state.ranks)
        signs = signs_of_life(state.ranks, written)
        return tuple(
            self._view(
                rank,
                _devices(state, rank),
                condition_of(
                    rank,
                    now=now,
                    front=front,
                    step_s=step_s,
                    silent=silent_s is not None and sign is not None and now - sign > silent_s,
                ),
                (
                    _age(now, rank.reported_at, rank),
                    _age(now, written.get(rank.rank), rank),
                    _age(now, rank.sampled_at, rank),
                ),
                behind(rank.step, front, skew),
                past(rank.rank),
                life(rank.rank) if rank.phase.ended else None,
            )
            for rank, sign in zip(state.ranks, signs, strict=True)
        )

    def _view(
        self,
        rank: Rank,
        devices: tuple[DeviceSample, ...],
        condition: Condition,
        ages: Ages,
        lag: float | None,
        past: History,
        amounts: Mapping[Metric, float] | None,
    ) -> RankView:
        made_of = (rank, past, devices, condition, ages, lag, amounts)
        known = self._known.get(rank.rank)
        if known is None or known[0] != made_of:
            view = _rank_view(rank, _figures(rank, devices, lag, amounts), condition, ages, past)
            known = made_of, view
            self._known[rank.rank] = known
        return known[1]


def _rank_view(rank: Rank, figures: Figures, condition: Condition, ages: Ages, past: History) -> RankView:
    step_age, log_age, sample_age = ages
    return RankView(
        rank=rank,
        condition=condition,
        device=_device_label(rank),
        figures=figures,
        step_age=step_age,
        log_age=log_age,
        sample_age=sample_age,
        past=past,
    )


def _figures(
    rank: Rank,
    devices: tuple[DeviceSample, ...],
    lag: float | None,
    life: Mapping[Metric, float] | None,
) -> Figures:
    """What it does now; of a rank that has ended, what it did in all."""
    figures = sampled_figures(devices, rank.sample, lag)
    if life is None:
        return figures
    return Figures(life if lag is None else {LAG: lag, **life}, figures.totals)


def _devices(state: RunState, rank: Rank) -> tuple[DeviceSample, ...]:
    host = state.hosts.get(rank.agent)
    if host is None or not rank.devices:
        return ()
    return tuple(host.devices[d.uuid] for d in rank.devices if d.uuid in host.devices)


def _device_label(rank: Rank) -> str:
    if not rank.devices:
        return ""
    indices = ",".join(str(d.index) for d in rank.devices)
    return f"{rank.devices[0].name or 'GPU'} #{indices}"


def _age(now: float, then: float | None, rank: Rank) -> int | None:
    if then is None:
        return None
    return max(int((rank.ended or now) - then), 0)


PHASE_GLYPHS = {
    Phase.SUBMITTED: ("○", "rank-waiting"),
    Phase.WAITING: ("○", "rank-behind"),
    Phase.STARTING: ("◐", "rank-waiting"),
    Phase.RUNNING: ("●", "rank-ok"),
    Phase.STOPPING: ("◑", "rank-behind"),
    Phase.SUCCEEDED: ("✓", "rank-done"),
    Phase.FAILED: ("✗", "rank-failed"),
    Phase.STOPPED: ("■", "rank-stopped"),
    Phase.LOST: ("-", "rank-lost"),
}
