"""The view of a run: the folded state and what is derived from it, as one frozen value for each update.

Pure: views are made from a state and a time. None means unknown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from launcher.state.artifacts import Artifact
from launcher.state.events import DeviceSample
from launcher.state.ranks import Rank
from launcher.state.run_state import Phase, RunState
from launcher.state.usage import RankUsage

from ...formatting import device_model, is_finite
from ..curves.run_curves import NO_CURVES, RunCurves
from ..logs.book import LogState
from .figures import Curve, Figures, History, sampled_figures
from .health import Alert, Condition, NotFinite, condition_of, front_of
from .metrics import LAG, TABLE, Aggregate, Metric, Source
from .step_times import StepTimes, behind, furthest_behind
from .usage import TotalUse, use_of


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank on the screen.

    Ages are whole seconds, so that views made within one second are equal. The amounts of a rank that has
    ended are those over its whole life.
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
        """The number of steps that it is behind."""
        return self.figures.amounts.get(LAG)

    def amount(self, metric: Metric) -> float | None:
        """A metric's amount, in the unit of the sensor."""
        return self.figures.amounts.get(metric)

    def amount_text(self, metric: Metric) -> str:
        """A metric's amount as text, with its total if it has one."""
        return metric.amount_text(self.figures.amounts.get(metric), self.figures.totals.get(metric))

    def figure(self, metric: Metric) -> float | None:
        """A metric's amount on the scale on which it is charted."""
        return self.figures.figure(metric)


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of training by the ranks' reports; `metrics` and `curves` are the leading rank's.

    `step` is the step of the slowest living rank, for which all others must wait, and `left_pace_s` its
    seconds a step; `stalled` means that it has not reported for so long that its pace predicts nothing.
    `front` is the highest step of any rank. `gang` has each charted figure over all ranks, second by second.
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
        seconds = max(self.total - self.step, 0) * pace
        return seconds if is_finite(seconds) else None

    @property
    def spread(self) -> bool:
        """Whether the ranks' steps are far enough apart to show it."""
        return bool(behind(self.step, self.front, self.skew))

    @property
    def losses(self) -> Curve:
        """The curve of the loss."""
        return self.curves.get("loss", ())


@dataclass(frozen=True, slots=True)
class RankListing:
    """The ranks that are listed, in order; `places` has the position of each by its number.

    `query` is the question that this answers; see `console.data.ranks.listing`.
    """

    query: object
    ranks: Sequence[RankView] = ()
    places: Mapping[int, int] | None = field(default=None, compare=False)

    def place(self, rank: int) -> int | None:
        """The position of a rank; None if it is not listed."""
        if self.places is not None:
            return self.places.get(rank)
        return rank if 0 <= rank < len(self.ranks) else None


@dataclass(frozen=True)
class RunView:
    """A run at one moment. What is derived from all ranks is computed once.

    `artifacts` are the files that came home, as one tree by their paths; `max_restarts` is the number of
    attempts that may follow the first; `recalled` is the share of the run's past that has been read, 0 to 1;
    `usage` is what each rank used over the whole run. `listing` is which ranks are listed in which order, if
    somebody has asked the feed for it.
    """

    state: RunState
    now: float
    ranks: tuple[RankView, ...] = ()
    progress: Progress = Progress()
    results: tuple[Mapping[str, Any], ...] = ()
    artifacts: Mapping[str, Artifact] = field(default_factory=dict)
    logs: LogState = field(default_factory=LogState)
    max_restarts: int = 0
    alerts: tuple[Alert, ...] = ()
    recalled: float = 1.0
    curves: RunCurves = NO_CURVES
    usage: Mapping[int, RankUsage] = field(default_factory=dict)
    listing: RankListing | None = None

    def prepare(self) -> None:
        """Compute now what takes long for a large gang: not in the thread that paints."""
        for name in (
            "straggler", "has_devices", "by_agent", "amounts", "conditions", "device_names", "use", "reported"
        ):  # fmt: skip
            getattr(self, name)

    @cached_property
    def straggler(self) -> tuple[int, float] | None:
        """The rank that is the most steps behind the front of the gang, and how many; None if none is."""
        return furthest_behind((view.rank.rank, view.lag) for view in self.ranks if view.rank.alive)

    @cached_property
    def has_devices(self) -> bool:
        """Whether any rank was given a GPU."""
        return any(v.rank.devices for v in self.ranks)

    @cached_property
    def by_agent(self) -> Mapping[int, Sequence[RankView]]:
        """The ranks of each agent, in the order of the ranks."""
        found: dict[int, list[RankView]] = {}
        for view in self.ranks:
            found.setdefault(view.rank.agent, []).append(view)
        return found

    @cached_property
    def amounts(self) -> Mapping[Metric, float | None]:
        """Each metric of GPUs, aggregated over all ranks."""
        return together(one_a_gpu(self.ranks), TABLE.shown(Source.DEVICE))

    @cached_property
    def use(self) -> TotalUse:
        """What all ranks used over the run, each GPU counted once."""
        return self.use_by(self.ranks)

    def use_by(self, ranks: Sequence[RankView]) -> TotalUse:
        """What some ranks used over the run, each GPU counted once."""
        return use_of([self.usage[v.rank.rank] for v in one_a_gpu(ranks) if v.rank.rank in self.usage])

    @cached_property
    def conditions(self) -> Mapping[Condition, int]:
        """How many ranks are in each condition."""
        return Counter(view.condition for view in self.ranks)

    @cached_property
    def reported(self) -> frozenset[str]:
        """The names of the figures that ranks report."""
        return frozenset().union(*{id(keys): keys for keys in (v.rank.metrics for v in self.ranks)}.values())

    @cached_property
    def device_names(self) -> Mapping[str, int]:
        """How many GPUs of each model all ranks have."""
        return Counter(model for _, _, model in gpus_of(self.ranks))

    @property
    def size(self) -> int:
        """The number of ranks; before they are placed, the requested number."""
        return len(self.ranks) or self.state.num_processes

    @property
    def live(self) -> bool:
        """Whether the run has not ended."""
        return not self.state.phase.final


