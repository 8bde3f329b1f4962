"""The rows of a log that pass a filter, numbered by themselves."""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from console.sources.cleaning import plain

if TYPE_CHECKING:
    from console.sources.log_line import LogLine
    from console.sources.logs import LogBook
    from console.sources.scan import Search


class Filtered:
    """The rows of a book that pass a filter; they grow while it is being read."""

    def __init__(self, book: LogBook, passed: Search) -> None:
        self._book, self.passed = book, passed

    def count(self, rank: int | None = None) -> int:  # noqa: ARG002  a filter is for one choice of ranks
        """How many rows have passed so far."""
        return len(self.passed.found)

    def total(self, rank: int | None = None) -> int:
        """How many lines there are to be filtered."""
        return self._book.total(rank)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of those that passed."""
        return self._book.line(self.passed.found[position], rank)

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The first row that passed, of a line or after it."""
        return bisect_left(self.passed.found, self._book.at_ordinal(ordinal, rank))

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The first row that passed and came at a time or after it."""
        return bisect_left(self.passed.found, self._book.at_time(moment, rank))

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines that would pass as they are."""
        lines = self._book.live(rank)
        return [line for line in lines if self.passed.sieve.seems_to_pass(plain(line.text.encode()))]

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Search among what passed.

        Raises:
            ValueError: the expression is none.
        """
        return self._book.search(text, rank, among=self.passed)
