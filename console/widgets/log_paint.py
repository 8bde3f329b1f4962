"""How one line of output is drawn: whose it is, when it came, its own colours, and what a search found."""

from __future__ import annotations

import re
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

from console.messages import LogLine
from launcher.runs import paths

if TYPE_CHECKING:
    from rich.color import Color as RichColor

_TINTS = 8
_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w+(?:Error|Exception)\b)")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w+Warning:")
_CONSOLE = Console(color_system="truecolor", force_terminal=True, width=80)


@dataclass(slots=True)
class LinePaint:
    """Draws lines for one theme and one set of choices; the background is left to the caller.

    Attributes:
        variables: the theme's.
        digits: how many a rank's number takes; 0 leaves it out.
        times: whether to say when a line came.
        left: how many cells of the text are scrolled away.
        pattern: what a search looks for.
    """

    variables: Mapping[str, str]
    digits: int = 1
    times: bool = False
    left: int = 0
    pattern: re.Pattern[str] | None = None
    _styles: dict[str, Style] = field(default_factory=dict)

    def strip(self, line: LogLine) -> Strip:
        """The whole line."""
        body = Text.from_ansi(line.text, no_wrap=True, end="")
        if self.pattern is not None:
            body.highlight_regex(self.pattern, Style(bgcolor=self.color("log-match"), bold=True))
        cells = Strip(body.render(_CONSOLE), body.cell_len).apply_style(self._tone(line.text))
        return Strip([*self._head(line), *(cells.crop(self.left) if self.left else cells)])

    def color(self, variable: str) -> RichColor:
        """A theme variable as a colour."""
        return Color.parse(self.variables[variable]).rich_color

    def _head(self, line: LogLine) -> Iterator[Segment]:
        if self.times:
            stamp = time.strftime("%H:%M:%S", time.localtime(line.time))
            yield Segment(f"{stamp}.{int(line.time * 1000) % 1000:03d} ", self._style("muted"))
        if self.digits:
            yield Segment(f"{line.rank:>{self.digits}} ", self._style(f"tint-{line.rank % _TINTS}"))
        if line.stream == paths.STDERR:
            yield Segment("▎", self._style("log-stderr"))
        else:
            yield Segment(" ")

    def _tone(self, text: str) -> Style:
        if _ERROR.search(text):
            return self._style("log-error")
        return self._style("log-warn") if _WARNING.search(text) else Style.null()

    def _style(self, variable: str) -> Style:
        if variable not in self._styles:
            self._styles[variable] = Style(color=self.color(variable))
        return self._styles[variable]
