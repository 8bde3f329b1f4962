"""Print the output of a run's ranks as prefixed lines, live or from the record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ...spec.modes import recorded_traits
from ...spec.places import host_labels
from ...state.events import PartUnreadable
from ...state.run_state import RunState
from .. import paths
from ..reader import read_restarts
from .line_index import Line, LineIndex
from .text import attempt_mark, plain, shown

_HOST = 24

Write = Callable[..., None]
Prefix = Callable[[Line], str]
NO_COLOURS: Mapping[int, bool] = {}


class Printer:
    """Prints ranks' output as prefixed lines.

    A line without a prefix, on standard error, marks the begin of another attempt.

    Args:
        folder: the run folder.
        world_size: the number of ranks.
        ranks: those whose output is printed.
        grep: only lines in which this is found.
        write: prints text of some lines; `err` says whether it is a rank's standard error.
        attempt: the only attempt to print; by default all of them.
        hosts: the host of each rank, called at the first line of an attempt; a rank without one gets none in
            its prefix.
        coloured: the streams on which a rank's colours may stay.
        last: print at most this many of the lines that came at once, the last ones.
        prefix: makes the prefix of a line; by default its rank and host.
    """

    def __init__(
        self,
        folder: Path,
        world_size: int,
        ranks: frozenset[int],
        *,
        grep: re.Pattern[str] | None = None,
        write: Write,
        attempt: int | None = None,
        hosts: Callable[[], Mapping[int, str]] = dict,
        coloured: Mapping[int, bool] = NO_COLOURS,
        last: int | None = None,
        prefix: Prefix | None = None,
    ) -> None:
        self._hosts = hosts
        self._prefixes: dict[int, str] = {}
        self._folder = folder
        self._index = LineIndex(folder, attempt)
        self._begun = 0
        self._width = len(str(world_size - 1))
        self._ranks = ranks
        self._grep = grep
        self._write = write
        self._printed = 0
        self._coloured, self._last = coloured, last
        self._prefix = prefix or self._rank_and_host

    def advance(self) -> None:
        """Print new lines. Without ranks to print, the output is not read."""
        while self._ranks and self._index.poll():
            for attempt, first in self._index.begins[self._begun :]:
                self._print_up_to(first)
                restart = read_restarts(self._folder).get(attempt)
                self._write(attempt_mark(attempt, restart.reason if restart else ""), err=True)
                self._begun += 1
                self._prefixes.clear()
            self._print_up_to(len(self._index))

    def _print_up_to(self, end: int) -> None:
        first = self._printed if self._last is None else max(self._printed, end - self._last)
        new = range(first, end)
        self._print(self._index.line(i) for i in new if self._index.owner(i)[0] in self._ranks)
        self._printed = end

    @property
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """The parts of the output that cannot be read."""
        return self._index.unreadable

    def finish(self) -> None:
        """Print the remaining lines, unfinished ones too, and close the files."""
        self.advance()
        self._print(line for line in self._index.open_lines() if line.rank in self._ranks)
        self._index.close()

    def _print(self, lines: Iterable[Line]) -> None:
        batches: dict[int, list[str]] = {paths.STDOUT: [], paths.STDERR: []}
        for line in lines:
            if self._grep is None or self._grep.search(plain(line.data)):
                batches[line.stream].append(self._text(line))
        for stream, texts in batches.items():
            if texts:
                self._write("\n".join(texts), err=stream == paths.STDERR)

    def _text(self, line: Line) -> str:
        prefix = self._prefix(line)
        if not self._coloured.get(line.stream):
            return prefix + plain(line.data)
        text = shown(line.data)
        return f"{prefix}{text}\x1b[0m" if "\x1b" in text else prefix + text

    def _rank_and_host(self, line: Line) -> str:
        return self._prefixes.get(line.rank) or self._new_prefix(line.rank)

    def _new_prefix(self, rank: int) -> str:
        hosts = self._hosts()
        names = host_labels(hosts.values(), _HOST)
        for each in {rank, *hosts}:
            host = names.get(hosts.get(each, ""), "")
            self._prefixes[each] = f"r{each:0{self._width}d}{f' {host}' if host else ''} | "
        return self._prefixes[rank]


def hosts_of(state: RunState) -> dict[int, str]:
    """The host of each rank; empty if the mode has one host only."""
    traits = recorded_traits(state.mode)
    return {} if traits and traits.one_host else {rank.rank: rank.host for rank in state.ranks}
