"""Ranks' output as prefixed lines."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from console.echo import tell_cleaned
from console.listing import host_labels
from console.sources.attempts import attempt_mark
from console.sources.cleaning import plain, shown
from launcher.record_events import PartUnreadable
from launcher.runs import paths
from launcher.runs.lines import Line, LineIndex
from launcher.runs.reader import read_restarts

_HOST = 24

Write = Callable[..., None]


class Printer:
    """Rank output as prefixed lines: a rank's stdout to ours, its stderr to ours.

    Where another attempt begins, a line without a prefix says so on standard error. `hosts` tells where
    each rank is; it is asked at the first line of an attempt. Ranks that it does not tell of are here.
    """

    def __init__(
        self,
        folder: Path,
        world_size: int,
        ranks: frozenset[int],
        *,
        grep: re.Pattern[str] | None = None,
        write: Write = tell_cleaned,
        attempt: int | None = None,
        hosts: Callable[[], Mapping[int, str]] = dict,
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
        streams = {paths.STDOUT: sys.stdout, paths.STDERR: sys.stderr}
        self._colours = {key: bool(stream) and stream.isatty() for key, stream in streams.items()}

    def advance(self) -> None:
        """Print what is new. With no rank to print there is nothing to find either."""
        while self._ranks and self._index.poll():
            for attempt, first in self._index.begins[self._begun :]:
                self._print_up_to(first)
                self._write(attempt_mark(attempt, read_restarts(self._folder).get(attempt)), err=True)
                self._begun += 1
                self._prefixes.clear()
            self._print_up_to(len(self._index))

    def _print_up_to(self, end: int) -> None:
        fresh = range(self._printed, end)
        self._print(self._index.line(i) for i in fresh if self._index.owner(i)[0] in self._ranks)
        self._printed = end

    @property
    def unreadable(self) -> tuple[PartUnreadable, ...]:
        """What of the output cannot be read."""
        return self._index.unreadable

    def finish(self) -> None:
        """Print all that is left, unfinished lines too."""
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
        prefix = self._prefixes.get(line.rank) or self._prefix(line.rank)
        if not self._colours[line.stream]:
            return prefix + plain(line.data)
        text = shown(line.data)
        return f"{prefix}{text}\x1b[0m" if "\x1b" in text else prefix + text

    def _prefix(self, rank: int) -> str:
        hosts = self._hosts()
        names = host_labels(hosts.values(), _HOST)
        for each in {rank, *hosts}:
            host = names.get(hosts.get(each, ""), "")
            self._prefixes[each] = f"r{each:0{self._width}d}{f' {host}' if host else ''} | "
        return self._prefixes[rank]
