"""A run's output for a log pane: lines by number, of all ranks or of one, with a filter and a search.

One thread calls `tick`; the screen's thread reads. What that one may read only ever grows, and is
published by a count after it is complete, so neither waits for the other.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from console.sources.attempts import attempt_mark
from console.sources.cleaning import plain, shown
from console.sources.scan import Search, passing
from console.sources.sieve import Level, filter_of, sieve_of
from console.sources.view import LogView
from launcher.runs import paths
from launcher.runs.last_lines import last_lines
from launcher.runs.lines import Line, LineIndex
from launcher.runs.reader import read_restarts

_POLL_BYTES = 16 << 20
_TURN_S, _LONGEST_TURN_S = 0.05, 0.4
_LONGEST = 1 << 14


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line to show: text that is safe for the terminal, colours included.

    A `mark` is no output: it says where another attempt begins.
    """

    time: float
    rank: int
    stream: int
    text: str
    open: bool = False
    mark: bool = False


_GAP = LogLine(0.0, -1, paths.STDOUT, "── what comes before is still being counted ──", mark=True)


@dataclass(frozen=True, slots=True)
class _Extent:
    """What may be read: so many lines, and where attempts begin among them."""

    lines: int = 0
    begins: tuple[tuple[int, int], ...] = ()
    of_rank: dict[int, int] = field(default_factory=dict)


