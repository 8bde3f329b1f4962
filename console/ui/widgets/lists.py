"""Lists with a cursor and tables whose least important columns leave first."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, overload

from rich.cells import cell_len, set_cell_size
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from .rows import Row, ScrollingSheet, clip, differing, safe

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
            """The list it was chosen from."""
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


class LongList(CursorSheet[T]):
    """A list below a head row, of which only the visible rows are made. Subclasses write `head_row`."""

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

    def _lay_out(self, width: int) -> None:
        """Only what is seen is made."""
        old, self._rows = self._rows, (new := self.rows(width))
        if len(new) != len(old) or not isinstance(old, MadeRows):
            self.virtual_size = Size(width, len(new))
            self.refresh()
            return
        self.repaint_rows(self._changed(old, new))

    def _changed(self, old: MadeRows, new: MadeRows) -> Iterator[tuple[int, int, int | None]]:
        for number in self._seen(len(new)):
            before, after = old.made.get(number), new[number]
            if before is None:
                yield number, 0, None
            elif before != after:
                yield number, *differing(before, after)

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


class ItemList(LongList[T]):
    """A list that is told its items again and again, and keeps its cursor on the same one.

    Subclasses say what the `key` of an item is, and make its `row`.
    """

    class Moved(Message):
        """The cursor is on another item."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.empty = ""

    def key(self, item: T) -> Hashable:
        """What tells an item from the others, however it looks."""
        raise NotImplementedError

    def row(self, item: T, width: int, /) -> Row:
        """One item, as wide as it likes."""
        raise NotImplementedError

    def replace_items(self, items: Sequence[T]) -> None:
        """Show these. If the item under the cursor has gone, the cursor stays as near as can be."""
        here, before = self.chosen, self.cursor
        self.items = tuple(items)
        at = None
        if here is not None:
            wanted = self.key(here)
            at = next((i for i, item in enumerate(self.items) if self.key(item) == wanted), None)
        self.cursor = min(self.cursor, max(self.length - 1, 0)) if at is None else at
        self.refresh_rows()
        if self.cursor != before:  # else one may look elsewhere
            self.reveal(self.cursor + self.fixed)

    def action_move(self, items: int) -> None:
        """Move the cursor, and tell."""
        super().action_move(items)
        self.post_message(self.Moved())

    def empty_row(self) -> Row:
        """What is said where there are none."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """An item, as far as it fits."""
        return clip(
            tuple((text, style + ground) for text, style in self.row(self.items[index], width)), width
        )


ItemT = TypeVar("ItemT")


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make a `Column[T]` by that name
class Column(Generic[ItemT]):
    """One column of a table of `T`.

    Attributes:
        title: what stands above it.
        width: how many cells it takes.
        cell: what it shows of an item.
        keep: those with the greatest outlast the others where room is short.
        style: the style of its cells.
        left: whether it is a text, which begins at the left; figures end at the right.
    """

    title: str
    width: int
    cell: Callable[[ItemT], str]
    keep: int
    style: str = ""
    left: bool = False

    @property
    def head(self) -> str:
        """The title as it stands above the column."""
        return self.aligned(self.title)

    def text(self, item: ItemT) -> str:
        """What it shows of an item, as wide as the column."""
        return self.aligned(self.cell(item))

    def aligned(self, text: str) -> str:
        """A text as wide as the column; what is too long is cut."""
        missing = self.width - cell_len(text)
        if missing < 0:
            return set_cell_size(text, self.width - 1) + "…"
        return text + " " * missing if self.left else " " * missing + text


def fitting(columns: Sequence[Column[ItemT]], room: int) -> list[Column[ItemT]]:
    """The columns that fit into `room` cells, with a space between any two and one beside them."""
    kept = list(columns)
    while kept and sum(column.width + 1 for column in kept) > room:
        kept.remove(min(kept, key=lambda column: column.keep))
    return kept
