"""Titles in a pane's border that cost one line when they change, not the pane.

Textual repaints a whole widget when its title is set, and takes titles for markup; what stands in them
here comes from users and other machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget

if TYPE_CHECKING:
    from typing import Self


class Titled(Widget):
    """A widget whose border says what it shows."""

    _entitling = False

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Put plain text into the border, above and below."""
        self._entitling = True
        try:
            if self.border_title != (text := Content(title)).markup:
                self.border_title = text
            if (self.border_subtitle or "") != (text := Content(subtitle)).markup:
                self.border_subtitle = text
        finally:
            self._entitling = False

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Repaint; while a title is set, only the border's two lines."""
        if self._entitling and not layout:
            width, height = self.outer_size
            regions = (Region(-1, -1, width, 1), Region(-1, height - 2, width, 1))
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)
