"""Lines of output, read when they are shown: what a million lines cost is what is on the screen.

Following shows the end; any other place is the reader's, and nothing that arrives moves it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from console.messages import LogLine, Search
from console.widgets.log_paint import LinePaint

if TYPE_CHECKING:
    from textual import events

_SIDESTEP = 16
_MOST_LIVE = 8


class Lines(Protocol):
    """Where lines come from. Counts only grow; a line never changes once it is counted."""

    def count(self, rank: int | None = None) -> int:
        """How many whole lines there are."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of them."""

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines."""

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Start a search; an empty text ends it."""


class LogView(ScrollView, can_focus=True):
    """The lines of all ranks or of one, with unfinished lines as live rows below."""

    DEFAULT_CSS = """
    LogView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False, id="log.down"),
        Binding("k,up", "scroll_up", "Up", show=False, id="log.up"),
        Binding("ctrl+d,pagedown,space", "page_down", "Page down", show=False, id="log.page_down"),
        Binding("ctrl+u,pageup,b", "page_up", "Page up", show=False, id="log.page_up"),
        Binding("l,right", "sidestep(1)", "Right", show=False, id="log.right"),
        Binding("h,left", "sidestep(-1)", "Left", show=False, id="log.left"),
        Binding("g,home", "top", "Top", show=False, id="log.top"),
        Binding("G,end", "follow", "End, and follow", show=False, id="log.end"),
        Binding("t", "times", "Times", show=False, id="log.times"),
    ]

    class Moved(Message):
        """Following, the number of unseen lines, or the place in a search changed."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.lines: Lines | None = None
        self.rank: int | None = None
        self._ranks = 1
        self._left = 0
        self.follow = True
        self.unseen = 0
        self.times = False
        self.found: Search | None = None
        self.current: int | None = None
        self._paint = LinePaint({})
        self._total = 0
        self._live: list[LogLine] = []
        self._cache: LRUCache[int, Strip] = LRUCache(2048)

    def on_mount(self) -> None:
        """Draw again when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.redraw())
        self.redraw()

    def among(self, ranks: int) -> None:
        """Say how many ranks there are, which decides the width of their numbers."""
        if ranks != self._ranks:
            self._ranks = ranks
            self.redraw()

    def on_resize(self, _: events.Resize) -> None:
        """Stay at the end if that is where the reader is."""
        if self.follow:
            self._to_end()

    def update(self) -> None:
        """Take in what has arrived, without moving a reader who is elsewhere."""
        if self.lines is None:
            return
        total = self.lines.count(self.rank)
        if not self.follow:
            self._count_unseen(total - self._total)
            return
        live = self.lines.live(self.rank)[-_MOST_LIVE:]
        if total == self._total and len(live) == len(self._live):
            self._repaint_live(live)
            return
        grown, self._total, self._live = total != self._total, total, live
        self._to_end()
        if grown:
            self.post_message(self.Moved())

    def select(self, rank: int | None) -> None:
        """Show the lines of one rank, or of all, from the end."""
        self.rank, self.current, self._total, self._live = rank, None, 0, []
        self.follow = True
        self.redraw()
        self.update()
        self.post_message(self.Moved())

    def highlight(self, search: Search | None) -> None:
        """Mark what a search finds."""
        self.found, self.current = search, None
        self.redraw()
        self.post_message(self.Moved())

    def go_to(self, position: int) -> None:
        """Show one line in the middle of the pane, and stop following."""
        old, self.current = self.current, position
        self.follow = False
        if self.lines is not None and position >= self._total:
            self._total = self.lines.count(self.rank)
        self._set_height(self._total)
        self._drop(old, position)
        height = self.scrollable_content_region.height
        if not self.scroll_offset.y <= position < self.scroll_offset.y + height:
            self.scroll_to(y=max(position - height // 2, 0), animate=False, immediate=True, force=True)
        self.follow = False
        self._count_unseen(0, always=True)

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
        last = min(self.scroll_offset.y + self.scrollable_content_region.height, self._total)
        return "\n".join(self._plain(i) for i in range(self.scroll_offset.y, last))

    def redraw(self) -> None:
        """Forget what was drawn."""
        self._cache.clear()
        self._paint = LinePaint(
            self.app.theme_variables,
            digits=0 if self.rank is not None else len(str(max(self._ranks - 1, 0))),
            times=self.times,
            left=self._left,
            pattern=self.found.pattern if self.found is not None else None,
        )
        self.refresh()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Follow at the end, and nowhere else."""
        super().watch_scroll_y(old, new)
        following = round(new) >= self.max_scroll_y
        if following != self.follow:
            self.follow = following
            self.update()
            self.post_message(self.Moved())

    def action_follow(self) -> None:
        """Go to the end and stay there."""
        self.follow, self.current = True, None
        self._cache.clear()
        self.update()
        self._to_end()
        self.unseen = 0
        self.post_message(self.Moved())

    def action_toggle_follow(self) -> None:
        """Follow, or stop following."""
        if not self.follow:
            self.action_follow()
            return
        self.follow = False
        self.post_message(self.Moved())

    def action_top(self) -> None:
        """Go to the first line."""
        self.follow = False
        self.scroll_to(y=0, animate=False, immediate=True)
        self.post_message(self.Moved())

    def action_sidestep(self, direction: int) -> None:
        """Look further right, or back left."""
        self._left = max(self._left + direction * _SIDESTEP, 0)
        self.redraw()

    def action_times(self) -> None:
        """Show when each line came, or not."""
        self.times = not self.times
        self.redraw()

    def action_scroll_down(self) -> None:
        """One line on."""
        self.scroll_to(y=self.scroll_offset.y + 1, animate=False, immediate=True)

    def action_scroll_up(self) -> None:
        """One line back."""
        self.scroll_to(y=self.scroll_offset.y - 1, animate=False, immediate=True)

    def action_page_down(self) -> None:
        """One page on."""
        page = max(self.scrollable_content_region.height - 1, 1)
        self.scroll_to(y=self.scroll_offset.y + page, animate=False, immediate=True)

    def action_page_up(self) -> None:
        """One page back."""
        page = max(self.scrollable_content_region.height - 1, 1)
        self.scroll_to(y=self.scroll_offset.y - page, animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        width, position = self.scrollable_content_region.width, self.scroll_offset.y + y
        if position < self._total:
            strip = self._strip_at(position)
        elif position - self._total < len(self._live) and self.follow:
            strip = self._paint.strip(self._live[position - self._total])
        else:
            return Strip.blank(width, self.rich_style)
        ground = self.rich_style
        if position == self.current:
            mark = Style(bgcolor=self._paint.color("cursor-row"))
            ground += Style(reverse=True) if self.app.no_color else mark
        return strip.apply_style(ground).crop_extend(0, width, ground)

    def _strip_at(self, position: int) -> Strip:
        strip = self._cache.get(position)
        if strip is None:
            assert self.lines is not None
            strip = self._cache[position] = self._paint.strip(self.lines.line(position, self.rank))
        return strip

    def _plain(self, position: int) -> str:
        assert self.lines is not None
        return Text.from_ansi(self.lines.line(position, self.rank).text).plain

    def _to_end(self) -> None:
        self._set_height(self._total + len(self._live))
        self.scroll_to(y=self.max_scroll_y, animate=False, immediate=True, force=True)
        self.unseen = 0
        self.refresh()

    def _set_height(self, rows: int) -> None:
        if self.virtual_size.height != rows:
            self.virtual_size = Size(self.scrollable_content_region.width, rows)

    def _repaint_live(self, live: list[LogLine]) -> None:
        old, self._live = self._live, live
        for number, (before, after) in enumerate(zip(old, live, strict=True)):
            if before.text != after.text:
                y = self._total + number - self.scroll_offset.y
                self.refresh(Region(0, y, self.size.width, 1))

    def _count_unseen(self, unseen: int, *, always: bool = False) -> None:
        if unseen != self.unseen or always:
            self.unseen = unseen
            self.post_message(self.Moved())

    def _drop(self, *positions: int | None) -> None:
        for position in positions:
            if position is not None:
                self.refresh(Region(0, position - self.scroll_offset.y, self.size.width, 1))

    def _edge(self, direction: int) -> int:
        if self.follow:
            return self._total if direction < 0 else -1
        return self.scroll_offset.y + (-1 if direction > 0 else self.scrollable_content_region.height)
