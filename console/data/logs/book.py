"""A run's output for a log pane: lines by number, of all ranks or of one, with a filter and a search.

One thread calls `tick`; the screen's thread reads. The readable data only grows, and is published by a count
after it is complete, so neither thread waits for the other.
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
from launcher.runs.logs.text import attempt_mark, plain, shown
from launcher.runs.reader import read_restarts
from launcher.state.events import PartUnreadable

from .search import Level, Search, TooSlowError, filter_of, line_filter_of, passing


@dataclass(frozen=True, slots=True)
class LogLine:
    """One line to show: text that is safe for the terminal, with its colours.

    `open` means unfinished. A `mark` is not output: it shows where another attempt begins.
    """

    time: float
    rank: int
    stream: int
    text: str
    open: bool = False
    mark: bool = False


def shown_line(line: Line) -> LogLine:
    """A line of the index as a line to show."""
    return LogLine(line.time, line.rank, line.stream, shown(line.data), line.open)


_POLL_BYTES = 16 << 20
_TICK_S, _MAX_TICK_S = 0.05, 0.4
_MAX_LINE = 1 << 14


_GAP = LogLine(0.0, -1, paths.STDOUT, "── what comes before is still being counted ──", mark=True)


@dataclass(frozen=True, slots=True)
class _Extent:
    """The readable part: the number of lines, and the extra rows before some lines as (key, line number).

    A key of 0 or more is an attempt's mark; a negative one is an unfinished line that was given its place.
    """

    lines: int = 0
    begins: tuple[tuple[int, int], ...] = ()
    of_rank: dict[int, int] = field(default_factory=dict)


class LogBook:
    """The rows of one run for a log pane: its lines, and a mark where another attempt begins."""

    def __init__(
        self, run: Path, attempt: int | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._run, self._clock = run, clock
        self._index = LineIndex(run, attempt, longest=_MAX_LINE)
        self._extent = _Extent()
        self._marks: dict[int, LogLine] = {}
        self._begins_of: dict[tuple[int, int], int] = {}
        self._version = self._given_up = 0
        self._is_behind = self._interrupted = self._ended = self._settled = False
        self._tick_s = _TICK_S
        self._may_show_tail, self._shows_tail = attempt is None, False
        self._open: tuple[Line, ...] = ()
        self._placed: dict[Line, int] = {}
        self._search: Search | None = None
        self._filter: Search | None = None

    @property
    def name(self) -> str:
        """The run's id."""
        return self._run.name

    def count(self, rank: int | None = None) -> int:
        """The number of rows, of one rank or of all."""
        extent = self._extent
        if rank is None:
            return extent.lines + len(extent.begins)
        lines, marks = self._lines_of(rank, extent), self._marks_of(rank, extent)
        return lines + len(marks) if lines or any(key < 0 for key, _ in marks) else 0

    def total(self, rank: int | None = None) -> int:
        """The number of finished lines, of one rank or of all."""
        return self._extent.lines if rank is None else self._lines_of(rank, self._extent)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The row at `position` among those of `rank`, or of all."""
        key, number = self._at(position, rank)
        return self._marks[key] if key is not None else shown_line(self._index.line(number))

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line, counted from 0 among those of `rank`, or of all."""
        return self._row_of(self._line_at(ordinal, rank), rank)

    def _row_of(self, number: int, rank: int | None) -> int:
        """The row of a line; if it is another rank's, the row of this rank's next line."""
        marks = sum(first <= number for _, first in self._marks_of(rank, self._extent))
        return marks + (number if rank is None else self._index.before(rank, number))

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The row of the first line at or after a time, in seconds since the epoch."""
        number = min(self._index.at_time(moment), max(self._extent.lines - 1, 0))
        return self._row_of(number, rank)

    def count_until(self, moment: float, rank: int | None = None) -> int:
        """How many rows had come by a time, in seconds since the epoch."""
        extent = self._extent
        number = min(self._index.at_time(math.nextafter(moment, math.inf)), extent.lines)
        marks = sum(
            first <= number and self._marks[key].time <= moment for key, first in self._marks_of(rank, extent)
        )
        lines = number if rank is None else self._index.before(rank, number)
        return min(lines + marks, self.count(rank))

    def total_until(self, moment: float, rank: int | None = None) -> int:
        """How many finished lines had come by a time."""
        number = min(self._index.at_time(math.nextafter(moment, math.inf)), self._extent.lines)
        return number if rank is None else self._index.before(rank, number)

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines; while a long log is first indexed, a note and the log's last lines."""
        lines = [shown_line(line) for line in self._open if rank is None or line.rank == rank]
        return [_GAP, *lines] if self._shows_tail else lines

    @property
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """The parts of the output that cannot be read."""
        return self._index.unreadable

    @property
    def written(self) -> Mapping[int, float]:
        """The time at which each rank last wrote."""
        return self._index.written

    def search(self, text: str, rank: int | None = None, *, among: Search | None = None) -> Search | None:
        """Start a search for a regular expression; an empty one ends the search.

        An expression without capitals ignores case. With a filter `among`, positions are those of its rows.

        Raises:
            ValueError: the text is not a regular expression.
        """
        line_filter = line_filter_of(text)
        self._interrupted = True
        _drop(self._search)
        self._search = Search(line_filter.pattern, rank, line_filter, among) if text else None
        return self._search

    def filtered(self, text: str, level: Level, rank: int | None = None) -> Filtered | None:
        """Start to filter the lines; None if the filter is empty.

        Raises:
            ValueError: the text is not a regular expression.
        """
        line_filter = filter_of(text, level)
        _drop(self._search, self._filter)
        self._search, self._interrupted = None, True
        is_empty = line_filter.pattern is None and line_filter.level is Level.ALL
        pattern = None if line_filter.invert else line_filter.pattern
        self._filter = None if is_empty else Search(pattern, rank, line_filter)
        return Filtered(self, self._filter) if self._filter is not None else None

    def raw_file(self, rank: int) -> str | None:
        """The file with the exact bytes of a rank's newest output: standard output, else standard error."""
        for attempt in reversed(paths.attempts(self._run)):
            for stream in (paths.STDOUT, paths.STDERR):
                path = paths.log_file(self._run, attempt, rank, stream)
                with contextlib.suppress(OSError):
                    if files.stat_file(self._run, path).st_size:
                        return str(path)
        return None

    def end(self) -> None:
        """Note that the run has ended: unfinished lines get their places among the others."""
        self._ended = True

    def tick(self) -> bool:
        """Read new output, search and filter, for a short time; return whether more is left to do."""
        self._interrupted = False
        # while a long log is first read, ticks become longer: frequent updates would cost time for drawing
        begun, behind = self._clock(), self._is_behind
        grown = self._read_on(begun + (self._tick_s if self._is_behind else _TICK_S))
        self._tick_s = min(self._tick_s * 2, _MAX_TICK_S) if self._is_behind else _TICK_S
        if grown or behind or (self._ended and not self._settled):
            self._publish()
        until = max(self._clock(), begun + _TICK_S)
        filtering = self._advance(self._filter, until)
        return self._advance(self._search, until) or filtering or grown

    def _read_on(self, until: float) -> bool:
        grown = self._is_behind = False
        while self._index.poll(_POLL_BYTES):
            grown = True
            if self._interrupted or self._clock() >= until:
                self._is_behind = True
                break
        return grown

    def view(self) -> LogState:
        """The current state."""
        search, line_filter = self._search, self._filter
        return LogState(
            lines=self._extent.lines,
            version=self._version,
            live=len(self._open),
            matches=len(search.found) if search else 0,
            searched=self._share(search),
            passed=len(line_filter.found) if line_filter else 0,
            filtered=self._share(line_filter),
            behind=self._is_behind,
            given_up=self._given_up,
            settled=self._settled,
        )

    def abandon(self) -> None:
        """Stop the search and the filter."""
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
                time, reason = (restart.time, restart.reason) if restart else (0.0, "")
                text = attempt_mark(attempt, reason)
                self._marks[attempt] = LogLine(time, -1, paths.STDOUT, text, mark=True)
        tail = last_lines(self._run, longest=_MAX_LINE) if self._is_behind and self._may_show_tail else None
        self._may_show_tail = self._may_show_tail and self._is_behind
        self._open = tuple(self._index.open_lines() if tail is None else tail)
        self._shows_tail = tail is not None
        if self._ended and not self._settled and not self._is_behind:
            self._settle()
        self._open = tuple(line for line in self._open if line not in self._placed)
        placed = ((-1 - n, first) for n, first in enumerate(self._placed.values()))
        rows = sorted((*begins, *placed), key=lambda row: row[1])
        self._extent = _Extent(len(self._index), tuple(rows))
        self._version += 1

    def _settle(self) -> None:
        """Give the unfinished lines that others follow their places; the rows after them move by one."""
        self._settled = True
        for line in self._open:
            first = self._index.at_time(math.nextafter(line.time, math.inf))
            if first < len(self._index):
                self._make_room(line.rank, first)
                self._marks[-1 - len(self._placed)] = replace(shown_line(line), open=False)
                self._placed[line] = first

    def _make_room(self, rank: int, first: int) -> None:
        """Shift the positions of found rows after the new row of a rank that is inserted before a line."""
        for search in filter(None, (self._search, self._filter)):
            if search.among is None and search.rank in (None, rank):
                moved = sum(search.rank in (None, line.rank) for line in self._placed)
                search.make_room(self._row_of(first, search.rank) + moved)

    def _lines_of(self, rank: int, extent: _Extent) -> int:
        if rank not in extent.of_rank:
            extent.of_rank[rank] = self._index.before(rank, extent.lines)
        return extent.of_rank[rank]

    def _at(self, position: int, rank: int | None) -> tuple[int | None, int]:
        """The key of the extra row at a position; or None, and the number of the line there."""
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
        """The extra rows of all ranks, or those that concern one rank."""
        if rank is None:
            return extent.begins
        return tuple(row for row in extent.begins if self._marks[row[0]].rank in (-1, rank))

    def _begin_of(self, rank: int, key: int, first: int) -> int:
        """The number of a rank's lines before an extra row; cached, because it never changes."""
        if (rank, key) not in self._begins_of:
            self._begins_of[rank, key] = self._index.before(rank, first)
        return self._begins_of[rank, key]

    def _advance(self, search: Search | None, until: float) -> bool:
        """Search at least one more stretch of lines, until a time; return whether there was any."""
        if search is None or search.slow:
            return False
        lines = self._extent.lines if search.among is None else search.among.done
        moved = search.done < lines
        while search.done < lines:
            _, _, end = self._index.stretch(search.done)
            end = min(end, lines)
            search.begin()
            try:
                numbers = passing(self._index, search.done, end, search.filter, search.rank)
            except TooSlowError:
                self._given_up += search.slow
                return False
            for number in numbers:
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
    """The rows of a book that pass a filter; their number grows while the book is filtered."""

    def __init__(self, book: LogBook, passed: Search) -> None:
        self._book, self.passed = book, passed

    def count(self, rank: int | None = None) -> int:  # noqa: ARG002  a filter is for one choice of ranks
        """The number of rows that have passed so far."""
        return len(self.passed.found)

    def total(self, rank: int | None = None) -> int:
        """The number of lines before filtering."""
        return self._book.total(rank)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The row at `position` among those that passed."""
        return self._book.line(self.passed.found[position], rank)

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The first passed row at or after a line."""
        return bisect_left(self.passed.found, self._book.at_ordinal(ordinal, rank))

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The first passed row at or after a time."""
        return bisect_left(self.passed.found, self._book.at_time(moment, rank))

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines that would pass as they are."""
        lines = self._book.live(rank)
        return [line for line in lines if self.passed.filter.passes_at_once(plain(line.text.encode()))]

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Search the rows that passed.

        Raises:
            ValueError: the text is not a regular expression.
        """
        return self._book.search(text, rank, among=self.passed)


_PIECE = 2000


class Rows(Protocol):
    """Rows by number, of all ranks or of one."""

    def count(self, rank: int | None = None) -> int:
        """The number of rows."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """The row at `position`."""


def copy_rows(
    rows: Rows,
    rank: int | None,
    file: IO[str],
    *,
    stop: threading.Event,
    progress: Callable[[float], None],
    times: bool = False,
) -> int | None:
    """Write the current rows to a file; return their number, or None if stopped before the end.

    Args:
        rows: the rows.
        rank: the only rank to write; None for all, then each line begins with its rank.
        file: where to write.
        stop: set to stop early.
        progress: called now and then with the share that is written, 0 to 1.
        times: whether lines begin with their time.

    Raises:
        OSError: the file cannot be written.
    """
    count = rows.count(rank)
    for start in range(0, count, _PIECE):
        if stop.is_set():
            return None
        lines = (rows.line(i, rank) for i in range(start, min(start + _PIECE, count)))
        file.write("".join(_text(line, merged=rank is None, times=times) for line in lines))
        progress(start / count)
    return count


def new_file(path: Path, *, replace: bool) -> IO[str]:
    """Open a new file for writing.

    Raises:
        FileExistsError: the file exists, and `replace` is false.
        OSError: the file cannot be created.
    """
    return open(path, "w" if replace else "x", encoding="utf-8", errors="replace")


def _text(line: LogLine, *, merged: bool, times: bool) -> str:
    body = plain(line.text.encode("utf-8", "replace"))
    if line.mark:
        return f"{body}\n"
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(line.time)) if times else ""
    when = f"{stamp}.{int(line.time * 1000) % 1000:03d} " if times else ""
    return f"{when}{f'r{line.rank} | ' if merged else ''}{body}\n"


@dataclass(frozen=True, slots=True)
class LogState:
    """The amount of output, and the progress of the search and the filter.

    Attributes:
        lines: the finished lines that are indexed; `behind` means that more wait to be indexed.
        live: the unfinished lines; `settled` means that they have got their places after the end.
        matches, searched: the search's matches, and the share of lines searched; None without a search.
        passed, filtered: the lines that passed the filter, and the share filtered; None without a filter.
        given_up: the number of searches and filters that took too long.
    """

    lines: int = 0
    version: int = 0
    live: int = 0
    matches: int = 0
    searched: float | None = None
    passed: int = 0
    filtered: float | None = None
    behind: bool = False
    given_up: int = 0
    settled: bool = False
