"""A run's output for a log pane: lines by number, of all ranks or of one, with a filter and a search.

One thread calls `tick`; the screen's thread reads. What that one may read only ever grows, and is
published by a count after it is complete, so neither waits for the other.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Protocol

from launcher.runs import files, paths
from launcher.runs.logs.line_index import Line, LineIndex
from launcher.runs.logs.tail import last_lines
from launcher.runs.reader import read_restarts
from launcher.state.events import GangRestarted, PartUnreadable

from ...sanitize import plain, shown
from .search import Level, Search, TooSlowError, filter_of, line_filter_of, passing


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


def shown_line(line: Line) -> LogLine:
    """A line as it may be shown."""
    return LogLine(line.time, line.rank, line.stream, shown(line.data), line.open)


_POLL_BYTES = 16 << 20
_TURN_S, _LONGEST_TURN_S = 0.05, 0.4
_LONGEST = 1 << 14


_GAP = LogLine(0.0, -1, paths.STDOUT, "── what comes before is still being counted ──", mark=True)


@dataclass(frozen=True, slots=True)
class _Extent:
    """What may be read: so many lines, and the rows that stand before some of them, by their keys."""

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
        self._version = self._given_up = 0
        self._behind = self._asked = self._ended = self._settled = False
        self._turn = _TURN_S
        self._opening, self._ahead = attempt is None, False
        self._open: tuple[Line, ...] = ()
        self._left: dict[Line, int] = {}
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
        lines, marks = self._lines_of(rank, extent), self._marks_of(rank, extent)
        return lines + len(marks) if lines or any(key < 0 for key, _ in marks) else 0

    def total(self, rank: int | None = None) -> int:
        """How many whole lines there are, of one rank or of all."""
        return self._extent.lines if rank is None else self._lines_of(rank, self._extent)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The row at `position` among those of `rank`, or of all."""
        key, number = self._at(position, rank)
        return self._marks[key] if key is not None else shown_line(self._index.line(number))

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line, counted from 0 among those of `rank`, or of all."""
        return self._row_of(self._line_at(ordinal, rank), rank)

    def _row_of(self, number: int, rank: int | None) -> int:
        """The row of a line, or of the rank's next one where it is another's."""
        marks = sum(first <= number for _, first in self._marks_of(rank, self._extent))
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
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """What of the output cannot be read."""
        return self._index.unreadable

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
        sieve = line_filter_of(text)
        self._asked = True
        _drop(self._search)
        self._search = Search(sieve.pattern, rank, sieve, among) if text else None
        return self._search

    def filtered(self, text: str, level: Level, rank: int | None = None) -> Filtered | None:
        """Start to find the lines that pass a filter; None if all do.

        Raises:
            ValueError: the text is no regular expression.
        """
        sieve = filter_of(text, level)
        _drop(self._search, self._filter)
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
                with contextlib.suppress(OSError):
                    if files.stat_file(self._run, path).st_size:
                        return str(path)
        return None

    def end(self) -> None:
        """The run has ended: what is unfinished stands from now on where it was written."""
        self._ended = True

    def tick(self) -> bool:
        """Take in what has arrived, and look on, for a moment; whether there is more to do at once."""
        self._asked = False
        # a folder that is just opened is told of seldom, or drawing what scrolls by would take the time
        begun, behind = self._clock(), self._behind
        grown = self._read_on(begun + (self._turn if self._behind else _TURN_S))
        self._turn = min(self._turn * 2, _LONGEST_TURN_S) if self._behind else _TURN_S
        if grown or behind or (self._ended and not self._settled):
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

    def view(self) -> LogState:
        """How much there is by now."""
        search, kept = self._search, self._filter
        return LogState(
            lines=self._extent.lines,
            version=self._version,
            live=len(self._open),
            matches=len(search.found) if search else 0,
            searched=self._share(search),
            kept=len(kept.found) if kept else 0,
            sifted=self._share(kept),
            behind=self._behind,
            given_up=self._given_up,
            settled=self._settled,
        )

    def abandon(self) -> None:
        """Look for nothing more."""
        _drop(self._search, self._filter)

    def close(self) -> None:
        """Close the files."""
        self._index.close()

    def _share(self, search: Search | None) -> float | None:
        if search is None:
            return None
        return search.done / self._extent.lines if self._extent.lines else 1.0

    def _publish(self) -> None:
        begins = self._index.begins
        for attempt, _ in begins:
            if attempt not in self._marks:
                restart = read_restarts(self._run).get(attempt)
                time, text = (restart.time if restart else 0.0), attempt_mark(attempt, restart)
                self._marks[attempt] = LogLine(time, -1, paths.STDOUT, text, mark=True)
        ahead = last_lines(self._run, longest=_LONGEST) if self._behind and self._opening else None
        self._opening = self._opening and self._behind
        self._open = tuple(self._index.open_lines() if ahead is None else ahead)
        self._ahead = ahead is not None
        if self._ended and not self._settled and not self._behind:
            self._settle()
        self._open = tuple(line for line in self._open if line not in self._left)
        left = ((-1 - n, first) for n, first in enumerate(self._left.values()))
        rows = sorted((*begins, *left), key=lambda row: row[1])
        self._extent = _Extent(len(self._index), tuple(rows))
        self._version += 1

    def _settle(self) -> None:
        """Find where the unfinished lines stand that others came after; those behind them move by one."""
        self._settled = True
        for line in self._open:
            first = self._index.at_time(math.nextafter(line.time, math.inf))
            if first < len(self._index):
                self._make_room(line.rank, first)
                self._marks[-1 - len(self._left)] = replace(shown_line(line), open=False)
                self._left[line] = first

    def _make_room(self, rank: int, first: int) -> None:
        """A row of a rank comes in before a line: what was found behind it stands one further on."""
        for search in filter(None, (self._search, self._filter)):
            if search.among is None and search.rank in (None, rank):
                moved = sum(search.rank in (None, line.rank) for line in self._left)
                search.make_room(self._row_of(first, search.rank) + moved)

    def _lines_of(self, rank: int, extent: _Extent) -> int:
        if rank not in extent.of_rank:
            extent.of_rank[rank] = self._index.before(rank, extent.lines)
        return extent.of_rank[rank]

    def _at(self, position: int, rank: int | None) -> tuple[int | None, int]:
        """The key of what stands at a row beside the lines, or else which line."""
        begins = self._marks_of(rank, self._extent)
        for before, (key, first) in enumerate(begins):
            row = before + (first if rank is None else self._begin_of(rank, key, first))
            if position <= row:
                if position == row:
                    return key, first
                return None, self._line_at(position - before, rank)
        return None, self._line_at(position - len(begins), rank)

    def _line_at(self, ordinal: int, rank: int | None) -> int:
        return ordinal if rank is None else self._index.number(rank, ordinal)

    def _marks_of(self, rank: int | None, extent: _Extent) -> tuple[tuple[int, int], ...]:
        """The rows beside the lines: of all ranks, or those that concern one."""
        if rank is None:
            return extent.begins
        return tuple(row for row in extent.begins if self._marks[row[0]].rank in (-1, rank))

    def _begin_of(self, rank: int, key: int, first: int) -> int:
        """How many lines of a rank stand before an attempt or an unfinished line, which never changes."""
        if (rank, key) not in self._begins_of:
            self._begins_of[rank, key] = self._index.before(rank, first)
        return self._begins_of[rank, key]

    def _look_on(self, search: Search | None, until: float) -> bool:
        """Look through more lines, at least some, for a moment; whether there were any."""
        if search is None or search.slow:
            return False
        lines = self._extent.lines if search.among is None else search.among.done
        moved = search.done < lines
        while search.done < lines:
            _, _, end = self._index.stretch(search.done)
            end = min(end, lines)
            search.begin()
            try:
                found = passing(self._index, search.done, end, search.sieve, search.rank)
            except TooSlowError:
                self._given_up += search.slow
                return False
            for number in found:
                search.add(self._row_of(number, search.rank))
            search.done = end
            if self._clock() >= until:
                break
        return moved


def _drop(*searches: Search | None) -> None:
    for search in searches:
        if search is not None:
            search.drop()


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


_PIECE = 2000


class Rows(Protocol):
    """What can be written: rows by number, of all ranks or of one."""

    def count(self, rank: int | None = None) -> int:
        """How many there are."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of them."""


