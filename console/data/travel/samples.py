"""The samples of a run by their moments: read in pieces, of which only those near a moment are decoded.

A run of an hour has a hundred megabytes of samples. A piece is found by the time of its first line; whole
pieces far from a moment are only skimmed: of each host and rank, the last line of each kind is read.
"""

from __future__ import annotations

import contextlib
import re
import time
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launcher.runs import files
from launcher.runs.files import NotPlain
from launcher.runs.reader import decoded
from launcher.runs.samples import THINNED, Stretch, line_start, lines_of, newest_of_each, sample_files
from launcher.state.events import RankReported

from .course import Clock, Dated

PIECE_BYTES, MOST_PIECES = 256 << 10, 4096
CACHED_BYTES = 8 << 20
_FIRST_BYTES = 4096
LONGEST_LINE = 4 << 20
_TIME = re.compile(rb'"time":(-?[0-9][0-9.eE+-]{0,30})')


@dataclass(frozen=True, slots=True)
class SamplePiece:
    """Lines that begin in a part of a file. Its facts count from `begin` on, and before the next one's."""

    part: Stretch
    begin: float

    @property
    def size(self) -> int:
        """In bytes."""
        return self.part.end - self.part.start

    @property
    def thinned(self) -> bool:
        """Whether only some of its samples are kept."""
        return self.part.path.name == THINNED


class Samples:
    """The samples of a run's folder. Used by one thread.

    Attributes:
        pieces: all of them, in the order of their moments.
        generation: counts how often they were found anew.
    """

    def __init__(
        self, run: Path, *, piece: int = PIECE_BYTES, clock: Callable[[], float] = time.time
    ) -> None:
        self._run, self._piece, self._clock = run, piece, clock
        self._sizes: dict[Path, int] = {}
        self.pieces: list[SamplePiece] = []
        self.generation = 0
        self._cache: OrderedDict[SamplePiece, list[Dated]] = OrderedDict()
        self._cached = 0
        self._reports: dict[tuple[SamplePiece, int], list[tuple[float, int]]] = {}

    def poll(self, start: float) -> None:
        """Find the pieces of what is new; all of them anew if old samples were thinned.

        `start` is the moment of the run's first fact.
        """
        try:
            found = sample_files(self._run)
        except (OSError, NotPlain):
            return
        sizes: dict[Path, int] = {}
        for path in found:
            with contextlib.suppress(OSError, NotPlain):
                sizes[path] = files.stat_file(self._run, path).st_size
        if any(path not in sizes or sizes[path] < size for path, size in self._sizes.items()):
            self._sizes, self.pieces = {}, []
            self.generation += 1
        for path, size in sizes.items():
            known = self._sizes.get(path, 0)
            if size > known:
                self._add(path, known, size, start)
        self._sizes = sizes

    def _add(self, path: Path, known: int, size: int, start: float) -> None:
        """Add a file's part; a short last piece of the same file grows."""
        last = self.pieces[-1] if self.pieces else None
        if last is not None and last.part.path == path and last.size < self._piece:
            known = last.part.start
            self.pieces.pop()
        step = max(self._piece, -(-size // MOST_PIECES))
        begin = self.pieces[-1].begin if self.pieces else start
        for offset in range(known, size, step):
            begin = max(begin, self._first_time(path, offset, begin))
            self.pieces.append(SamplePiece(Stretch(path, offset, min(offset + step, size)), begin))

    def _first_time(self, path: Path, offset: int, usual: float) -> float:
        try:
            with files.open_file(self._run, path) as file:
                file.seek(line_start(path, offset))
                found = _TIME.search(file.read(_FIRST_BYTES))
        except (OSError, NotPlain):
            return usual
        try:
            told = float(found[1]) if found else usual
        except ValueError:
            return usual
        return told if usual <= told <= self._clock() + 60 else usual

    def at(self, moment: float) -> int:
        """The number of the piece that holds a moment; -1 before the first."""
        return bisect_right(self.pieces, moment, key=lambda piece: piece.begin) - 1

    def window(self, moment: float, most_bytes: int, most_s: float) -> int:
        """The first piece of the last ones before a moment: at most so many bytes, but one at least."""
        first = last = max(self.at(moment), 0)
        size = self.pieces[last].size if self.pieces else 0
        while first > 0:
            size += self.pieces[first - 1].size
            if size > most_bytes or moment - self.pieces[first].begin > most_s:
                break
            first -= 1
        return first

    def facts(self, first: int, last: int) -> list[Dated]:
        """The facts of the pieces from one to another, with both."""
        return [fact for number in range(first, last + 1) for fact in self._facts_of(number)]

    def skim(self, first: int, last: int) -> list[Dated]:
        """The last facts of each kind of each host and rank in the pieces from one to before another."""
        lines = [
            (number, line)
            for number in range(first, last)
            for line in self._lines(self.pieces[number])
            if len(line) <= LONGEST_LINE
        ]
        kept: dict[int, list[bytes]] = {}
        for number, line in newest_of_each(lines):
            kept.setdefault(number, []).append(line)
        return [fact for number, some in kept.items() for fact in self._dated(number, some)]

    def reports(self, number: int, rank: int) -> Sequence[tuple[float, int]]:
        """The moments and steps of a rank's reports in a piece."""
        piece = self.pieces[number]
        key = piece, rank
        if key not in self._reports:
            if len(self._reports) > MOST_PIECES:
                self._reports.clear()
            mark = b'"rank":%d,' % rank
            lines = [x for x in self._lines(piece) if mark in x and b'"rank_reported"' in x]
            self._reports[key] = [
                (each.moment, each.fact.step)
                for each in self._dated(number, lines)
                if isinstance(each.fact, RankReported) and each.fact.step is not None
            ]
        return self._reports[key]

    def _end_of(self, number: int) -> float:
        """Until when facts of a piece count."""
        return self.pieces[number + 1].begin if number + 1 < len(self.pieces) else self._clock() + 60

    def _facts_of(self, number: int) -> list[Dated]:
        piece = self.pieces[number]
        if piece in self._cache:
            self._cache.move_to_end(piece)
            return self._cache[piece]
        facts = [*self._dated(number, self._lines(piece))]
        if piece.part.end < self._sizes.get(piece.part.path, 0):  # else its last line may be torn yet
            self._cached += piece.size
            self._cache[piece] = facts
        while self._cached > CACHED_BYTES:
            dropped, _ = self._cache.popitem(last=False)
            self._cached -= dropped.size
        return facts

    def _dated(self, number: int, lines: Iterable[bytes]) -> Iterable[Dated]:
        clock = Clock(self.pieces[number].begin, self._end_of(number))
        return map(clock.date, decoded(lines))

    def _lines(self, piece: SamplePiece) -> list[bytes]:
        part = piece.part
        try:
            ends = [line_start(part.path, offset) for offset in (part.start, part.end)]
        except (OSError, NotPlain):
            return []
        return lines_of(Stretch(part.path, *ends))
