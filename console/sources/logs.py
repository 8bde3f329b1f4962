"""A run's output for a log pane: lines by number, of all ranks or of one, and a search over all of them.

One thread calls `tick`; the screen's thread reads. What that one may read only ever grows, and is
published by a count after it is complete, so neither waits for the other.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from console.sources.cleaning import plain, shown
from console.sources.view import LogView
from launcher.runs.lines import Line, LineIndex

_POLL_BYTES = 4 << 20
_SEARCH_LINES = 20_000
_LONGEST = 1 << 14


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line to show: text that is safe for the terminal, colours included."""

    time: float
    rank: int
    stream: int
    text: str
    open: bool = False


@dataclass(slots=True)
class Search:
    """One search: what for, among which lines, and the positions found so far."""

    pattern: re.Pattern[str]
    rank: int | None
    found: array[int] = field(default_factory=lambda: array("I"))
    done: int = 0

    def after(self, position: int) -> int | None:
        """The first match after `position`, or the very first one."""
        at = bisect_right(self.found, position)
        return self.found[at] if at < len(self.found) else (self.found[0] if self.found else None)

    def before(self, position: int) -> int | None:
        """The last match before `position`, or the very last one."""
        at = bisect_left(self.found, position) - 1
        return self.found[at] if self.found else None

    def ordinal(self, position: int) -> int | None:
        """Which match, counted from 1, lies at `position`."""
        at = bisect_left(self.found, position)
        return at + 1 if at < len(self.found) and self.found[at] == position else None


class LogBook:
    """The lines of one run, as a log pane wants them."""

    def __init__(self, run: Path, attempt: int = 0) -> None:
        self._index = LineIndex(run, attempt, longest=_LONGEST)
        self._of_rank: dict[int, array[int]] = {}
        self._counted = 0
        self._version = 0
        self._open: tuple[Line, ...] = ()
        self._written: dict[int, float] = {}
        self._search: Search | None = None

    def count(self, rank: int | None = None) -> int:
        """How many whole lines there are, of one rank or of all."""
        return self._counted if rank is None else len(self._of_rank.get(rank, ()))

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The line at `position` among those of `rank`, or of all."""
        number = position if rank is None else self._of_rank[rank][position]
        return _shown(self._index.line(number))

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines, such as progress bars."""
        return [_shown(line) for line in self._open if rank is None or line.rank == rank]

    @property
    def written(self) -> Mapping[int, float]:
        """When each rank last wrote."""
        return dict(self._written)

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Start looking for a regular expression; an empty one ends the search.

        Small letters match capitals too.

        Raises:
            ValueError: the expression is none.
        """
        if not text:
            self._search = None
            return None
        try:
            pattern = re.compile(text, 0 if any(c.isupper() for c in text) else re.IGNORECASE)
        except re.error as error:
            raise ValueError(f"not a regular expression: {error}") from None
        self._search = Search(pattern, rank)
        return self._search

    def tick(self) -> bool:
        """Take in what has arrived, and search on; whether there is more to do at once."""
        grown = self._index.poll(_POLL_BYTES)
        if grown:
            self._file_new_lines()
            self._open = tuple(self._index.open_lines())
            self._written.update((line.rank, line.time) for line in self._open)
            self._version += 1
        searching = self._search_on()
        return grown or searching

    def view(self) -> LogView:
        """How much there is by now."""
        search = self._search
        return LogView(
            lines=self._counted,
            version=self._version,
            live=len(self._open),
            matches=len(search.found) if search else 0,
            searched=search.done / max(self.count(search.rank), 1) if search else None,
        )

    def close(self) -> None:
        """Close the files."""
        self._index.close()

    def _file_new_lines(self) -> None:
        total = len(self._index)
        newest: dict[int, int] = {}
        for number in range(self._counted, total):
            rank, _ = self._index.owner(number)
            self._of_rank.setdefault(rank, array("I")).append(number)
            newest[rank] = number
        for rank, number in newest.items():
            self._written[rank] = self._index.line(number).time
        self._counted = total

    def _search_on(self) -> bool:
        search = self._search
        if search is None:
            return False
        end = min(self.count(search.rank), search.done + _SEARCH_LINES)
        for position in range(search.done, end):
            if search.pattern.search(self._plain(position, search.rank)):
                search.found.append(position)
        moved = end > search.done
        search.done = end
        return moved

    def _plain(self, position: int, rank: int | None) -> str:
        number = position if rank is None else self._of_rank[rank][position]
        return plain(self._index.line(number).data)


def _shown(line: Line) -> LogLine:
    return LogLine(line.time, line.rank, line.stream, shown(line.data), line.open)
