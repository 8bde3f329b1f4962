"""What the run screen shows, as one frozen value a tick: the folded state and what is derived from it.

None is unknown and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from console.formatting import is_finite
from console.sources.alerts import Alert
from console.sources.condition import Condition
from console.sources.not_finite import NotFinite
from console.sources.readings import Curve, Metric, Reading
from console.sources.step_times import StepTimes, behind, furthest_behind
from launcher.state import Rank, RunState


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank on the screen. Ages are whole seconds, so that equal views stay equal within one.

    Of a rank that has ended `util`, `cpu` and `power` are means, `memory`, `rss` and `temperature` peaks.
    """

    rank: Rank
    condition: Condition
    device: str = ""
    util: float | None = None
    cpu: float | None = None
    memory: int | None = None
    rss: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    step_age: int | None = None
    log_age: int | None = None
    sample_age: int | None = None
    lag: float | None = None
    past: tuple[Reading, ...] = ()

    @property
    def reading(self) -> Reading:
        """What it does now, on the scales of its history."""
        return reading_of(self)

    def figure(self, metric: Metric) -> float | None:
        """One of them."""
        plain = _PLAIN.get(metric)
        return reading_of(self)[metric.value] if plain is None else plain(self)

    def history(self, metric: Metric, most: int) -> list[float | None]:
        """Up to `most` of its last figures, oldest first."""
        return [reading[metric.value] for reading in self.past[-most:]] if most > 0 else []


@dataclass(frozen=True, slots=True)
class Progress:
    """How far training is, by what ranks reported: figures are rank 0's, or those of the first that reports.

    `step` is that of the slowest rank that lives, for which all must wait, and `left_pace_s` its pace; it is
    `stalled` where it has told of no step for so long that its pace says nothing of what is left. `front` is
    the step of the first. `gang` has the mean of each sampled figure over all ranks, second by second.
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
class LogView:
    """How much output there is, and where a search and a filter stand. Lines are read when shown.

    `behind` says that more lines are known to wait than `lines` counts, `given_up` how many
    searches and filters took too long to go on, `settled` that unfinished lines have got their place.
    """

    lines: int = 0
    version: int = 0
    live: int = 0
    matches: int = 0
    searched: float | None = None
    kept: int = 0
    sifted: float | None = None
    behind: bool = False
    given_up: int = 0
    settled: bool = False


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
    logs: LogView = LogView()
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


def reading_of(view: RankView) -> Reading:
    """A rank's figures as they are charted."""
    memory = view.memory / view.memory_total * 100 if view.memory is not None and view.memory_total else None
    power = view.power / view.power_limit * 100 if view.power is not None and view.power_limit else None
    return (view.util, memory, power, view.temperature, view.lag, view.cpu)


_PLAIN: Mapping[Metric, Callable[[RankView], float | None]] = {
    Metric.USE: attrgetter("util"),
    Metric.HEAT: attrgetter("temperature"),
    Metric.LAG: attrgetter("lag"),
    Metric.CPU: attrgetter("cpu"),
}
