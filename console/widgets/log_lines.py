"""What a log pane shows: rows of output, whoever has them."""

from __future__ import annotations

from typing import Protocol

from console.messages import Level, LogLine, Search


class Lines(Protocol):
    """Where lines come from. Counts only grow; a line never changes once it is counted."""

    def count(self, rank: int | None = None) -> int:
        """How many rows there are: whole lines, and marks where attempts begin."""

    def total(self, rank: int | None = None) -> int:
        """How many whole lines there are, a filter apart."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of the rows."""

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines."""

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Start a search; an empty text ends it."""

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line counted from 0, or of the next one that there is."""

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The row of the first line that came at a time, in seconds since the epoch, or after it."""


class Kept(Lines, Protocol):
    """Those rows that passed a filter."""

    @property
    def passed(self) -> Search:
        """The rows among all of them."""


class Book(Lines, Protocol):
    """All rows of a run."""

    @property
    def name(self) -> str:
        """What the run is called."""

    def filtered(self, text: str, level: Level, rank: int | None = None) -> Kept | None:
        """Start to find what passes a filter; None if all rows do.

        Raises:
            ValueError: the text is no regular expression.
        """

    def raw_file(self, rank: int) -> str | None:
        """The file that has a rank's newest output, byte for byte."""