class LogBook:
    """The rows of one run, as a log pane wants them: its lines, and a mark where another attempt begins."""

    def __init__(
        self, run: Path, attempt: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._clock = run, clock
        self._index = LineIndex(run, attempt, longest=_LONGEST)
        self._extent = _Extent()
        self._marks: dict[int, LogLine] = {}
        self._begins_of: dict[tuple[int, int], int] = {}
        self._version = 0
        self._behind = self._asked = False
        self._turn = _TURN_S
        self._opening, self._ahead = attempt is None, False
        self._open: tuple[Line, ...] = ()
        self._search: Search | None = None
        self._filter: Search | None = None

    @property
    def name(self) -> str:
        """The run's id."""
        return self._run.name

    def count(self, rank: int | None = None) -> int:
        """How many rows there are, of one rank or of all."""
        extent = self._extent
        if rank is None:
            return extent.lines + len(extent.begins)
        lines = self._lines_of(rank, extent)
        return lines + len(extent.begins) if lines else 0

    def total(self, rank: int | None = None) -> int:
        """How many whole lines there are, of one rank or of all."""
        return self._extent.lines if rank is None else self._lines_of(rank, self._extent)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The row at `position` among those of `rank`, or of all."""
        attempt, number = self._at(position, rank)
        return self._marks[attempt] if attempt is not None else shown_line(self._index.line(number))

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line, counted from 0 among those of `rank`, or of all."""
        return self._row_of(self._line_at(ordinal, rank), rank)

    def _row_of(self, number: int, rank: int | None) -> int:
        """The row of a line, or of the rank's next one where it is another's."""
        marks = sum(first <= number for _, first in self._extent.begins)
        return marks + (number if rank is None else self._index.before(rank, number))

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The row of the first line that came at a time, in seconds since the epoch, or after it."""
        number = min(self._index.at_time(moment), max(self._extent.lines - 1, 0))
        return self._row_of(number, rank)

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines; while all are still being counted, after the last whole ones."""
        lines = [shown_line(line) for line in self._open if rank is None or line.rank == rank]
        return [_GAP, *lines] if self._ahead else lines

    @property
    def written(self) -> Mapping[int, float]:
        """When each rank last wrote."""
        return self._index.written

    def search(self, text: str, rank: int | None = None, *, among: Search | None = None) -> Search | None:
        """Start looking for a regular expression; an empty one ends the search.

        Small letters match capitals too. With a filter `among`, positions are those of its rows.

        Raises:
            ValueError: the expression is none.
        """
        sieve = sieve_of(text)
        self._asked = True
        self._search = Search(sieve.pattern, rank, sieve, among) if text else None
        return self._search

    def filtered(self, text: str, level: Level, rank: int | None = None) -> Filtered | None:
        """Start to find the lines that pass a filter; None if all do.

        Raises:
            ValueError: the text is no regular expression.
        """
        sieve = filter_of(text, level)
        self._search, self._asked = None, True
        nothing = sieve.pattern is None and sieve.level is Level.ALL
        pattern = None if sieve.invert else sieve.pattern
        self._filter = None if nothing else Search(pattern, rank, sieve)
        return Filtered(self, self._filter) if self._filter is not None else None

    def raw_file(self, rank: int) -> str | None:
        """The file that has a rank's newest output, byte for byte: what it printed, or else its errors."""
        for attempt in reversed(paths.attempts(self._run)):
            for stream in (paths.STDOUT, paths.STDERR):
                path = paths.log_file(self._run, attempt, rank, stream)
                if path.is_file() and path.stat().st_size:
                    return str(path)
        return None

    def tick(self) -> bool:
        """Take in what has arrived, and look on, for a moment; whether there is more to do at once."""
        self._asked = False
        # a folder that is just opened is told of seldom, or drawing what scrolls by would take the time
        begun, behind = self._clock(), self._behind
        grown = self._read_on(begun + (self._turn if self._behind else _TURN_S))
        self._turn = min(self._turn * 2, _LONGEST_TURN_S) if self._behind else _TURN_S
        if grown or behind:
            self._publish()
        until = max(self._clock(), begun + _TURN_S)
        filtering = self._look_on(self._filter, until)
        return self._look_on(self._search, until) or filtering or grown

    def _read_on(self, until: float) -> bool:
        grown = self._behind = False
        while self._index.poll(_POLL_BYTES):
            grown = True
            if self._asked or self._clock() >= until:
                self._behind = True
                break
        return grown

    def view(self) -> LogView:
        """How much there is by now."""
        search, kept = self._search, self._filter
        return LogView(
            lines=self._extent.lines,
            version=self._version,
            live=len(self._open),
            matches=len(search.found) if search else 0,
            searched=self._share(search),
            kept=len(kept.found) if kept else 0,
            sifted=self._share(kept),
            behind=self._behind,
        )

    def close(self) -> None:
        """Close the files."""
        self._index.close()

    def _share(self, search: Search | None) -> float | None:
        if search is None:
            return None
        return search.done / self._extent.lines if self._extent.lines else 1.0

    def _publish(self) -> None:
        begins = self._index.begins
        for attempt, _ in begins[len(self._extent.begins) :]:
            restart = read_restarts(self._run).get(attempt)
            time, text = (restart.time if restart else 0.0), attempt_mark(attempt, restart)
            self._marks[attempt] = LogLine(time, -1, paths.STDOUT, text, mark=True)
        ahead = last_lines(self._run, longest=_LONGEST) if self._behind and self._opening else None
        self._opening = self._opening and self._behind
        self._open = tuple(self._index.open_lines() if ahead is None else ahead)
        self._ahead = ahead is not None
        self._extent = _Extent(len(self._index), begins)
        self._version += 1

    def _lines_of(self, rank: int, extent: _Extent) -> int:
        if rank not in extent.of_rank:
            extent.of_rank[rank] = self._index.before(rank, extent.lines)
        return extent.of_rank[rank]

    def _at(self, position: int, rank: int | None) -> tuple[int | None, int]:
        """Which attempt's mark stands at a row, or else which line."""
        begins = self._extent.begins
        for before, (attempt, first) in enumerate(begins):
            row = before + (first if rank is None else self._begin_of(rank, attempt, first))
            if position <= row:
                if position == row:
                    return attempt, first
                return None, self._line_at(position - before, rank)
        return None, self._line_at(position - len(begins), rank)

    def _line_at(self, ordinal: int, rank: int | None) -> int:
        return ordinal if rank is None else self._index.number(rank, ordinal)

    def _begin_of(self, rank: int, attempt: int, first: int) -> int:
        """How many lines of a rank stand before an attempt, which never changes."""
        if (rank, attempt) not in self._begins_of:
            self._begins_of[rank, attempt] = self._index.before(rank, first)
        return self._begins_of[rank, attempt]

    def _look_on(self, search: Search | None, until: float) -> bool:
        """Look through more lines, at least some, for a moment; whether there were any."""
        if search is None:
            return False
        lines = self._extent.lines if search.among is None else search.among.done
        moved = search.done < lines
        while search.done < lines:
            _, _, end = self._index.stretch(search.done)
            end = min(end, lines)
            for number in passing(self._index, search.done, end, search.sieve, search.rank):
                search.add(self._row_of(number, search.rank))
            search.done = end
            if self._clock() >= until:
                break
        return moved


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
        return [line for line in lines if self.passed.sieve.passes(plain(line.text.encode()))]

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Search among what passed.

        Raises:
            ValueError: the expression is none.
        """
        return self._book.search(text, rank, among=self.passed)


def shown_line(line: Line) -> LogLine:
    """A line as it may be shown."""
    return LogLine(line.time, line.rank, line.stream, shown(line.data), line.open)
