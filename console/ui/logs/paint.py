"""How one line of output is drawn: its rank, its time, its own colours, and the matches of a search."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual.color import Color
from textual.strip import Strip

from launcher.runs import paths

from ...data.logs.book import LogLine
from ...data.logs.search import Expression, Level, level_of

if TYPE_CHECKING:
    from rich.color import Color as RichColor

_TINTS = 8
_TONES = {Level.ERROR: "log-error", Level.WARNING: "log-warn"}
_CONSOLE = Console(color_system="truecolor", force_terminal=True, width=80)


class Times(enum.Enum):
    """How the time of a line is shown: not, as clock time, or in seconds since the first line."""

    NONE = ""
    CLOCK = "clock"
    SINCE = "since start"

    @property
    def after(self) -> Times:
        """The next one, or the first after the last."""
        each = list(Times)
        return each[(each.index(self) + 1) % len(each)]


@dataclass(slots=True)
class LinePaint:
    """Draws lines for one theme and one set of choices; the background is left to the caller.

    Attributes:
        variables: the theme's variables.
        digits: the width of a rank's number; 0 leaves the number out.
        times: how the time of a line is shown.
        origin: the time of the first line, in seconds since the epoch.
        left: how many cells of the text are scrolled out to the left.
        pattern: the expression of the search.
    """

    variables: Mapping[str, str]
    digits: int = 1
    times: Times = Times.NONE
    origin: float = 0.0
    left: int = 0
    pattern: Expression | None = None
    _styles: dict[str, Style] = field(default_factory=dict)

    def strip(self, line: LogLine) -> Strip:
        """The whole line; a mark starts at the first cell, where output never does."""
        if line.mark:
            return Strip([Segment(line.text, self._style("accent") + Style(bold=True))])
        body = Text.from_ansi(line.text, no_wrap=True, end="")
        if self.pattern is not None:
            match = Style(bgcolor=self.color("log-match"), bold=True)
            for start, end in self.pattern.spans(body.plain):
                body.stylize(match, start, end)
        cells = Strip(body.render(_CONSOLE), body.cell_len).apply_style(self._tone(line.text))
        return Strip([*self._head(line), *(cells.crop(self.left) if self.left else cells)])

    def color(self, variable: str) -> RichColor:
        """A theme variable as a colour."""
        return Color.parse(self.variables[variable]).rich_color

    def _head(self, line: LogLine) -> Iterator[Segment]:
        if self.times is not Times.NONE:
            yield Segment(self._time(line.time), self._style("muted"))
        if self.digits:
            yield Segment(f"{line.rank:>{self.digits}} ", self._style(f"tint-{line.rank % _TINTS}"))
        if line.stream == paths.STDERR:
            yield Segment("▎", self._style("log-stderr"))
        else:
            yield Segment(" ")

    def _tone(self, text: str) -> Style:
        tone = _TONES.get(level_of(text))
        return self._style(tone) if tone else Style.null()

    def _time(self, moment: float) -> str:
        if self.times is Times.SINCE:
            return f"{moment - self.origin:+11.3f} "
        stamp = time.strftime("%H:%M:%S", time.localtime(moment))
        return f"{stamp}.{int(moment * 1000) % 1000:03d} "

    def _style(self, variable: str) -> Style:
        if variable not in self._styles:
            self._styles[variable] = Style(color=self.color(variable))
        return self._styles[variable]
