"""What a run used over all its time: how long its GPUs had work, and the most memory it held. Pure.

Samples are thinned after an hour, and a thinned record has lost its peaks; so they are summed as they come.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from ..serialization import Amount, Index
from .events import DeviceSample, RankSample, Sampled
from .ranks import Rank

FIRST_S, MOST_GAP_S = 1.0, 10.0
"""A sample stands for the time since the last one of its host: this for the first one, and at most that."""


@dataclass(frozen=True, slots=True)
class RankUsage:
    """What one rank used, over all attempts.

    Attributes:
        rank: its number.
        gpu_s: how long the use of its GPUs was known, in seconds of a GPU: a second with two GPUs is two.
        used_s: the part of it in which a kernel ran.
        memory, memory_total: the most memory that was in use on its GPUs, in bytes, and what they had then.
        cpu_s: how long the use of its processors was known.
        core_s: the seconds of a core that it used in this time.
        rss: the most memory of its processes, in bytes.
    """

    rank: Index
    gpu_s: float = 0.0
    used_s: float = 0.0
    memory: Amount | None = None
    memory_total: Amount | None = None
    cpu_s: float = 0.0
    core_s: float = 0.0
    rss: Amount | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """What every rank of a run used until a moment."""

    until: float = 0.0
    ranks: tuple[RankUsage, ...] = ()


@dataclass(slots=True)
class _Sums:
    """A `RankUsage` that grows."""

    gpu_s: float = 0.0
    used_s: float = 0.0
    memory: int | None = None
    memory_total: int | None = None
    cpu_s: float = 0.0
    core_s: float = 0.0
    rss: int | None = None

    def take_devices(self, devices: Sequence[DeviceSample], seconds: float) -> None:
        for device in devices:
            if _is_amount(device.util):
                self.gpu_s += seconds
                self.used_s += seconds * min(device.util, 100.0) / 100
        used = [d.memory_used for d in devices if d.memory_used is not None and d.memory_used >= 0]
        if used and (self.memory is None or sum(used) > self.memory):
            self.memory = sum(used)
            totals = [d.memory_total for d in devices if d.memory_total is not None and d.memory_total >= 0]
            self.memory_total = sum(totals) if len(totals) == len(devices) else None

    def take_processes(self, sample: RankSample, seconds: float) -> None:
        if _is_amount(sample.cpu):
            self.cpu_s += seconds
            self.core_s += seconds * sample.cpu / 100
        if sample.rss is not None and sample.rss >= 0:
            self.rss = max(sample.rss, self.rss or 0)


def _is_amount(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value >= 0


@dataclass(slots=True)
class UsageSums:
    """Sums the samples of one run."""

    until: float = 0.0
    _ranks: dict[int, _Sums] = field(default_factory=dict)
    _last: dict[int, float] = field(default_factory=dict)

    def take(self, sample: Sampled, ranks: Sequence[Rank]) -> None:
        """Add a sample of one host, on which some of these `ranks` are."""
        seconds = self._seconds(sample)
        by_uuid = {device.uuid: device for device in sample.devices}
        for each in sample.ranks:
            if each.rank >= len(ranks):
                continue
            sums = self._ranks.get(each.rank)
            if sums is None:
                sums = self._ranks[each.rank] = _Sums()
            own = [by_uuid[d.uuid] for d in ranks[each.rank].devices if d.uuid in by_uuid]
            sums.take_devices(own, seconds)
            sums.take_processes(each, seconds)

    def _seconds(self, sample: Sampled) -> float:
        """For how long a sample stands; none for one that is older than the last of its host."""
        last = self._last.get(sample.agent)
        if last is not None and sample.time <= last:
            return 0.0
        self._last[sample.agent] = sample.time
        self.until = max(self.until, sample.time)
        return FIRST_S if last is None else min(sample.time - last, MOST_GAP_S)

    @property
    def usage(self) -> Usage:
        """The sums so far."""
        ranks = sorted(self._ranks.items())
        return Usage(
            self.until,
            tuple(
                RankUsage(
                    rank, round(s.gpu_s, 3), round(s.used_s, 3), s.memory, s.memory_total,
                    round(s.cpu_s, 3), round(s.core_s, 3), s.rss,
                )
                for rank, s in ranks
            ),
        )  # fmt: skip


def usage_by_rank(usage: Usage) -> Mapping[int, RankUsage]:
    """The ranks' usage by number; of a number that occurs twice, as in a spoiled file, the last."""
    return {each.rank: each for each in usage.ranks}


def idle_share(usages: Iterable[RankUsage]) -> float | None:
    """The share of the GPUs' time in which no kernel ran, 0 to 1; None if their use was never known."""
    known = [(each.gpu_s, each.used_s) for each in usages if _is_amount(each.gpu_s) and each.gpu_s > 0]
    seconds = sum(gpu_s for gpu_s, _ in known)
    used = sum(used_s for _, used_s in known if _is_amount(used_s))
    share = 1 - used / seconds if 0 < seconds < math.inf else math.nan
    return min(max(share, 0.0), 1.0) if math.isfinite(share) else None
