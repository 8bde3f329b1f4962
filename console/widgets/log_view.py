"""Lines of output, read when they are shown: what a million lines cost is what is on the screen.

Following shows the end; any other place is the reader's, and nothing that arrives moves it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region
from textual.strip import Strip

from console.messages import LogLine, Search, Whither
from console.widgets import log_wrap
from console.widgets.log_lines import Lines
from console.widgets.log_paint import LinePaint, Times
from console.widgets.log_scroll import LogScroll

_SIDESTEP = 16
_MOST_LIVE = 8


class LogView(LogScroll, can_focus=True):
    """The lines of all ranks or of one, with unfinished lines as live rows below."""

    DEFAULT_CSS = """
    LogView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "sidestep(1)", "Right", show=False, id="log.right"),
        Binding("h,left", "sidestep(-1)", "Left", show=False, id="log.left"),
        Binding("G,end", "follow", "End, and follow", show=False, id="log.end"),
        Binding("t", "times", "Times: clock, since start", show=False, id="log.times"),
        Binding("w", "wrap", "Wrap long lines", show=False, id="log.wrap"),
    ]

    def __init__(self, *, moved: Callable[[], None], id: str | None = None) -> None:  # noqa: A002
        super().__init__(moved=moved, id=id)
        self.lines: Lines | None = None
        self.rank: int | None = None
        self._ranks = 1
        self._left = 0
        self.unseen = 0
        self.times = Times.NONE
        self.found: Search | None = None
        self.current: int | None = None
        self._paint = LinePaint({})
        self._live: list[LogLine] = []
        self._ground = Style()
        self._cache: LRUCache[int, Strip] = LRUCache(2048)

    def on_mount(self) -> None:
        """Draw again when the theme changes."""
        self.times = Times(getattr(self.app, "log_times", Times.NONE.value))
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())
        self.redraw()

    def among(self, ranks: int) -> None:
        """Say how many ranks there are, which decides the width of their numbers."""
        if ranks != self._ranks:
            self._ranks = ranks
            self.redraw()

    def update(self) -> None:
        """Take in what has arrived, without moving a reader who is elsewhere."""
        if self.lines is None:
            return
        total = self.lines.count(self.rank)
        if not self.follow:
            self._count_unseen(total - self._total)
            return
        live = self._shown_live(self.lines.live(self.rank))
        if total == self._total and len(live) == len(self._live):
            self._repaint_live(live)
            return
        grown, self._total, self._live = total != self._total, total, live
        self._to_end()
        if grown:
            self._moved()

    def _shown_live(self, lines: list[LogLine]) -> list[LogLine]:
        """Some unfinished lines, and what is shown before them as long as it is not counted."""
        height = self.scrollable_content_region.height
        ahead, unfinished = [x for x in lines if not x.open], [x for x in lines if x.open]
        return [*ahead[max(len(ahead) - height, 0) :], *unfinished[-_MOST_LIVE:]]

    def select(self, rank: int | None) -> None:
        """Show the lines of one rank, or of all, from the end."""
        self.rank = rank
        self.show(self.lines)

    def show(self, lines: Lines | None, position: int | None = None) -> None:
        """Show other lines, from the end or from one of them."""
        self.lines, self.current, self._total, self._live = lines, None, 0, []
        self.follow = True
        self.redraw()
        self.update()
        if position is not None:
            self.go_to(position)
        self._moved()

    def highlight(self, search: Search | None) -> None:
        """Mark what a search finds."""
        self.found, self.current = search, None
        self.redraw()
        self._moved()

    def go_to(self, position: int) -> None:
        """Show one line in the middle of the pane, and stop following."""
        old, self.current = self.current, position
        self.follow = False
        if self.lines is not None and position >= self._total:
            self._total = self.lines.count(self.rank)
        self._fit()
        self._drop(old, position)
        if all(line != position for line, _ in self._places()):
            height = self.scrollable_content_region.height
            self._move_to(log_wrap.moved((position, 0), -(height // 2), self._total, self._rows))
        self.follow = False
        self._count_unseen(0, always=True)

    def seek(self, where: Whither) -> None:
        """Show the line that somebody wants to see, or the nearest one."""
        lines, rank = self.lines, self.rank
        if lines is None or not (count := lines.count(rank)):
            return
        if where.clock is None:
            row = lines.at_ordinal(where.ordinal(lines.total(rank)), rank)
        else:
            row = lines.at_time(where.moment(lines.line(min(self.top, count - 1), rank).time), rank)
        self.go_to(min(row, count - 1))

    def step(self, direction: int) -> bool:
        """Go to the next match, or the one before; whether there is any."""
        if self.found is None:
            return False
        here = self.current if self.current is not None else self._edge(direction)
        position = self.found.after(here) if direction > 0 else self.found.before(here)
        if position is not None:
            self.go_to(position)
        return position is not None

    def visible_text(self) -> str:
        """The lines on the screen, as text."""
        shown = {line: None for line, _ in self._places() if line < self._total}
        return "\n".join(self._plain(line) for line in shown)

    def redraw(self) -> None:
        """Forget what was drawn."""
        self._cache.clear()
        self._page = None
        self._ground = self.rich_style
        timed = self.times is Times.SINCE and self.lines is not None and self.lines.count(self.rank) > 0
        self._paint = LinePaint(
            self.app.theme_variables,
            digits=0 if self.rank is not None else len(str(max(self._ranks - 1, 0))),
            times=self.times,
            origin=self.lines.line(0, self.rank).time if timed and self.lines is not None else 0.0,
            left=0 if self.wrap else self._left,
            pattern=self.found.pattern if self.found is not None else None,
        )
        self.refresh()

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.follow, self.current = True, None
        self._cache.clear()
        self.update()
        self._to_end()
        self.unseen = 0
        self._moved()

    def action_toggle_follow(self) -> None:
        """Follow, or stop following."""
        if not self.follow:
            self.action_follow()
            return
        self.follow = False
        self._moved()

    def action_sidestep(self, direction: int) -> None:
        """Look further right, or back left."""
        self._left = max(self._left + direction * _SIDESTEP, 0)
        self.redraw()

    def action_times(self) -> None:
        """Show when each line came: by the clock, since the first line, or not."""
        self.times = self.times.after
        self.redraw()
        self._moved()

    def action_wrap(self) -> None:
        """Show long lines over several rows, or cut off."""
        self.wrap, self._row = not self.wrap, 0
        self.redraw()
        self._fit()
        if self.follow:
            self._to_end()
        self._moved()

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        width, places = self.scrollable_content_region.width, self._places()
        if y >= len(places) or (places[y][0] >= self._total and not self.follow):
            return Strip.blank(width, self._ground)
        position, row = places[y]
        strip = self._strip_at(position)
        if row:
            strip = strip.crop(row * width)
        ground = self._ground
        if position == self.current:
            mark = Style(bgcolor=self._paint.color("cursor-row"))
            ground += Style(reverse=True) if self.app.no_color else mark
        return strip.apply_style(ground).crop_extend(0, width, ground)

    def _strip_at(self, position: int) -> Strip:
        if position >= self._total:
            return self._paint.strip(self._live[position - self._total])
        strip = self._cache.get(position)
        if strip is None:
            assert self.lines is not None
            strip = self._cache[position] = self._paint.strip(self.lines.line(position, self.rank))
        return strip

    def _plain(self, position: int) -> str:
        assert self.lines is not None
        return Text.from_ansi(self.lines.line(position, self.rank).text).plain

    def _to_end(self) -> None:
        super()._to_end()
        self.unseen = 0

    def _live_rows(self) -> int:
        return len(self._live)

    def cells(self, position: int) -> int:
        """How wide a line is."""
        return self._strip_at(position).cell_length

    def _repaint_live(self, live: list[LogLine]) -> None:
        old, self._live = self._live, live
        if self.wrap:
            self._to_end()
            return
        for number, (before, after) in enumerate(zip(old, live, strict=True)):
            if before.text != after.text:
                y = self._total + number - self.scroll_offset.y
                self.refresh(Region(0, y, self.size.width, 1))

    def _count_unseen(self, unseen: int, *, always: bool = False) -> None:
        if unseen != self.unseen or always:
            self.unseen = unseen
            self._moved()

    def _drop(self, *positions: int | None) -> None:
        for position in positions:
            if position is not None and self.wrap:
                self.refresh()
            elif position is not None:
                self.refresh(Region(0, position - self.scroll_offset.y, self.size.width, 1))

    def _edge(self, direction: int) -> int:
        if self.follow:
            return self._total if direction < 0 else -1
        return self.scroll_offset.y + (-1 if direction > 0 else self.scrollable_content_region.height)
