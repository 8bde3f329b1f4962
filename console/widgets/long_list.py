"""A list with a cursor under a fixed head, as long as it likes: only the rows that are seen are made."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar, Generic, TypeVar, overload

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from console.widgets.cursor_sheet import CursorSheet
from console.widgets.sheet import Row, clip, differing, safe

if TYPE_CHECKING:
    from textual import events

T = TypeVar("T")


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


class ItemList(LongList, Generic[T]):
    """A list that is told its items again and again, and keeps its cursor on the same one.

    Subclasses say what the `key` of an item is, and make its `row`.
    """

    class Moved(Message):
        """The cursor is on another item."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.items: tuple[T, ...] = ()
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

    @property
    def chosen(self) -> T | None:
        """What is under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    @property
    def length(self) -> int:
        """How many items."""
        return len(self.items)

    def empty_row(self) -> Row:
        """What is said where there are none."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """An item, as far as it fits."""
        return clip(
            tuple((text, style + ground) for text, style in self.row(self.items[index], width)), width
        )
