"""Titles in a pane's border that cost one line when they change, not the pane.

Textual repaints a whole widget when its title is set, and takes titles for markup; what stands in them
here comes from users and other machines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Region, Size
from textual.widget import Widget

from console.widgets.failed_pane import FailedPane
from console.widgets.framed import Framed

if TYPE_CHECKING:
    from typing import Self

_COVERED = 3
"""Lines of a pane that failed, where it is as high as what is in it."""


class Titled(Framed):
    """A widget whose border says what it shows."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "try_again", "Try again", show=False, id="pane.again"),
    ]

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

    # --- when it has failed --------------------------------------------------------------------------

    @property
    def covered(self) -> bool:
        """Whether it failed, and that is shown in its place."""
        return self._cover_widget is not None

    @property
    def reachable(self) -> bool:
        """Whether a key can be meant for it."""
        return any(isinstance(node, Widget) and node.focusable for node in self.walk_children(with_self=True))

    def cover(self, with_what: FailedPane) -> None:
        """Show something else in its place."""
        self._cover(with_what)
        self.screen.refresh(layout=True)  # the frame that was being drawn is lost

    def uncover(self) -> None:
        """Be seen again."""
        self._uncover()
        self.screen.refresh(layout=True)

    def well(self) -> None:
        """What it is to show was taken; if it had failed, let it be seen again."""
        if isinstance(self._cover_widget, FailedPane):
            self._cover_widget.well()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what failed can be tried again."""
        return self.covered if action == "try_again" else super().check_action(action, parameters)

    def action_try_again(self) -> None:
        """Show once more what there is to show."""
        self.uncover()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Its own; one that failed is not asked."""
        return _COVERED if self.covered else super().get_content_height(container, viewport, width)