def copy_rows(
    rows: Rows,
    rank: int | None,
    file: IO[str],
    *,
    stop: threading.Event,
    told: Callable[[float], None],
    times: bool = False,
) -> int | None:
    """Write all rows that there are now; how many, or None if it was stopped before the end.

    Args:
        rank: the only rank whose rows are wanted; without one, each line says its rank.
        told: is told what share is written, now and then.
        times: whether lines say when they came.

    Raises:
        OSError: the file took no more.
    """
    count = rows.count(rank)
    for start in range(0, count, _PIECE):
        if stop.is_set():
            return None
        lines = (rows.line(i, rank) for i in range(start, min(start + _PIECE, count)))
        file.write("".join(_text(line, merged=rank is None, times=times) for line in lines))
        told(start / count)
    return count


def new_file(path: Path, *, replace: bool) -> IO[str]:
    """A file to write to.

    Raises:
        FileExistsError: there is one, which is not to be replaced.
        OSError: it cannot be made.
    """
    return open(path, "w" if replace else "x", encoding="utf-8", errors="replace")


def _text(line: LogLine, *, merged: bool, times: bool) -> str:
    body = plain(line.text.encode("utf-8", "replace"))
    if line.mark:
        return f"{body}\n"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(line.time)) if times else ""
    when = f"{stamp}.{int(line.time * 1000) % 1000:03d} " if times else ""
    return f"{when}{f'r{line.rank} | ' if merged else ''}{body}\n"


def attempt_mark(attempt: int, restart: GangRestarted | None) -> str:
    """The line before an attempt's output, with the reason for the restart where it is known."""
    reason = plain(restart.reason.encode(errors="replace")) if restart else ""
    return f"── attempt {attempt}{f' ({reason})' if reason else ''} ──"


@dataclass(frozen=True, slots=True)
class LogState:
    """How much output there is, and where a search and a filter stand. Lines are read when shown.

    `behind` says that more lines are known to wait than `lines` counts, `given_up` how many
    searches and filters took too long to go on, `settled` that unfinished lines have got their place.
    """

    lines: int = 0
    version: int = 0
    live: int = 0
    matches: int = 0
    searched: float | None = None
    kept: int = 0
    sifted: float | None = None
    behind: bool = False
    given_up: int = 0
    settled: bool = False
