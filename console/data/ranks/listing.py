"""Which ranks are listed and in which order: a filter and a column to sort by, without rows that jump.

Figures of ranks change each second, and rows that swap places under the cursor cannot be read. So

- a list that depends on figures is made again at most every `CALM_S`;
- a rank's figure counts as changed only when it has moved by more than its column's noise since it last
  counted, and ranks with equal figures are in the order of their numbers.

What a person asks for, a list that depends on states alone, and an ended run are listed at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..filtering import Filter
from ..run.metrics import Metric
from ..run.model import RankListing, RankView
from .columns import RankColumn, Value, severity
from .filter import compares

WORST = "worst"
"""The name of the order that `worst_column` makes."""

CALM_S = 5.0
"""Seconds for which a list that depends on figures stays as it is."""


@dataclass(frozen=True, slots=True)
class RankQuery:
    """What is asked for: a filter, and a column to sort by; without one the ranks are in their own order.

    `reverse` turns the column's usual direction around.
    """

    filter: Filter[RankView] = field(default_factory=Filter)
    column: RankColumn | None = None
    reverse: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether all ranks are listed, in their own order."""
        return self.column is None and not self.reverse and not self.filter.tests

    @property
    def by_number(self) -> bool:
        """Whether the ranks are in their own order."""
        return self.column is None and not self.reverse

    @property
    def jitters(self) -> bool:
        """Whether the list depends on figures."""
        return compares(self.filter) or (self.column is not None and self.column.jitters)

    @property
    def rises(self) -> bool:
        """Whether the least value comes first."""
        return (self.column is None or self.column.rising) is not self.reverse


def worst_column(metric: Metric) -> RankColumn:
    """A column to sort the worst ranks first; in coarse steps, so that small changes move no rank."""
    step = metric.top / 8 or 1.0

    def badness(view: RankView) -> tuple[int, ...]:
        return severity(view), int(metric.badness(view.figure(metric)) // step)

    return RankColumn(WORST, WORST, 0, lambda _: "", badness)


class RankLister:
    """Lists the ranks of one run again and again. Used by one thread."""

    def __init__(self) -> None:
        self._query = RankQuery()
        self._count, self._at = 0, 0.0
        self._order: list[int] = []
        self._held: dict[int, float] = {}

    def arrange(self, ranks: Sequence[RankView], *, query: RankQuery, now: float, live: bool) -> RankListing:
        """The listed ranks at `now`, in seconds. `live` is whether their figures can still change."""
        if query.is_plain:
            self._query = query
            return RankListing(query, ranks)
        if query is not self._query or not self._is_calm(ranks, now, live):
            if query.column is not self._query.column or not live:
                self._held.clear()
            self._query, self._count, self._at = query, len(ranks), now
            self._order = self._ordered(ranks, query, live=live)
        listed = tuple([ranks[at] for at in self._order])
        return RankListing(query, listed, {view.rank.rank: at for at, view in enumerate(listed)})

    def _is_calm(self, ranks: Sequence[RankView], now: float, live: bool) -> bool:
        """Whether the last list still holds."""
        same = len(ranks) == self._count and live
        return same and self._query.jitters and 0 <= now - self._at < CALM_S

    def _ordered(self, ranks: Sequence[RankView], query: RankQuery, *, live: bool) -> list[int]:
        accepts = query.filter.accepts
        order = [at for at, view in enumerate(ranks) if not query.filter.tests or accepts(view)]
        column = query.column
        if column is None:
            return order[::-1] if query.reverse else order
        values = [column.value(view) for view in ranks]
        if column.jitters and live:
            values = self._steady(column, values)
        known = [at for at in order if values[at] is not None]
        known.sort(key=values.__getitem__, reverse=not query.rises)  # type: ignore[arg-type]
        return [*known, *(at for at in order if values[at] is None)]

    def _steady(self, column: RankColumn, values: Sequence[Value]) -> list[Value]:
        """The figures, without changes that are no more than noise."""
        numbers = [value for value in values if isinstance(value, int | float)]
        front = max(numbers, default=0) if column.drifts else 0
        steady: list[Value] = []
        for at, value in enumerate(values):
            if not isinstance(value, int | float):
                self._held.pop(at, None)
                steady.append(None)
                continue
            figure = float(value - front)
            held = self._held.get(at)
            if held is None or abs(figure - held) > column.noise + column.share * abs(held):
                held = self._held[at] = figure
            steady.append(held)
        return steady
