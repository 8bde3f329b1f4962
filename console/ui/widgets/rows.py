"""Panes of styled text rows with a title and a border: every pane that is not a log or a form.

A pane provides its rows; only those that changed are repainted, because every repainted cell is sent to the
terminal. Textual would repaint the whole widget when its title is set, and read titles as markup; here, only
the border's line is repainted and titles are plain text, because they come from users and other machines.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar, overload

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.content import Content
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from ...sanitize import printable
from ..rendering.focus import Framed
from ..rendering.scrolling import ContentScroll
from .failed_pane import FailedPane

if TYPE_CHECKING:
    from typing import Self

    from textual import events


_COVERED = 3
"""Height in lines of a failed pane whose height depends on its content."""


class Titled(Framed):
    """A widget with a title in its border. It can be covered by a `FailedPane`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "try_again", "Try again", show=False, id="pane.again"),
    ]

    _entitling: int | None = None
    _titled_cells: int | None = None

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Put plain text into the border, above and below."""
        (title, _), (subtitle, _) = safe(((title, ""), (subtitle, "")))
        try:
            self._entitling = -1
            if (old := self.border_title) != (text := Content(title)).markup:
                self._titled_cells = max(len(old or ""), len(title)) + 6
                self.border_title = text
            self._titled_cells = None
            self._entitling = self.outer_size.height - 2
            if (self.border_subtitle or "") != (text := Content(subtitle)).markup:
                self.border_subtitle = text
        finally:
            self._entitling = None

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Repaint; while a title is set, only that line of the border."""
        if self._entitling is not None and not layout:
            width = self.outer_size.width
            regions = (Region(-1, self._entitling, min(self._titled_cells or width, width), 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    # --- when it has failed --------------------------------------------------------------------------

    @property
    def covered(self) -> bool:
        """Whether this pane failed, and a message is shown in its place."""
        return self._cover_widget is not None

    @property
    def reachable(self) -> bool:
        """Whether it or a widget in it can have the focus, so that keys reach it."""
        return any(isinstance(node, Widget) and node.focusable for node in self.walk_children(with_self=True))

    def cover(self, with_what: FailedPane) -> None:
        """Show a message in place of this pane."""
        self._cover(with_what)
        self.screen.refresh(layout=True)  # the frame that was being drawn is lost

    def uncover(self) -> None:
        """Show this pane again."""
        self._uncover()
        self.screen.refresh(layout=True)

    def recovered(self) -> None:
        """Note that new content was accepted; a pane that had failed is shown again."""
        if isinstance(self._cover_widget, FailedPane):
            self._cover_widget.recovered()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a failed pane has the action `try_again`."""
        return self.covered if action == "try_again" else super().check_action(action, parameters)

    def action_try_again(self) -> None:
        """Show the pane again."""
        self.uncover()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The content's height; that of a failed pane is fixed, because computing it may fail again."""
        return _COVERED if self.covered else super().get_content_height(container, viewport, width)


Span = tuple[str, str]
Row = tuple[Span, ...]

_FLAGS = frozenset({"bold", "dim", "italic", "reverse", "underline"})


class MadeRows(Sequence[Row]):
    """Rows that are made on first access. `made` holds those made so far, by number."""

    def __init__(self, count: int, make: Callable[[int], Row]) -> None:
        self._count, self._make = count, make
        self.made: dict[int, Row] = {}

    @classmethod
    def of(cls, rows: Sequence[Row]) -> MadeRows:
        """These rows."""
        return rows if isinstance(rows, cls) else cls(len(rows), rows.__getitem__)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Row]:
        return (self[number] for number in range(self._count))

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


class Sheet(Titled, ContentScroll):
    """Shows `rows(width)`. A style is a text: flags, a theme variable, and ``on`` with another variable."""

    DEFAULT_CSS = """
    Sheet { height: 1; overflow-x: hidden; overflow-y: auto; scrollbar-size-vertical: 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = []

    fixed = 0
    """How many rows at the top do not scroll."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._rows = MadeRows.of(())
        self._palette: dict[str, Style] = {}

    def rows(self, width: int) -> Sequence[Row]:
        """The content, for a pane that is `width` cells wide. Of `MadeRows`, only visible ones are made."""
        raise NotImplementedError

    def on_mount(self) -> None:
        """Draw, and draw again when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self.restyle())
        self.refresh_rows()

    def on_resize(self, _: events.Resize) -> None:
        """Lay the content out for the new width."""
        self.refresh_rows()

    def restyle(self) -> None:
        """Repaint in the colours of the new theme."""
        self._palette.clear()
        self.refresh()

    def refresh_rows(self) -> None:
        """Make the rows again, and repaint what differs."""
        self._repaint_changes()
        self.recovered()

    def action_try_again(self) -> None:
        """Show the pane again, with rows made anew."""
        super().action_try_again()
        self.refresh_rows()

    def _repaint_changes(self) -> None:
        """Make the rows, and repaint what differs."""
        width, new = self._fitted()
        old, self._rows = self._rows, new
        self.virtual_size = Size(width, len(new))
        gone = ((number, 0, None) for number in self._visible(len(old)) if number >= len(new))
        self.repaint_rows([*self._changed(old, new), *gone])

    def _fitted(self) -> tuple[int, MadeRows]:
        """The rows, and the width that they are laid out for: beside a scroll bar, or all that there is.

        They are made for the bar that is there, and again if that is not the one they need. Rows that need
        one only without it are those beside it.
        """
        width = self.scrollable_content_region.width
        new = MadeRows.of(self.rows(width))
        needs_bar = len(new) > self.size.height
        if not self.size or self.styles.overflow_y != "auto" or needs_bar is self.show_vertical_scrollbar:
            return width, new
        width += -self.styles.scrollbar_size_vertical if needs_bar else self.scrollbar_size_vertical
        return width, MadeRows.of(self.rows(width))

    def _changed(self, old: MadeRows, new: MadeRows) -> Iterator[tuple[int, int, int | None]]:
        for number in self._visible(len(new)):
            before, after = old.made.get(number), new[number]
            if before is None:
                yield number, 0, None
            elif before is not after and before != after:
                yield number, *differing(before, after)

    def _visible(self, count: int) -> Iterator[int]:
        top, fixed = self.scroll_offset.y, min(self.fixed, count)
        yield from range(fixed)
        yield from range(top + fixed, min(top + self.size.height, count))

    def repaint_rows(self, changed: Iterable[tuple[int, int, int | None]]) -> None:
        """Repaint parts of rows: number, first cell, and the cell after the last (None: to the row's end)."""
        regions = [region for row in changed if (region := self._place_of(*row)) is not None]
        if regions:
            self.refresh(*regions)

    def _place_of(self, number: int, start: int, end: int | None) -> Region | None:
        """The region of some cells of a row; None if it is not on the screen."""
        y = number if number < self.fixed else number - self.scroll_offset.y
        if not 0 <= y < self.size.height or (number >= self.fixed > y):
            return None
        width = self.size.width
        right = width if end is None else min(end, width)
        return Region(start, y, right - start, 1) if start < right else None

    def row_at(self, y: int) -> int:
        """The number of the row that line `y` of the pane shows."""
        return y if y < self.fixed else y + self.scroll_offset.y

    def reveal(self, number: int) -> None:
        """Scroll as little as possible to make a row visible."""
        top, height = self.scroll_offset.y, self.scrollable_content_region.height
        if number - self.fixed < top:
            self.scroll_to(y=number - self.fixed, animate=False, immediate=True)
        elif number >= top + height:
            self.scroll_to(y=number - height + 1, animate=False, immediate=True)

    def render_line(self, y: int) -> Strip:
        """One line of the pane."""
        width, number = self.size.width, self.row_at(y)
        if number >= len(self._rows):
            return Strip.blank(width, self.style_of(""))
        segments = [Segment(text, self.style_of(style)) for text, style in self._rows[number]]
        return Strip(segments).adjust_cell_length(width, self.style_of("")).simplify()

    def style_of(self, words: str) -> Style:
        """The style for `words` in the current theme."""
        style = self._palette.get(words)
        if style is None:
            style = self._palette[words] = self.rich_style + self._parsed(words)
        return style

    def color_of(self, word: str) -> Color:
        """The colour of a style word in the current theme."""
        return Color.parse(self.app.theme_variables[word])

    def _parsed(self, words: str) -> Style:
        ground, style = False, Style()
        for word in words.split():
            if word == "on":
                ground = True
            elif word in _FLAGS:
                style += Style.parse(word)
            else:
                color = self.color_of(word).rich_color
                plain = ground and self.app.no_color
                style += (
                    Style(reverse=True) if plain else Style(bgcolor=color) if ground else Style(color=color)
                )
                ground = False
        return style


class ScrollingSheet(Sheet, can_focus=True):
    """A sheet that can be scrolled with the keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "scroll_down", "Down", show=False, id="sheet.down"),
        Binding("k,up", "scroll_up", "Up", show=False, id="sheet.up"),
        Binding("ctrl+d,pagedown,space", "page_down", "Page down", show=False, id="sheet.page_down"),
        Binding("ctrl+u,pageup,b", "page_up", "Page up", show=False, id="sheet.page_up"),
        Binding("g,home", "scroll_home", "Top", show=False, id="sheet.top"),
        Binding("G,end", "scroll_end", "End", show=False, id="sheet.end"),
    ]


def safe(row: Row) -> Row:
    """The row with a space for each control character: texts come from other machines and from user code."""
    if "".join([text for text, _ in row]).isprintable():
        return row
    return tuple(("".join(c if c.isprintable() else " " for c in text), style) for text, style in row)


def differing(before: Row, after: Row) -> tuple[int, int]:
    """The first cell in which two rows differ, and the cell after the last."""
    start = _alike(before, after)
    width, other = width_of(before), width_of(after)
    if width != other:
        return start, max(width, other)
    return start, width - _alike(_mirrored(before), _mirrored(after))


def _mirrored(row: Row) -> Row:
    return tuple((text[::-1], style) for text, style in reversed(row))


def _alike(before: Row, after: Row) -> int:
    """How many cells at the start of two rows are equal."""
    cells = 0
    for (text, style), (other, other_style) in zip(before, after, strict=False):
        if style != other_style:
            break
        if text != other:
            pairs = enumerate(zip(text, other, strict=False))
            same = next((n for n, (a, b) in pairs if a != b), min(len(text), len(other)))
            return cells + cell_len(text[:same])
        cells += cell_len(text)
    return cells


def joined(cells: Iterable[Span], ground: str = "") -> Iterator[Span]:
    """Neighbouring cells of one style as one span; `ground` ends every style."""
    for style, some in groupby(cells, key=lambda cell: cell[1]):
        yield "".join(text for text, _ in some), style + ground


def width_of(row: Row) -> int:
    """How many cells a row takes."""
    return sum(cell_len(text) for text, _ in row)


def spread(left: Row, right: Row, width: int) -> Row:
    """`left` and `right` at the two ends; without room for both, only `left`."""
    room = width - width_of(left) - width_of(right)
    return (*left, (" " * room, ""), *right) if room >= 1 else clip(left, width)


def wrapped_rows(text: str, width: int, style: str = "") -> Iterator[Row]:
    """A text wrapped to the width, with its indentation; nothing for an empty text."""
    for line in printable(text).splitlines():
        inner = line.lstrip()
        indent = " " * min(len(line) - len(inner), width // 2)
        wrapped = textwrap.wrap(
            inner, max(width - 2, 20), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        yield from (((f" {part}", style),) for part in wrapped)


def clip(row: Row, width: int) -> Row:
    """As much of a row as fits, with an ellipsis if something is missing."""
    row = safe(row)  # a control character takes no cell, the space in its place does
    if width_of(row) <= width:
        return row
    clipped: list[Span] = []
    room = width - 1
    for text, style in row:
        if cell_len(text) > room:
            clipped.append((set_cell_size(text, max(room, 0)) + "…", style))
            break
        clipped.append((text, style))
        room -= cell_len(text)
    return tuple(clipped)
