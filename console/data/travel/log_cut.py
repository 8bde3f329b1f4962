"""The lines of a run's output up to a moment, as a source of lines for a log pane."""

from __future__ import annotations

import math
from bisect import bisect_left

from ..logs.book import Filtered, LogBook, LogLine
from ..logs.search import Level, Search


class LogsUntil:
    """A run's rows that had come by `moment`, which may be set again; unfinished lines are left out."""

    def __init__(self, book: LogBook) -> None:
        self._book = book
        self.moment = math.inf

    @property
    def name(self) -> str:
        """The run's id."""
        return self._book.name

    def count(self, rank: int | None = None) -> int:
        """The number of rows by then."""
        return self._book.count_until(self.moment, rank)

    def total(self, rank: int | None = None) -> int:
        """The number of finished lines by then."""
        return self._book.total_until(self.moment, rank)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of the rows."""
        return self._book.line(position, rank)

    def live(self, rank: int | None = None) -> list[LogLine]:  # noqa: ARG002  a protocol's argument
        """None: nobody knows what a line that was written over looked like then."""
        return []

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Start a search of all rows; an empty text ends it."""
        return self._book.search(text, rank)

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line counted from 0."""
        return self._book.at_ordinal(ordinal, rank)

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The row of the first line at or after a time."""
        return self._book.at_time(moment, rank)

    def filtered(self, text: str, level: Level, rank: int | None = None) -> FilteredUntil | None:
        """Start to filter the rows; None if the filter is empty.

        Raises:
            ValueError: the text is not a regular expression.
        """
        filtered = self._book.filtered(text, level, rank)
        return None if filtered is None else FilteredUntil(self, filtered)

    def raw_file(self, rank: int) -> str | None:
        """The file with the exact bytes of a rank's newest output."""
        return self._book.raw_file(rank)


class FilteredUntil:
    """The rows that passed a filter and had come by a moment."""

    def __init__(self, lines: LogsUntil, filtered: Filtered) -> None:
        self._lines, self._filtered = lines, filtered
        self._rank = filtered.passed.rank

    @property
    def passed(self) -> Search:
        """The numbers of the rows that passed, among all rows."""
        return self._filtered.passed

    def count(self, rank: int | None = None) -> int:  # noqa: ARG002  a filter is for one choice of ranks
        """The number of these rows."""
        return bisect_left(self.passed.found, self._lines.count(self._rank))

    def total(self, rank: int | None = None) -> int:
        """The number of lines before filtering."""
        return self._lines.total(rank)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of the rows."""
        return self._filtered.line(position, rank)

    def live(self, rank: int | None = None) -> list[LogLine]:
        """None, as without a filter."""
        return self._lines.live(rank)

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Search the rows that passed."""
        return self._filtered.search(text, rank)

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The first passed row at or after a line."""
        return self._filtered.at_ordinal(ordinal, rank)

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The first passed row at or after a time."""
        return self._filtered.at_time(moment, rank)
