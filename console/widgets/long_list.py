"""A list with a cursor under a fixed head, as long as it likes: only the rows that are seen are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, overload

from textual.binding import Binding, BindingType
from textual.geometry import Size

from console.widgets.cursor_sheet import CursorSheet
from console.widgets.sheet import Row, differing, safe

if TYPE_CHECKING:
    from textual import events


class MadeRows(Sequence[Row]):
    """Rows that are made when they are asked for, and kept. `made` are those that were."""

    def __init__(self, count: int, make: Callable[[int], Row]) -> None:
        self._count, self._make = count, make
        self.made: dict[int, Row] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, number: int) -> Row: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[Row]: ...
    def __getitem__(self, number: int | slice) -> Row | Sequence[Row]:
        if isinstance(number, slice):
            return [self[i] for i in range(*number.indices(self._count))]
        if not -self._count <= number < self._count:
            raise IndexError(number)
        if number not in self.made:
            self.made[number] = safe(self._make(number))
        return self.made[number]


class LongList(CursorSheet):
    """Subclasses say what `head_row` is, how many items there are, and how each is written."""

    fixed = 1
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d,pagedown", "page(1)", "Page down", show=False, id="list.page_down"),
        Binding("ctrl+u,pageup,b", "page(-1)", "Page up", show=False, id="list.page_up"),
    ]

    def head_row(self, width: int) -> Row:
        """What stands above the items."""
        raise NotImplementedError

    def rows(self, width: int) -> MadeRows:  # type: ignore[override]  # as good as a list, and made in parts
        """The head and all items."""

        def make(number: int) -> Row:
            if number == 0:
                return self.head_row(width)
            return self._padded(number - 1, width) if self.length else self.empty_row()

        return MadeRows(1 + max(self.length, 1), make)

    def refresh_rows(self) -> None:
        """Ask for what is seen again, and repaint what differs."""
        width = self.scrollable_content_region.width
        old, self._rows = self._rows, (new := self.rows(width))
        if len(new) != len(old) or not isinstance(old, MadeRows):
            self.virtual_size = Size(width, len(new))
            self.refresh()
            self.call_after_refresh(self._refit, width)
            return
        for number in self._seen(len(new)):
            before, after = old.made.get(number), new[number]
            if before is None:
                self.repaint_row(number)
            elif before != after:
                self.repaint_row(number, *differing(before, after))

    def _refit(self, width: int) -> None:
        """A scroll bar that came or went has changed the width."""
        if self.scrollable_content_region.width != width:
            self.refresh_rows()

    def _seen(self, count: int) -> Iterator[int]:
        yield 0
        top = self.scroll_offset.y
        yield from range(top + 1, min(top + self.size.height, count))

    def action_move(self, items: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + items, 0), max(self.length - 1, 0))
        self.refresh_rows()
        self.reveal(self.cursor + self.fixed)

    def action_page(self, pages: int) -> None:
        """Move the cursor by what is seen at once."""
        self.action_move(pages * max(self.scrollable_content_region.height - self.fixed - 1, 1))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there; a second click chooses."""
        event.prevent_default()  # the plain list has no head, and would count from its place
        y = event.y - self.gutter.top
        index = self.row_at(y) - self.fixed
        if y >= self.fixed and 0 <= index < self.length:
            self.action_move(index - self.cursor)
            if event.chain == 2:
                self.action_choose()
