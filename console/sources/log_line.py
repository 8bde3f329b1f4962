"""One line of output as it may be shown."""

from __future__ import annotations

from dataclasses import dataclass

from console.sources.cleaning import shown
from launcher.runs.lines import Line


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
