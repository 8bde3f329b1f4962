"""What the run screen shows, as one frozen value a tick: the folded state and what is derived from it.

Pure: facts and a time in, a view out. None is unknown and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from console.sources.condition import Condition, condition_of, median_step
from launcher.events import DeviceSample
from launcher.state import Rank, RunState

HISTORY = 120

N = TypeVar("N", int, float)


@dataclass(frozen=True, slots=True)
class RankView:
    """One rank on the screen. Ages are whole seconds, so that equal views stay equal within one."""

    rank: Rank
    condition: Condition
    device: str = ""
    util: float | None = None
    cpu: float | None = None
    memory: int | None = None
    memory_total: int | None = None
    power: float | None = None
    power_limit: float | None = None
    temperature: float | None = None
    step_age: int | None = None
    log_age: int | None = None
    sample_age: int | None = None
    history: tuple[float | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Progress:
    """How far training is, by what ranks reported: rank 0's figures, or the first that reports."""

    step: int | None = None
    total: int | None = None
    step_s: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    losses: tuple[float, ...] = ()

    @property
    def left_s(self) -> float | None:
        """Seconds to the last step, if the total and the pace are known."""
        if self.step is None or self.total is None or self.step_s is None:
            return None
        return max(self.total - self.step, 0) * self.step_s


@dataclass(frozen=True, slots=True)
class LogView:
    """How much output there is, and where a search stands. Lines themselves are read when shown."""

    lines: int = 0
    version: int = 0
    live: int = 0
    matches: int = 0
    searched: float | None = None


@dataclass(frozen=True, slots=True)
class RunView:
    """A run at one moment."""

    state: RunState
    now: float
    ranks: tuple[RankView, ...] = ()
    progress: Progress = Progress()
    results: tuple[Mapping[str, Any], ...] = ()
    logs: LogView = LogView()

    @property
    def has_devices(self) -> bool:
        """Whether any rank was given a GPU."""
        return any(v.rank.devices for v in self.ranks)

    @property
    def live(self) -> bool:
        """Whether anything can still happen."""
        return not self.state.phase.final


Past = Callable[[int], tuple[float | None, ...]]


def rank_views(
    state: RunState, *, now: float, written: Mapping[int, float], past: Past, step_s: float | None
) -> tuple[RankView, ...]:
    """Every rank of `state` at `now`; `written` says when each last wrote a line."""
    middle = median_step(state.ranks)
    return tuple(
        _rank_view(
            rank,
            _devices(state, rank),
            condition_of(rank, now=now, median_step=middle, step_s=step_s),
            ages=(
                _age(now, rank.reported_at, rank),
                _age(now, written.get(rank.rank), rank),
                _age(now, rank.sampled_at, rank),
            ),
            history=past(rank.rank),
        )
        for rank in state.ranks
    )


def _rank_view(
    rank: Rank,
    devices: Sequence[DeviceSample],
    condition: Condition,
    *,
    ages: tuple[int | None, int | None, int | None],
    history: tuple[float | None, ...],
) -> RankView:
    sample = rank.sample
    step_age, log_age, sample_age = ages
    return RankView(
        rank=rank,
        condition=condition,
        device=_device_label(rank),
        util=mean_known([d.util for d in devices]),
        cpu=sample.cpu if sample else None,
        memory=_sum_known([d.memory_used for d in devices]) if devices else (sample.rss if sample else None),
        memory_total=_sum_known([d.memory_total for d in devices]),
        power=_sum_known([d.power_w for d in devices]),
        power_limit=_sum_known([d.power_limit_w for d in devices]),
        temperature=max((d.temperature_c for d in devices if d.temperature_c is not None), default=None),
        step_age=step_age,
        log_age=log_age,
        sample_age=sample_age,
        history=history,
    )


def _devices(state: RunState, rank: Rank) -> list[DeviceSample]:
    host = state.hosts.get(rank.agent)
    if host is None:
        return []
    return [host.devices[d.uuid] for d in rank.devices if d.uuid in host.devices]


def _device_label(rank: Rank) -> str:
    if not rank.devices:
        return ""
    indices = ",".join(str(d.index) for d in rank.devices)
    return f"{rank.devices[0].name or 'GPU'} #{indices}"


def _age(now: float, then: float | None, rank: Rank) -> int | None:
    if then is None:
        return None
    return max(int((rank.ended or now) - then), 0)


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of what is known; None if nothing is."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _sum_known(values: Sequence[N | None]) -> N | None:
    known = [v for v in values if v is not None]
    return sum(known[1:], known[0]) if known else None