def gpus_of(ranks: Iterable[RankView]) -> set[tuple[str, str, str]]:
    """The GPUs that some ranks have, each once although ranks may share it: host, UUID and model."""
    found = ((view.rank.host, device) for view in ranks for device in view.rank.devices)
    return {(host, device.uuid, device_model(device.name) or "GPU") for host, device in found}


def one_a_gpu(ranks: Sequence[RankView]) -> Iterable[RankView]:
    """The ranks, but of those that share their GPUs only the first: sums count each GPU once."""
    first: dict[object, RankView] = {}
    for view in ranks:
        uuids = tuple([device.uuid for device in view.rank.devices])
        first.setdefault((view.rank.host, uuids) if uuids else view.rank.rank, view)
    return first.values()


def together(ranks: Iterable[RankView], metrics: Iterable[Metric]) -> dict[Metric, float | None]:
    """Each metric's amounts aggregated over several ranks; None if no rank's amount is known."""
    amounts = [view.figures.amounts for view in ranks]
    return {m: m.together.of([some[m] for some in amounts if m in some]) for m in metrics}


def fullest(ranks: Iterable[RankView], metric: Metric) -> float | None:
    """A metric's amount aggregated over several ranks, but the greatest instead of a sum."""
    how = Aggregate.MAX if metric.together is Aggregate.SUM else metric.together
    return how.of([view.figures.amounts[metric] for view in ranks if metric in view.figures.amounts])


Past = Callable[[int], History]
Life = Callable[[int], Mapping[Metric, float] | None]
Ages = tuple[int | None, int | None, int | None]


def _unknown(_: int) -> None:
    return None


class RankViews:
    """Makes the views of all ranks, and reuses the objects of unchanged ones.

    The views of a thousand ranks are made several times a second, and most ranks have not changed in between.
    """

    def __init__(self) -> None:
        self._last: dict[int, tuple[tuple[object, ...], RankView]] = {}
        self._inputs: tuple[RunState, int, Past] | None = None
        self._all: tuple[RankView, ...] = ()

    def of(
        self,
        state: RunState,
        *,
        now: float,
        written: Mapping[int, float],
        past: Past,
        step_s: float | None,
        life: Life = _unknown,
        skew: float = 1.0,
    ) -> tuple[RankView, ...]:
        """The views of all ranks of `state` at `now`; made again if the state, the second or `past` changed.

        `written` maps ranks to the time of their last line; `past` returns a rank's last figures, `life` the
        amounts over the life of a rank that has ended. `step_s` is the usual seconds a step,
        `skew` the steps by which ranks may differ that are not behind.
        """
        if not self._is_current(state, int(now), past):
            self._inputs = state, int(now), past
            self._all = self._views(state, now, written, past, step_s, life, skew)
        return self._all

    def _is_current(self, state: RunState, second: int, past: Past) -> bool:
        inputs = self._inputs
        return inputs is not None and inputs[0] is state and inputs[1:] == (second, past)

    def _views(
        self,
        state: RunState,
        now: float,
        written: Mapping[int, float],
        past: Past,
        step_s: float | None,
        life: Life,
        skew: float,
    ) -> tuple[RankView, ...]:
        front = front_of(state.ranks)
        return tuple(
            self._view(
                rank,
                _devices(state, rank),
                condition_of(rank, now=now, front=front, step_s=step_s),
                (
                    _age(now, rank.reported_at, rank),
                    _age(now, written.get(rank.rank), rank),
                    _age(now, rank.sampled_at, rank),
                ),
                behind(rank.step, front, skew),
                past(rank.rank),
                life(rank.rank) if rank.phase.ended else None,
            )
            for rank in state.ranks
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
        inputs = (rank, past, devices, condition, ages, lag, amounts)
        last = self._last.get(rank.rank)
        if last is None or last[0] != inputs:
            view = _rank_view(rank, _figures(rank, devices, lag, amounts), condition, ages, past)
            last = inputs, view
            self._last[rank.rank] = last
        return last[1]


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
    """A rank's current figures; with `life`, of a rank that has ended, those over its life."""
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
    return f"{device_model(rank.devices[0].name) or 'GPU'} #{indices}"


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
