"""Titles in a pane's border that cost one line when they change, not the pane.

Textual repaints a whole widget when its title is set, and takes titles for markup; what stands in them
here comes from users and other machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.content import Content
from textual.geometry import Region

from console.widgets.framed import Framed

if TYPE_CHECKING:
    from typing import Self


class Titled(Framed):
    """A widget whose border says what it shows."""

    _entitling: int | None = None
    _titled_cells: int | None = None

    def entitle(self, title: str, subtitle: str = "") -> None:
        """Put plain text into the border, above and below."""
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
