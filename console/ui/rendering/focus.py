"""Widgets whose border alone shows that they have the focus: no more than that is sent when it moves."""

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
    """Repaints its border when the focus moves; what else depends on the focus it repaints itself."""

    _moving: ClassVar[bool] = False

    @staticmethod
    @contextmanager
    def focus_moves() -> Iterator[None]:
        """What is repainted as a whole meanwhile, without a new layout, is so for the focus."""
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
        if may_use():  # else Textual's own handler, which comes after this one, does it all
            with self.focus_moves():
                super()._on_focus(event)
            event.prevent_default()

    def _on_blur(self, event: events.Blur) -> None:
        if may_use():
            with self.focus_moves():
                super()._on_blur(event)
            event.prevent_default()

    def _edges(self) -> tuple[Region, ...]:
        """The lines of the border, as the content sees them; none where there is no border."""
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
