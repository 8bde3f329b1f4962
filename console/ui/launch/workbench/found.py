"""The list of the trainings found in the folder: one is taken into the form by enter or a click."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.message import Message

from ....data.launch.targets import Candidate, matched, narrow
from ...widgets.lists import CursorSheet
from ...widgets.rows import Row, clip, width_of
from ..target_text import marked_target
from .layout import TITLE_FOUND

if TYPE_CHECKING:
    from textual import events

_NAMED = 30
_USES_FROM = 90


class TrainingList(CursorSheet[Candidate]):
    """A line for each training: its target, and the first sentence of its docstring.

    Its cursor is also shown and moved while the Target field has the focus: then it is `led`.
    """

    class Highlighted(Message):
        """Another training is under the cursor, or none."""

    def __init__(self) -> None:
        super().__init__(id="found", classes="pane")
        self.border_title = TITLE_FOUND
        self.led = False
        self.query_text = ""
        self._all: Sequence[Candidate] = ()
        self._done = False

    @property
    def shows_cursor(self) -> bool:
        """Whether keys move it."""
        return self.led or self.has_focus

    def show(self, found: Sequence[Candidate], *, done: bool) -> None:
        """Show these, the likeliest first; `done` if all of the folder was looked at."""
        self._all, self._done = found, done
        self._narrow()

    def narrow(self, query: str) -> None:
        """Show those that match these letters; all of them without letters."""
        if query != self.query_text:
            self.query_text = query
            self.cursor = 0
            self._narrow()

    def matches(self, query: str) -> bool:
        """Whether any training matches these letters."""
        return bool(narrow(self._all, query))

    def lead(self, led: bool) -> None:
        """Show the cursor, or hide it."""
        if led != self.led:
            self.led = led
            self.refresh_rows()

    def _narrow(self) -> None:
        here = self.chosen
        self.items = narrow(self._all, self.query_text)
        at = (i for i, item in enumerate(self.items) if here is not None and item.target == here.target)
        self.cursor = next(at, 0) if self.cursor else 0
        count = f" · {len(self.items)}" if self.items else ""
        few = f" of {len(self._all)}" if len(self.items) < len(self._all) and self.items else ""
        self.entitle(f"{TITLE_FOUND}{count}{few}", "" if self._done else "reading …")
        self.refresh_rows()
        self.reveal(self.cursor)
        if self.chosen != here:
            self.post_message(self.Highlighted())

    def empty_row(self) -> Row:
        """The text without trainings."""
        if not self._done:
            return ((" reading this folder …", "muted"),)
        return ((" no Python program that can be run" if not self._all else " nothing matches", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """The target with the matched letters marked, its frameworks if there is room, its docstring."""
        item = self.items[index]
        at = matched(item.target, self.query_text)
        name = clip((("▸ " if ground else "  ", ground), *marked_target(item.target, at, ground)), width)
        room = min(max(width_of(name) + 2, self._names), max(width - 12, 8))
        row = (*name, (" " * max(room - width_of(name), 2), ground), (item.doc, f"muted{ground}"))
        uses = item.uses[0] if item.uses else ""
        if width >= _USES_FROM and uses:
            left = clip(row, width - cell_len(uses) - 3)
            return (*left, (" " * (width - width_of(left) - cell_len(uses) - 1) + uses, f"rank-ok{ground}"))
        return clip(row, width)

    @property
    def _names(self) -> int:
        """The width of the column of targets."""
        return min(max((cell_len(item.target) for item in self.items[:50]), default=0), _NAMED) + 4

    def action_move(self, items: int) -> None:
        """Move the cursor."""
        before = self.cursor
        super().action_move(items)
        if self.cursor != before:
            self.post_message(self.Highlighted())

    def on_click(self, event: events.Click) -> None:
        """Take the training that was clicked."""
        event.prevent_default()  # in other lists a first click only moves the cursor
        index = self.row_at(event.y - self.gutter.top)
        if 0 <= index < self.length:
            self.action_move(index - self.cursor)
            self.action_choose()
