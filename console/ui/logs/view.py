"""Lines of output in a scrolled view, read and measured only when they are shown.

A million lines cost no more than a screenful. At the end, the view follows what arrives; at any
other place, new lines do not move it. With wrapping, a place is a line and a row within the line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar, Protocol

from rich.style import Style
from rich.text import Text
from textual.binding import Binding, BindingType
from textual.cache import LRUCache
from textual.geometry import Region, Size
from textual.strip import Strip

from ...data.code.source import Spot, spot_in
from ...data.logs.book import LogLine
from ...data.logs.search import Level, LogDestination, Search
from ..rendering.focus import Framed
from ..rendering.scrolling import ContentScroll
from .paint import LinePaint, Times

if TYPE_CHECKING:
    from textual import events


class LogScroll(Framed, ContentScroll):
    """The scroll position among lines. A subclass provides the number of lines and their widths.

    Attributes:
        follow: whether the view stays at the end when lines arrive.
        wrap: whether a long line takes several rows.

    Args:
        moved: called when following, the number of unseen lines, or the place in a search changed. This is a
            call and no message, so that the title is painted in the same frame as the lines.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False, id="log.down"),
        Binding("k,up", "scroll_up", "Up", show=False, id="log.up"),
        Binding("ctrl+d,pagedown,space", "page_down", "Page down", show=False, id="log.page_down"),
        Binding("ctrl+u,pageup,b", "page_up", "Page up", show=False, id="log.page_up"),
        Binding("g,home", "top", "Top", show=False, id="log.top"),
    ]

    def __init__(self, *, moved: Callable[[], None], id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._moved = moved
        self.follow = True
        self.wrap = False
        self._total = 0
        self._row = 0
        self._goal: Place = (0, 0)
        self._page: list[Place] | None = None

    def update(self) -> None:
        """Show what has arrived; the view moves only while it follows."""
        raise NotImplementedError

    def cells(self, position: int) -> int:
        """The width of a line."""
        raise NotImplementedError

    def _live_rows(self) -> int:
        """The number of unfinished lines below the others."""
        raise NotImplementedError

    @property
    def top(self) -> int:
        """The first line on the screen."""
        return self.scroll_offset.y

    def on_resize(self, _: events.Resize) -> None:
        """Stay at the end while following."""
        self._page = None
        if self.follow:
            self._to_end()

    def _to_end(self) -> None:
        self._fit()
        self._move_to(self._end())
        self.refresh()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Follow at the end, and only there."""
        super().watch_scroll_y(old, new)
        if round(old) != round(new):
            line, row = self._goal
            self._row = row if line == round(new) else 0
        self._settle()

    def _settle(self) -> None:
        """Update `follow` after the place has changed."""
        self._page = None
        following = self.scroll_offset.y >= self.max_scroll_y and self._row >= self._end()[1]
        if following != self.follow:
            self.follow = following
            self.update()
            self._moved()

    def action_top(self) -> None:
        """Go to the first line."""
        self.follow = False
        self._move_to((0, 0))
        self._moved()

    def action_scroll_down(self) -> None:
        """Move down by a line."""
        self._move(1)

    def action_scroll_up(self) -> None:
        """Move up by a line."""
        self._move(-1)

    def action_page_down(self) -> None:
        """Move down by a page."""
        self._move(max(self.scrollable_content_region.height - 1, 1))

    def action_page_up(self) -> None:
        """Move up by a page."""
        self._move(-max(self.scrollable_content_region.height - 1, 1))

    def _fit(self) -> None:
        """Set the scrolled height so that the last row can be at the bottom, but no higher."""
        self._page = None
        rows = self._total + (self._live_rows() if self.follow else 0)
        if self.wrap:
            rows = self._end()[0] + self.scrollable_content_region.height
        self.virtual_size = Size(self.scrollable_content_region.width, rows)

    def _end(self) -> Place:
        """The place from which the last row is at the bottom."""
        rows = self._total + (self._live_rows() if self.follow else 0)
        height = self.scrollable_content_region.height
        return end(height, rows, self._rows) if self.wrap else (max(rows - height, 0), 0)

    def _rows(self, position: int) -> int:
        """The number of rows that a line takes."""
        if not self.wrap:
            return 1
        return max(-(-self.cells(position) // max(self.scrollable_content_region.width, 1)), 1)

    def _places(self) -> list[Place]:
        """The place that each row of the screen shows."""
        if self._page is None:
            top = (self.scroll_offset.y, self._row)
            height, total = self.scrollable_content_region.height, self._total + self._live_rows()
            self._page = page(top, height, total, self._rows)
        return self._page

    def _move(self, by: int) -> None:
        """Move by rows."""
        place = (self.scroll_offset.y, self._row)
        self._move_to(min(moved(place, by, self._total, self._rows), self._end()))

    def _move_to(self, place: Place) -> None:
        self._goal = line, row = place
        self.scroll_to(y=line, animate=False, immediate=True, force=True)
        if row != self._row:
            self._row = row
            self._settle()
            self.refresh()


_SIDESTEP = 16
_MOST_LIVE = 8


class LogView(LogScroll, can_focus=True):
    """The lines of all ranks or of one, with unfinished lines as live rows at the end."""

    DEFAULT_CSS = """
    LogView { overflow-x: hidden; overflow-y: scroll; scrollbar-size-vertical: 1; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("l,right", "sidestep(1)", "Right", show=False, id="log.right"),
        Binding("h,left", "sidestep(-1)", "Left", show=False, id="log.left"),
        Binding("G,end", "follow", "End, and follow", show=False, id="log.end"),
        Binding("d", "times", "Times: clock, since start", show=False, id="log.times"),
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
        """Set the number of ranks, which determines the width of their numbers."""
        if ranks != self._ranks:
            self._ranks = ranks
            self.redraw()

    def update(self) -> None:
        """Show what has arrived; the view moves only while it follows."""
        if self.lines is None:
            return
        total = self.lines.count(self.rank)
        if total < self._total:
            self._end_at(total)
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

    def _end_at(self, total: int) -> None:
        """Take rows away from the end: an earlier moment is shown."""
        self._total, self._live, self.unseen = total, [], 0
        if self.current is not None and self.current >= total:
            self.current = None
        if self.follow:
            self._to_end()
        else:
            self._fit()
            self._move_to(min((self.scroll_offset.y, self._row), self._end()))
        self.refresh()
        self._moved()

    def _shown_live(self, lines: list[LogLine]) -> list[LogLine]:
        """Some unfinished lines, and before them finished lines that are not counted yet."""
        height = self.scrollable_content_region.height
        ahead, unfinished = [x for x in lines if not x.open], [x for x in lines if x.open]
        return [*ahead[max(len(ahead) - height, 0) :], *unfinished[-_MOST_LIVE:]]

    def select(self, rank: int | None) -> None:
        """Show the lines of one rank, or of all, at the end."""
        self.rank = rank
        self.show(self.lines)

    def show(self, lines: Lines | None, position: int | None = None) -> None:
        """Show other lines, at the end or at one of them."""
        self.lines, self.current, self._total, self._live = lines, None, 0, []
        self.follow = True
        self.redraw()
        self.update()
        if position is not None:
            self.go_to(position)
        self._moved()

    def highlight(self, search: Search | None) -> None:
        """Highlight the matches of a search."""
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
            self._move_to(moved((position, 0), -(height // 2), self._total, self._rows))
        self.follow = False
        self._count_unseen(0, always=True)

    def seek(self, where: LogDestination) -> None:
        """Show the line at a destination, or the nearest one."""
        lines, rank = self.lines, self.rank
        if lines is None or not (count := lines.count(rank)):
            return
        if where.clock is None:
            row = lines.at_ordinal(where.ordinal(lines.total(rank)), rank)
        else:
            row = lines.at_time(where.moment(lines.line(min(self.top, count - 1), rank).time), rank)
        self.go_to(min(row, count - 1))

    def step(self, direction: int) -> bool:
        """Go to the next or the previous match; return whether there is one."""
        if self.found is None:
            return False
        here = self.current if self.current is not None else self._edge(direction)
        position = self.found.after(here) if direction > 0 else self.found.before(here)
        if position is not None and self.lines is not None and position >= self.lines.count(self.rank):
            position = None
        if position is not None:
            self.go_to(position)
        return position is not None

    def visible_text(self) -> str:
        """The lines on the screen, as text."""
        shown = {line: None for line, _ in self._places() if line < self._total}
        return "\n".join(self._plain(line) for line in shown)

    @property
    def spot(self) -> Spot | None:
        """The place that the match of a search names, else that of the lowest visible line that names one."""
        shown = sorted({line for line, _ in self._places() if line < self._total}, reverse=True)
        if self.current is not None and self.current < self._total:
            shown.insert(0, self.current)
        return next((found for line in shown if (found := spot_in(self._plain(line))) is not None), None)

    def redraw(self) -> None:
        """Draw all lines again."""
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
        """Show the time of each line: as clock time, since the first line, or not."""
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
        """The width of a line."""
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


Place = tuple[int, int]
Measure = Callable[[int], int]


def page(top: Place, height: int, total: int, rows: Measure) -> list[Place]:
    """The place that each row of the screen shows if the screen begins at `top`."""
    places: list[Place] = []
    line, row = top
    while len(places) < height and line < total:
        places += [(line, each) for each in range(row, rows(line))]
        line, row = line + 1, 0
    return places[:height]


def end(height: int, total: int, rows: Measure) -> Place:
    """The place at which the screen begins if the last row is at its bottom."""
    return moved((total, 0), -height, total, rows)


def moved(place: Place, by: int, total: int, rows: Measure) -> Place:
    """The place `by` rows further down, or up if negative; limited to the first and the last row."""
    line, row = place
    row += by
    while row < 0 and line > 0:
        line -= 1
        row += rows(line)
    while line < total - 1 and row >= (here := rows(line)):
        line, row = line + 1, row - here
    if line >= total - 1:
        row = min(row, rows(line) - 1) if 0 <= line < total else 0
    return max(line, 0), max(row, 0)


class Lines(Protocol):
    """A source of lines. Counts only grow, except in time travel; a counted line never changes."""

    def count(self, rank: int | None = None) -> int:
        """The number of rows: whole lines, and marks where attempts begin."""

    def total(self, rank: int | None = None) -> int:
        """The number of whole lines, without a filter."""

    def line(self, position: int, rank: int | None = None) -> LogLine:
        """One of the rows."""

    def live(self, rank: int | None = None) -> list[LogLine]:
        """The unfinished lines."""

    def search(self, text: str, rank: int | None = None) -> Search | None:
        """Start a search; an empty text ends it."""

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        """The row of a line counted from 0, or of the next existing one."""

    def at_time(self, moment: float, rank: int | None = None) -> int:
        """The row of the first line at or after a time, in seconds since the epoch."""


class FilteredLines(Lines, Protocol):
    """The rows that passed a filter."""

    @property
    def passed(self) -> Search:
        """The numbers of these rows among all rows."""


class Book(Lines, Protocol):
    """All rows of a run."""

    @property
    def name(self) -> str:
        """The run's id."""

    def filtered(self, text: str, level: Level, rank: int | None = None) -> FilteredLines | None:
        """Start to find the rows that pass a filter; None if the filter is empty.

        Raises:
            ValueError: the text is no regular expression.
        """

    def raw_file(self, rank: int) -> str | None:
        """The path of the file with a rank's newest raw output, if there is one."""
