"""Scrolled views whose content may grow and shrink without a new layout of the screen."""

from __future__ import annotations

from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView

from .insides import may_use


class ContentScroll(ScrollView):
    """A scrolled view whose own size does not depend on its content's; ``height: auto`` does not work for it.

    Textual lays out the whole screen when the size of a content changes. That takes tens of milliseconds,
    and moves nothing but this view's scroll bar. A subclass repaints what it shows.
    """

    virtual_size: Reactive[Size] = Reactive(Size(0, 0), repaint=False)

    def watch_virtual_size(self) -> None:
        """Show the scroll bar that fits the content, and stay within the content."""
        if may_use():
            self._scroll_update(self.virtual_size)
        else:
            self.refresh(layout=True)
