"""Moving through lines: by rows of the screen, some of which are parts of a long line.

Following is being at the end; any other place is the reader's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.scroll_view import ScrollView

from console.widgets import log_wrap
from console.widgets.framed import Framed

if TYPE_CHECKING:
    from collections.abc import Callable

    from textual import events


class LogScroll(Framed, ScrollView):
    """A place among lines. Whoever has the lines says how many there are, and how wide one is.

    Attributes:
        follow: whether the end is shown, whatever comes.
        wrap: whether a long line takes several rows.

    Args:
        moved: told when following, the number of unseen lines, or the place in a search changed. It is
            called, not sent a message: what is said of the lines is painted in one frame with them.
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
        self._goal: log_wrap.Place = (0, 0)
        self._page: list[log_wrap.Place] | None = None

    def update(self) -> None:
        """Take in what has arrived, without moving a reader who is elsewhere."""
        raise NotImplementedError

    def cells(self, position: int) -> int:
        """How wide a line is."""
        raise NotImplementedError

    def _live_rows(self) -> int:
        """How many unfinished lines are below the others."""
        raise NotImplementedError

    @property
    def top(self) -> int:
        """The first line on the screen."""
        return self.scroll_offset.y

    def on_resize(self, _: events.Resize) -> None:
        """Stay at the end if that is where the reader is."""
        self._page = None
        if self.follow:
            self._to_end()

    def _to_end(self) -> None:
        self._fit()
        self._move_to(self._end())
        self.refresh()

    def watch_scroll_y(self, old: float, new: float) -> None:
        """Follow at the end, and nowhere else."""
        super().watch_scroll_y(old, new)
        if round(old) != round(new):
            line, row = self._goal
            self._row = row if line == round(new) else 0
        self._settle()

    def _settle(self) -> None:
        """See where the screen is now."""
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
        """One line on."""
        self._move(1)

    def action_scroll_up(self) -> None:
        """One line back."""
        self._move(-1)

    def action_page_down(self) -> None:
        """One page on."""
        self._move(max(self.scrollable_content_region.height - 1, 1))

    def action_page_up(self) -> None:
        """One page back."""
        self._move(-max(self.scrollable_content_region.height - 1, 1))

    def _fit(self) -> None:
        """Make what is scrolled so long that its last row can be at the bottom, and no higher."""
        self._page = None
        rows = self._total + (self._live_rows() if self.follow else 0)
        if self.wrap:
            rows = self._end()[0] + self.scrollable_content_region.height
        if self.virtual_size.height != rows:
            self.virtual_size = Size(self.scrollable_content_region.width, rows)

    def _end(self) -> log_wrap.Place:
        """The place from which the last row is at the bottom."""
        rows = self._total + (self._live_rows() if self.follow else 0)
        height = self.scrollable_content_region.height
        return log_wrap.end(height, rows, self._rows) if self.wrap else (max(rows - height, 0), 0)

    def _rows(self, position: int) -> int:
        """How many rows a line takes."""
        if not self.wrap:
            return 1
        return max(-(-self.cells(position) // max(self.scrollable_content_region.width, 1)), 1)

    def _places(self) -> list[log_wrap.Place]:
        """What stands on each row of the screen."""
        if self._page is None:
            top = (self.scroll_offset.y, self._row)
            height, total = self.scrollable_content_region.height, self._total + self._live_rows()
            self._page = log_wrap.page(top, height, total, self._rows)
        return self._page

    def _move(self, by: int) -> None:
        """Move by rows."""
        place = (self.scroll_offset.y, self._row)
        self._move_to(min(log_wrap.moved(place, by, self._total, self._rows), self._end()))

    def _move_to(self, place: log_wrap.Place) -> None:
        self._goal = line, row = place
        self.scroll_to(y=line, animate=False, immediate=True, force=True)
        if row != self._row:
            self._row = row
            self._settle()
            self.refresh()
