"""Sheets in which one frame of a traceback or a stack is selected, whose code a key opens in an editor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from ...data.code.source import Spot
from ..widgets.rows import Row, clip, width_of
from .view_sheet import ScrollingViewSheet

if TYPE_CHECKING:
    from textual import events

_MARK = "▸"
_BELOW = 3
"""How many rows below a selected frame are brought into view with it: its code."""


class FrameSheet(ScrollingViewSheet, can_focus=True):
    """A sheet with frames in it, of which one is selected."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "frame(1)", "Next frame", show=False, id="frame.next"),
        Binding("p", "frame(-1)", "Previous frame", show=False, id="frame.previous"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self._spots: Mapping[int, Spot] = {}
        self._at: int | None = None
        self._chosen = False

    def framed_rows(self, width: int) -> tuple[Sequence[Row], Mapping[int, Spot]]:
        """The rows, and the frames that some of them begin, by the rows' numbers."""
        raise NotImplementedError

    def first_of(self, spots: Mapping[int, Spot]) -> int | None:
        """The row of the frame that is selected until a person selects another; None for none."""
        return next(iter(spots), None)

    @property
    def spot(self) -> Spot | None:
        """The selected frame."""
        return None if self._at is None else self._spots.get(self._at)

    def rows(self, width: int) -> Sequence[Row]:
        """The rows, with a mark at the selected frame."""
        rows, spots = self.framed_rows(width)
        if spots != self._spots:
            self._at, self._spots = self._kept(spots), spots
        if self._at is None or self._at >= len(rows):
            return rows
        return [*rows[: self._at], marked(rows[self._at], width), *rows[self._at + 1 :]]

    def _kept(self, spots: Mapping[int, Spot]) -> int | None:
        """Where the selection is in other rows: at the frame that a person chose, if it is still there."""
        chosen = self.spot if self._chosen else None
        kept = next((row for row, spot in spots.items() if spot == chosen), None)
        self._chosen = kept is not None
        return self.first_of(spots) if kept is None else kept

    def action_frame(self, step: int) -> None:
        """Select the next frame, or the previous one."""
        rows = sorted(self._spots)
        if not rows:
            return
        at = rows.index(self._at) if self._at is not None and self._at in self._spots else -1
        self._select(rows[min(max(at + step, 0), len(rows) - 1)])

    def on_click(self, event: events.Click) -> None:
        """Select the frame that is clicked on, or above the code that is."""
        number = self.row_at(event.y - self.gutter.top)
        if above := [row for row in self._spots if row <= number]:
            self._select(max(above))

    def _select(self, row: int) -> None:
        self._at, self._chosen = row, True
        self.refresh_rows()
        self.reveal(min(row + _BELOW, len(self._rows) - 1))
        self.reveal(row)


def fitted(row: Row, spot: Spot | None, width: int) -> Row:
    """The row, clipped to a width: a frame's loses the head of its path, so that its line is seen."""
    excess = width_of(row) - width
    if spot is None or excess <= 0 or not row:
        return clip(row, width)
    name = spot.file.rpartition("/")[2]
    _, _, tail = spot.file[excess + 1 :].partition("/")
    kept = f"…/{tail}" if len(tail) > len(name) else f"…/{name}"
    (text, style), *rest = row
    return clip(((text.replace(spot.file, kept, 1), style), *rest), width)


def marked(row: Row, width: int) -> Row:
    """A frame's row with the mark of the selected one, in place of spaces that it begins with."""
    (first, style), *rest = row or (("", ""),)
    inner = first.lstrip(" ")
    indent = len(first) - len(inner)
    lead = f"{' ' * (indent - 2)}{_MARK} " if indent > 1 else _MARK
    return clip(((lead + inner, f"{style.replace('muted', '')} bold".strip()), *rest), width)
