"""Widgets that show the focus only by their border: only the border is sent when the focus moves."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

from textual.geometry import Region
from textual.widget import Widget

from .insides import may_use

if TYPE_CHECKING:
    from typing import Self

    from textual import events


class Framed(Widget):
    """Repaints only its border when the focus moves; a subclass repaints what else depends on the focus."""

    _moving: ClassVar[bool] = False

    @staticmethod
    @contextmanager
    def focus_moves() -> Iterator[None]:
        """While this is active, a repaint of a whole widget without a new layout repaints only the border."""
        before, Framed._moving = Framed._moving, may_use()
        try:
            yield
        finally:
            Framed._moving = before

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Repaint; while the focus moves, only the border."""
        if Framed._moving and not (regions or layout or recompose):
            regions = self._edges()
            if not regions:
                return self
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

    def _on_focus(self, event: events.Focus) -> None:
        if may_use():  # else Textual's own handler, which runs after this one, does everything
            with self.focus_moves():
                super()._on_focus(event)
            event.prevent_default()

    def _on_blur(self, event: events.Blur) -> None:
        if may_use():
            with self.focus_moves():
                super()._on_blur(event)
            event.prevent_default()

    def _edges(self) -> tuple[Region, ...]:
        """The lines of the border in coordinates of the content; none if there is no border."""
        width, height = self.outer_size
        if not self.styles.border.spacing.top or width < 2 or height < 2:
            return ()
        left, top = -self.gutter.left, -self.gutter.top
        return (
            Region(left, top, width, 1),
            Region(left, top + height - 1, width, 1),
            Region(left, top + 1, 1, height - 2),
            Region(left + width - 1, top + 1, 1, height - 2),
        )
