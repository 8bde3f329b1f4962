"""What ranks used over a whole run: the share of idle GPU time, and the most memory.

`UsageFile` and `recorded_use` read it from the run's folder; the rest is pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import RecordError
from launcher.runs import files, paths
from launcher.runs.reader import reason_of
from launcher.runs.usage import read_usage
from launcher.state.usage import RankUsage, idle_share, usage_by_rank

from ... import formatting as fig
from .metrics import CPU, MEMORY, RSS, UTIL, Metric


@dataclass(frozen=True, slots=True)
class TotalUse:
    """What some ranks used over the run. None is unknown.

    Attributes:
        idle: the share of their GPUs' time in which no kernel ran, in per cent.
        gpu_s: how long the use of the GPUs was known, in seconds of a GPU.
        memory, memory_total, memory_rank: the most GPU memory of one rank, what it had, and which it was.
        cpu: the mean use of the processors by one rank, in per cent of a core.
        rss, rss_rank: the most memory of one rank's processes, and which it was.
    """

    idle: float | None = None
    gpu_s: float = 0.0
    memory: float | None = None
    memory_total: float | None = None
    memory_rank: int | None = None
    cpu: float | None = None
    rss: float | None = None
    rss_rank: int | None = None


def use_of(usages: Iterable[RankUsage]) -> TotalUse:
    """What these ranks used; ranks that share a GPU should be given once."""
    each = list(usages)
    idle = idle_share(each)
    fullest = max((u for u in each if u.memory is not None), key=lambda u: u.memory or 0, default=None)
    largest = max((u for u in each if u.rss is not None), key=lambda u: u.rss or 0, default=None)
    cpu_s = sum(u.cpu_s for u in each if fig.is_finite(u.cpu_s))
    core_s = sum(u.core_s for u in each if fig.is_finite(u.core_s))
    return TotalUse(
        idle=None if idle is None else idle * 100,
        gpu_s=sum(u.gpu_s for u in each if fig.is_finite(u.gpu_s)),
        memory=None if fullest is None else fullest.memory,
        memory_total=None if fullest is None else fullest.memory_total,
        memory_rank=None if fullest is None else fullest.rank,
        cpu=core_s / cpu_s * 100 if cpu_s > 0 and fig.is_finite(core_s / cpu_s) else None,
        rss=None if largest is None else largest.rss,
        rss_rank=None if largest is None else largest.rank,
    )


def use_texts(use: TotalUse) -> list[str]:
    """What was used, one short text each: of GPUs if there were any, else of processors."""
    if use.idle is not None:
        work = f"GPU {fig.percent(use.idle)} idle"
    else:
        work = "" if use.cpu is None or use.memory is not None else f"CPU {fig.percent(use.cpu)} of a core"
    return [text for text in (work, peak_text(use)) if text]


def short_texts(use: TotalUse) -> list[str]:
    """The same in few words: without totals and ranks."""
    most = use.rss if use.memory is None else use.memory
    texts = [use_texts(use)[0]] if use.idle is not None or use.cpu is not None else []
    return [*texts, f"peak {fig.memory(most)}"] if most is not None else texts


def peak_text(use: TotalUse) -> str:
    """The most memory of one rank, of its GPUs if it had any, and which rank it was; empty if unknown."""
    if use.memory is not None:
        of = f" of {fig.memory(use.memory_total)}" if use.memory_total else ""
        return f"peak GPU memory {fig.memory(use.memory)}{of}, rank {use.memory_rank}"
    return "" if use.rss is None else f"peak memory {fig.memory(use.rss)}, rank {use.rss_rank}"


def life_amounts(usage: RankUsage) -> Mapping[Metric, float]:
    """The amounts over a rank's life that its usage tells."""
    use = use_of((usage,))
    found = {
        UTIL: None if use.idle is None else 100 - use.idle,
        MEMORY: use.memory,
        CPU: use.cpu,
        RSS: use.rss,
    }
    return {metric: amount for metric, amount in found.items() if amount is not None}


def recorded_use(run: Path) -> tuple[TotalUse, tuple[RankUsage, ...], str]:
    """What a run used: together, by rank, and why its record cannot be read, or an empty text."""
    try:
        usage = read_usage(run)
    except RecordError as error:
        return TotalUse(), (), str(error)
    ranks = () if usage is None else tuple(usage_by_rank(usage).values())
    return use_of(ranks), ranks, ""


class UsageFile:
    """The file of one run.

    Attributes:
        ranks: what each rank used; None if the run has no readable record of it.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._seen: tuple[int, int] | None = None
        self.ranks: Mapping[int, RankUsage] | None = None

    def look(self) -> str:
        """Read the file if it has changed; return why it cannot be read, once, or an empty text."""
        try:
            found = files.stat_file(self._run, self._run / paths.USAGE)
        except FileNotFoundError:
            return ""
        except OSError as error:
            stamp, refused = (0, 0), error.strerror or str(error)
        else:
            stamp, refused = (found.st_mtime_ns, found.st_size), ""
        if stamp == self._seen:
            return ""
        self._seen = stamp
        if refused:
            return refused
        try:
            usage = read_usage(self._run)
        except RecordError as error:
            return reason_of(error.__cause__)
        self.ranks = None if usage is None else usage_by_rank(usage)
        return ""
