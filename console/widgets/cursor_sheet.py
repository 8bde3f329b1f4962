"""A sheet of items, one a row, with a cursor: for lists from which one is picked."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from console.widgets.sheet import Row, ScrollingSheet

if TYPE_CHECKING:
    from textual import events


class CursorSheet(ScrollingSheet):
    """Rows with a cursor. Subclasses say how many items there are and how each is written."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Down", show=False, id="list.down"),
        Binding("k,up", "move(-1)", "Up", show=False, id="list.up"),
        Binding("ctrl+d,pagedown,space", "move(8)", "Page down", show=False, id="list.page_down"),
        Binding("ctrl+u,pageup,b", "move(-8)", "Page up", show=False, id="list.page_up"),
        Binding("g,home", "move(-1000000)", "Top", show=False, id="list.top"),
        Binding("G,end", "move(1000000)", "End", show=False, id="list.end"),
        Binding("enter", "choose", "Open", id="list.choose"),
    ]

    class Chosen(Message):
        """The item under the cursor was chosen."""

        def __init__(self, sheet: CursorSheet, index: int) -> None:
            super().__init__()
            self.sheet = sheet
            self.index = index

        @property
        def control(self) -> CursorSheet:
            """The list it was chosen from."""
            return self.sheet

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.cursor = 0

    @property
    def length(self) -> int:
        """How many items there are."""
        raise NotImplementedError

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """One item; `ground` belongs at the end of every style in it."""
        raise NotImplementedError

    def empty_row(self) -> Row:
        """What stands there instead of items."""
        return ()

    def rows(self, width: int) -> list[Row]:
        """All items."""
        if not self.length:
            return [self.empty_row()]
        return [self._padded(i, width) for i in range(self.length)]

    def action_move(self, items: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + items, 0), max(self.length - 1, 0))
        self.refresh_rows()
        self.reveal(self.cursor)

    def action_choose(self) -> None:
        """Choose the item under the cursor."""
        if self.length:
            self.post_message(self.Chosen(self, self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor there; a second click chooses."""
        index = self.row_at(event.y - self.gutter.top)
        if 0 <= index < self.length:
            self.action_move(index - self.cursor)
            if event.chain == 2:
                self.action_choose()

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh_rows()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh_rows()

    @property
    def shows_cursor(self) -> bool:
        """Whether the cursor is drawn."""
        return self.has_focus

    def _padded(self, index: int, width: int) -> Row:
        here = index == self.cursor and self.shows_cursor
        row = self.item_row(index, width, " on cursor-row" if here else "")
        return (*row, (" " * width, "on cursor-row")) if here else row
