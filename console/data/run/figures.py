"""Figures by metric: of one rank at one moment, over its last minutes and over its life, and of all ranks.

A large gang delivers thousands of samples a second, so sums are updated as samples arrive. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.state.events import DeviceSample, RankSample
from launcher.state.usage import RankUsage

from .metrics import CPU, LAG, MEMORY, RSS, TABLE, UTIL, Aggregate, Metric, Source, is_known

_MAX, _DEVICE, _PROCESSES = Aggregate.MAX, Source.DEVICE, Source.PROCESSES

Curve = tuple[float, ...]

HISTORY = 120
"""The number of last samples that are kept."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The known figures of one rank: amounts, and their totals. An unknown one is absent."""

    amounts: Mapping[Metric, float] = field(default_factory=dict)
    totals: Mapping[Metric, float] = field(default_factory=dict)

    def figure(self, metric: Metric) -> float | None:
        """An amount on its metric's scale."""
        amount = self.amounts.get(metric)
        return metric.figure(amount, self.totals.get(metric)) if metric.whole else amount


def sampled_figures(
    devices: Sequence[DeviceSample], processes: RankSample | None, lag: float | None
) -> Figures:
    """A rank's figures from the samples of its devices and processes, and its lag in steps."""
    amounts: dict[Metric, float] = {}
    totals: dict[Metric, float] = {}
    if len(devices) == 1:
        _add_sample(TABLE.fields(_DEVICE), devices[0], amounts, totals)
    elif devices:
        _add_devices(devices, amounts, totals)
    if processes is not None:
        _add_sample(TABLE.fields(_PROCESSES), processes, amounts, totals)
    if lag is not None:
        amounts[LAG] = lag
    return Figures(amounts, totals)


def _add_sample(
    fields: Iterable[tuple[Metric, str, str]],
    sample: object,
    amounts: dict[Metric, float],
    totals: dict[Metric, float],
) -> None:
    """Add one sample without aggregation: most ranks have one device."""
    for metric, field_, whole in fields:
        amount = getattr(sample, field_)
        if is_known(amount):
            amounts[metric] = amount
        if whole and is_known(total := getattr(sample, whole)):
            totals[metric] = total


def _add_devices(
    devices: Sequence[DeviceSample], amounts: dict[Metric, float], totals: dict[Metric, float]
) -> None:
    for metric in TABLE.of(_DEVICE):
        if (amount := metric.amount(devices)) is not None:
            amounts[metric] = amount
        if (total := metric.total(devices)) is not None:
            totals[metric] = total


Charted = tuple[float | None, ...]
"""The figures of `TABLE.charted` at one moment, in its order, which only this module uses.

A plain tuple, because a large gang has a hundred thousand of them.
"""


def charted(figures: Figures) -> Charted:
    """The charted figures of one moment."""
    amounts, totals = figures.amounts, figures.totals
    return tuple(
        [
            metric.figure(amounts.get(metric), totals.get(metric)) if metric.whole else amounts.get(metric)
            for metric in TABLE.charted
        ]
    )


@dataclass(frozen=True, slots=True)
class History:
    """A rank's last figures, oldest first."""

    _rows: tuple[Charted, ...] = ()

    def __len__(self) -> int:
        return len(self._rows)

    def of(self, metric: Metric, most: int) -> list[float | None]:
        """Up to `most` of one metric's last figures."""
        column = TABLE.charted.index(metric)
        return [row[column] for row in self._rows[-most:]] if most > 0 else []


class Histories:
    """The last figures of every rank."""

    def __init__(self) -> None:
        self._rows: dict[int, deque[Charted]] = {}
        self._frozen: dict[int, History] = {}

    def take(self, rank: int, row: Charted) -> None:
        """Add one moment."""
        self._rows.setdefault(rank, deque(maxlen=HISTORY)).append(row)
        self._frozen.pop(rank, None)

    def of(self, rank: int) -> History:
        """One rank's history; the same object until a moment is added."""
        frozen = self._frozen.get(rank)
        if frozen is None:
            frozen = self._frozen[rank] = History(tuple(self._rows.get(rank, ())))
        return frozen


class LifeSums:
    """A rank's amounts over its life: the mean or the peak of each, as `Metric.life` requires."""

    def __init__(self) -> None:
        self._sums: dict[Metric, list[float]] = {}  # a sum and a count; of a peak, the peak and 1

    def take(self, figures: Figures) -> None:
        """Add one moment."""
        sums = self._sums
        for metric, amount in figures.amounts.items():
            if metric.life is None:
                continue
            known = sums.get(metric)
            if known is None:
                sums[metric] = [amount, 1]
            elif metric.life is not _MAX:
                known[0] += amount
                known[1] += 1
            elif amount > known[0]:
                known[0] = amount

    @property
    def amounts(self) -> Mapping[Metric, float]:
        """The means and peaks so far."""
        return {metric: total / count for metric, (total, count) in self._sums.items()}

    def usage(self, rank: int) -> RankUsage:
        """The same as a rank's usage; each moment stands for one second."""
        util, cpu = (self._sums.get(metric, (0.0, 0)) for metric in (UTIL, CPU))
        memory, rss = (self._sums.get(metric) for metric in (MEMORY, RSS))
        return RankUsage(
            rank,
            gpu_s=float(util[1]),
            used_s=util[0] / 100,
            memory=None if memory is None else int(memory[0]),
            cpu_s=float(cpu[1]),
            core_s=cpu[0] / 100,
            rss=None if rss is None else int(rss[0]),
        )


class GangAverages:
    """Each charted figure over all ranks, in each of the last seconds that have samples."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[list[float], list[int]]] = {}
        self._means: Mapping[Metric, Curve] | None = None
        self._peaks = frozenset(i for i, metric in enumerate(TABLE.charted) if metric.together is _MAX)

    def sampled(self, time: float, ranks: Iterable[Charted]) -> None:
        """Add one sample of one host's ranks. Hosts' samples may arrive in any order."""
        size, peaks = len(TABLE.charted), self._peaks
        sums, counts = self._seconds.setdefault(int(time), ([0.0] * size, [0] * size))
        for row in ranks:
            for column, value in enumerate(row):
                if value is None:
                    continue
                if column not in peaks:
                    sums[column] += value
                    counts[column] += 1
                elif not counts[column] or value > sums[column]:
                    sums[column], counts[column] = value, 1
        self._means = None
        if len(self._seconds) > HISTORY:
            del self._seconds[min(self._seconds)]

    @property
    def means(self) -> Mapping[Metric, Curve]:
        """Each known figure's curve, rounded, oldest first."""
        if self._means is None:
            curves = {metric: self._curve(column) for column, metric in enumerate(TABLE.charted)}
            self._means = {metric: curve for metric, curve in curves.items() if curve}
        return self._means

    def _curve(self, column: int) -> Curve:
        seconds = (self._seconds[second] for second in sorted(self._seconds))
        return tuple(
            float(round(sums[column] / counts[column])) for sums, counts in seconds if counts[column]
        )
