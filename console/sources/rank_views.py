"""Each rank as it is seen now: what is known of it, and how that looks beside the others.

Pure: a state and a time in, views out. None is unknown and stays unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from console.sources.condition import Condition, condition_of, front_of, signs_of_life, silent_after
from console.sources.readings import Reading
from console.sources.step_times import behind
from console.sources.usage import Usage
from console.sources.view import RankView
from launcher.events import DeviceSample, Sampled
from launcher.state import Rank, RunState

N = TypeVar("N", int, float)
Past = Callable[[int], tuple[Reading, ...]]
Used = Callable[[int], Usage | None]
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
        used: Used = _unknown,
        skew: float = 1.0,
    ) -> tuple[RankView, ...]:
        """Every rank of `state` at `now`; `written` says when each last wrote a line, asked once a second.

        `limit_s` is how long the gang may be without progress, if there is a limit; `used`, what a rank that
        has ended used in all; `skew`, how many steps lie between ranks that go together.
        """
        if not self._is_of(state, int(now), past):
            self._made_of = state, int(now), past
            self._all = self._views(
                state, now, written, past, step_s, silent_after(step_s, limit_s), used, skew
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
        used: Used,
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
                used(rank.rank) if rank.phase.ended else None,
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
        past: tuple[Reading, ...],
        usage: Usage | None,
    ) -> RankView:
        made_of = (rank, past, devices, condition, ages, lag, usage)
        known = self._known.get(rank.rank)
        if known is None or known[0] != made_of:
            view = _rank_view(rank, devices, condition, ages, lag, past)
            known = made_of, view if usage is None else replace(view, **_summed(usage))
            self._known[rank.rank] = known
        return known[1]


def _rank_view(
    rank: Rank,
    devices: Sequence[DeviceSample],
    condition: Condition,
    ages: Ages,
    lag: float | None,
    past: tuple[Reading, ...],
) -> RankView:
    sample = rank.sample
    step_age, log_age, sample_age = ages
    return RankView(
        rank=rank,
        condition=condition,
        device=_device_label(rank),
        util=mean_known([d.util for d in devices]),
        cpu=sample.cpu if sample else None,
        rss=sample.rss if sample else None,
        memory=_sum_known([d.memory_used for d in devices]) if devices else (sample.rss if sample else None),
        memory_total=_sum_known([d.memory_total for d in devices]),
        power=_sum_known([d.power_w for d in devices]),
        power_limit=_sum_known([d.power_limit_w for d in devices]),
        temperature=max((d.temperature_c for d in devices if d.temperature_c is not None), default=None),
        step_age=step_age,
        log_age=log_age,
        sample_age=sample_age,
        lag=lag,
        past=past,
    )


def _summed(usage: Usage) -> dict[str, Any]:
    return {name: getattr(usage, name) for name in ("util", "cpu", "power", "memory", "rss", "temperature")}


def sampled_reading(fact: Sampled, cpu: float | None, rank: Rank, lag: float | None) -> Reading:
    """What a sample says of one rank."""
    uuids = {d.uuid for d in rank.devices}
    devices = [d for d in fact.devices if d.uuid in uuids]
    used, total = _sum_known([d.memory_used for d in devices]), _sum_known([d.memory_total for d in devices])
    drawn, limit = _sum_known([d.power_w for d in devices]), _sum_known([d.power_limit_w for d in devices])
    return (
        mean_known([d.util for d in devices]),
        used / total * 100 if used is not None and total else None,
        drawn / limit * 100 if drawn is not None and limit else None,
        max((d.temperature_c for d in devices if d.temperature_c is not None), default=None),
        lag,
        cpu,
    )


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


def mean_known(values: Sequence[float | None]) -> float | None:
    """The mean of what is known; None if nothing is."""
    known = [v for v in values if v is not None]
    return sum(known) / len(known) if known else None


def _sum_known(values: Sequence[N | None]) -> N | None:
    known = [v for v in values if v is not None]
    return sum(known[1:], known[0]) if known else None
