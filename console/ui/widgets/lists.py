"""Lists with a cursor, and table columns of which the least important are dropped first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding, BindingType
from textual.message import Message

from .rows import MadeRows, Row, ScrollingSheet, clip

if TYPE_CHECKING:
    from textual import events


T = TypeVar("T")


class CursorSheet(ScrollingSheet, Generic[T]):
    """Items as rows, with a cursor on one of them. Subclasses write the row of an item."""

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

        def __init__(self, sheet: CursorSheet[Any], index: int) -> None:
            super().__init__()
            self.sheet = sheet
            self.index = index

        @property
        def control(self) -> CursorSheet[Any]:
            """The list that the item was chosen from."""
            return self.sheet

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.items: Sequence[T] = ()
        self.cursor = 0

    @property
    def length(self) -> int:
        """How many items there are."""
        return len(self.items)

    @property
    def chosen(self) -> T | None:
        """The item under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """One item; `ground` belongs at the end of every style in it."""
        raise NotImplementedError

    def empty_row(self) -> Row:
        """The row that is shown if there are no items."""
        return ()

    def rows(self, width: int) -> Sequence[Row]:
        """A row for each item."""
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
        """Move the cursor to the clicked item; a second click chooses it."""
        index = self.row_at(event.y - self.gutter.top)
        if 0 <= index < self.length:
            self.action_move(index - self.cursor)
            if event.chain == 2:
                self.action_choose()

    def watch_has_focus(self, focused: bool) -> None:
        """Show or hide the cursor. The events of the focus would be handled before `has_focus` is set."""
        super().watch_has_focus(focused)
        self.refresh_rows()

    @property
    def shows_cursor(self) -> bool:
        """Whether the cursor is drawn."""
        return self.has_focus

    def _padded(self, index: int, width: int) -> Row:
        here = index == self.cursor and self.shows_cursor
        row = self.item_row(index, width, " on cursor-row" if here else "")
        return (*row, (" " * width, "on cursor-row")) if here else row


class LongList(CursorSheet[T]):
    """A list below a head row, of which only the visible rows are made. Subclasses write `head_row`."""

    fixed = 1
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+d,pagedown", "page(1)", "Page down", show=False, id="list.page_down"),
        Binding("ctrl+u,pageup,b", "page(-1)", "Page up", show=False, id="list.page_up"),
    ]

    def head_row(self, width: int) -> Row:
        """The row above the items."""
        raise NotImplementedError

    def rows(self, width: int) -> Sequence[Row]:
        """The head and all items."""

        def make(number: int) -> Row:
            if number == 0:
                return self.head_row(width)
            return self._padded(number - 1, width) if self.length else self.empty_row()

        return MadeRows(1 + max(self.length, 1), make)

    def action_move(self, items: int) -> None:
        """Move the cursor."""
        self.cursor = min(max(self.cursor + items, 0), max(self.length - 1, 0))
        self.refresh_rows()
        self.reveal(self.cursor + self.fixed)

    def action_page(self, pages: int) -> None:
        """Move the cursor by the visible number of items."""
        self.action_move(pages * max(self.scrollable_content_region.height - self.fixed - 1, 1))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked item; a second click chooses it."""
        event.prevent_default()  # CursorSheet's handler does not know the head row
        y = event.y - self.gutter.top
        index = self.row_at(y) - self.fixed
        if y >= self.fixed and 0 <= index < self.length:
            self.action_move(index - self.cursor)
            if event.chain == 2:
                self.action_choose()


class ItemList(LongList[T]):
    """A list whose items are replaced again and again, while its cursor stays on the same item.

    Subclasses define the `key` of an item, and its `row`.
    """

    class Moved(Message):
        """The cursor is on another item."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.empty = ""

    def key(self, item: T) -> Hashable:
        """What identifies an item, even if its other values change."""
        raise NotImplementedError

    def row(self, item: T, width: int, /) -> Row:
        """One item; a row wider than `width` is clipped."""
        raise NotImplementedError

    def replace_items(self, items: Sequence[T]) -> None:
        """Show these. If the item under the cursor is gone, the cursor keeps its place as far as possible."""
        here, before = self.chosen, self.cursor
        self.items = tuple(items)
        at = None
        if here is not None:
            key = self.key(here)
            at = next((i for i, item in enumerate(self.items) if self.key(item) == key), None)
        self.cursor = min(self.cursor, max(self.length - 1, 0)) if at is None else at
        self.refresh_rows()
        if self.cursor != before:  # else the person may have scrolled elsewhere
            self.reveal(self.cursor + self.fixed)

    def action_move(self, items: int) -> None:
        """Move the cursor, and post `Moved`."""
        super().action_move(items)
        self.post_message(self.Moved())

    def empty_row(self) -> Row:
        """The text `empty`."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """An item, clipped to the width."""
        return clip(
            tuple((text, style + ground) for text, style in self.row(self.items[index], width)), width
        )


ItemT = TypeVar("ItemT")


@dataclass(frozen=True)  # with slots, `Column[T](…)` fails in Python 3.11
class Column(Generic[ItemT]):
    """One column of a table of `T`.

    Attributes:
        title: its title.
        width: its width in cells.
        cell: gives its text for an item.
        keep: where room is short, columns with the least value are dropped first.
        style: the style of its cells.
        left: whether it is aligned to the left, as texts are; figures are aligned to the right.
        name: what people call it where they choose it or sort by it.
    """

    title: str
    width: int
    cell: Callable[[ItemT], str]
    keep: int
    style: str = ""
    left: bool = False
    name: str = ""

    @property
    def head(self) -> str:
        """The title, as wide as the column."""
        return self.aligned(self.title)

    def text(self, item: ItemT) -> str:
        """The cell of an item, as wide as the column."""
        return self.aligned(self.cell(item))

    def aligned(self, text: str) -> str:
        """A text padded or cut to the width of the column."""
        missing = self.width - cell_len(text)
        if missing < 0:
            return set_cell_size(text, self.width - 1) + "…"
        return text + " " * missing if self.left else " " * missing + text


@dataclass(frozen=True, slots=True)
class Sorted:
    """By which column a table is sorted, and whether the least value comes first."""

    name: str = ""
    rises: bool = True

    @property
    def arrow(self) -> str:
        """The direction as an arrow: up where values rise from row to row."""
        return "↑" if self.rises else "↓"


NUMBERED = Sorted()
"""A table in the order of its items, which no head shows."""


def marked_head(head: str, by: Sorted, name: str) -> str:
    """A column's head, which begins with a space; before the title is an arrow if it is sorted by."""
    if by.name != name:
        return head
    at = len(head) - len(head.lstrip())
    return f"{head[: at - 1]}{by.arrow}{head[at:]}"


def fitting(columns: Sequence[Column[ItemT]], room: int) -> list[Column[ItemT]]:
    """The columns that fit into `room` cells, each with a space beside it."""
    shown = list(columns)
    while shown and sum(column.width + 1 for column in shown) > room:
        shown.remove(min(shown, key=lambda column: column.keep))
    return shown
