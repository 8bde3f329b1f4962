"""Figures by metric: of one rank at one moment, over its last minutes, over its life, and of all ranks.

Every sample of a large gang passes here once a second, so sums are kept as samples come. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.state.events import DeviceSample, RankSample

from .metrics import LAG, TABLE, Aggregate, Metric, Source, is_known

_MAX, _DEVICE, _PROCESSES = Aggregate.MAX, Source.DEVICE, Source.PROCESSES

Curve = tuple[float, ...]

HISTORY = 120
"""How many of the last samples are kept."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is known of one rank: amounts, and how much there can be of them. What is unknown is missing."""

    amounts: Mapping[Metric, float] = field(default_factory=dict)
    totals: Mapping[Metric, float] = field(default_factory=dict)

    def figure(self, metric: Metric) -> float | None:
        """An amount on its metric's scale."""
        amount = self.amounts.get(metric)
        return metric.figure(amount, self.totals.get(metric)) if metric.whole else amount


def sampled_figures(
    devices: Sequence[DeviceSample], processes: RankSample | None, lag: float | None
) -> Figures:
    """What samples say of a rank: those of its devices and of its processes, and how far it is behind."""
    amounts: dict[Metric, float] = {}
    totals: dict[Metric, float] = {}
    if len(devices) == 1:
        _take_in(TABLE.fields(_DEVICE), devices[0], amounts, totals)
    elif devices:
        _take_in_all(devices, amounts, totals)
    if processes is not None:
        _take_in(TABLE.fields(_PROCESSES), processes, amounts, totals)
    if lag is not None:
        amounts[LAG] = lag
    return Figures(amounts, totals)


def _take_in(
    fields: Iterable[tuple[Metric, str, str]],
    sample: object,
    amounts: dict[Metric, float],
    totals: dict[Metric, float],
) -> None:
    """One sample: nothing is to be summed up, and most ranks have one device."""
    for metric, field_, whole in fields:
        amount = getattr(sample, field_)
        if is_known(amount):
            amounts[metric] = amount
        if whole and is_known(total := getattr(sample, whole)):
            totals[metric] = total


def _take_in_all(
    devices: Sequence[DeviceSample], amounts: dict[Metric, float], totals: dict[Metric, float]
) -> None:
    for metric in TABLE.of(_DEVICE):
        if (amount := metric.amount(devices)) is not None:
            amounts[metric] = amount
        if (total := metric.total(devices)) is not None:
            totals[metric] = total


Charted = tuple[float | None, ...]
"""The figures of `TABLE.charted` at one moment: a plain tuple, of which a large gang has a hundred thousand.

Only this module knows the order.
"""


def charted(figures: Figures) -> Charted:
    """What is kept of one moment for charts."""
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
        at = TABLE.charted.index(metric)
        return [row[at] for row in self._rows[-most:]] if most > 0 else []


class Histories:
    """The last figures of every rank."""

    def __init__(self) -> None:
        self._rows: dict[int, deque[Charted]] = {}
        self._frozen: dict[int, History] = {}

    def take(self, rank: int, row: Charted) -> None:
        """Remember one moment."""
        self._rows.setdefault(rank, deque(maxlen=HISTORY)).append(row)
        self._frozen.pop(rank, None)

    def of(self, rank: int) -> History:
        """One rank's; the same object as long as there is nothing new."""
        frozen = self._frozen.get(rank)
        if frozen is None:
            frozen = self._frozen[rank] = History(tuple(self._rows.get(rank, ())))
        return frozen


class LifeSums:
    """What a rank used since it began: means of how it worked, peaks of what fills up."""

    def __init__(self) -> None:
        self._kept: dict[Metric, list[float]] = {}

    def take(self, figures: Figures) -> None:
        """Take in one moment."""
        kept = self._kept
        for metric, amount in figures.amounts.items():
            if metric.life is None:
                continue
            known = kept.get(metric)
            if known is None:
                kept[metric] = [amount, 1]
            elif metric.life is not _MAX:
                known[0] += amount
                known[1] += 1
            elif amount > known[0]:
                known[0] = amount

    @property
    def amounts(self) -> Mapping[Metric, float]:
        """What they come to."""
        return {metric: kept / count for metric, (kept, count) in self._kept.items()}


class GangAverages:
    """What each figure over all ranks came to in each of the last seconds that have samples."""

    def __init__(self) -> None:
        self._seconds: dict[int, tuple[list[float], list[int]]] = {}
        self._means: Mapping[Metric, Curve] | None = None
        self._peaks = frozenset(at for at, metric in enumerate(TABLE.charted) if metric.together is _MAX)

    def sampled(self, time: float, ranks: Iterable[Charted]) -> None:
        """Take in what the ranks of one host did at a time. Hosts may tell of it in any order."""
        size, peaks = len(TABLE.charted), self._peaks
        sums, counts = self._seconds.setdefault(int(time), ([0.0] * size, [0] * size))
        for row in ranks:
            for at, value in enumerate(row):
                if value is None:
                    continue
                if at not in peaks:
                    sums[at] += value
                    counts[at] += 1
                elif not counts[at] or value > sums[at]:
                    sums[at], counts[at] = value, 1
        self._means = None
        if len(self._seconds) > HISTORY:
            del self._seconds[min(self._seconds)]

    @property
    def means(self) -> Mapping[Metric, Curve]:
        """Each known figure's course, rounded, oldest first."""
        if self._means is None:
            drawn = {metric: self._course(at) for at, metric in enumerate(TABLE.charted)}
            self._means = {metric: course for metric, course in drawn.items() if course}
        return self._means

    def _course(self, at: int) -> Curve:
        told = (self._seconds[second] for second in sorted(self._seconds))
        return tuple(float(round(sums[at] / counts[at])) for sums, counts in told if counts[at])
