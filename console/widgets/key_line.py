"""The keys at the bottom of a screen, in one line that is repainted alone.

Textual's footer makes its widgets anew whenever the focus moves, and with them paints the whole screen.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from console.widgets.sheet import Row, Sheet, clip

if TYPE_CHECKING:
    from textual import events
    from textual.binding import Binding


class KeyLine(Sheet):
    """What the bindings that are shown do here; a click is as good as the key."""

    DEFAULT_CSS = """
    KeyLine { height: 1; dock: bottom; }
    """

    def on_mount(self) -> None:
        """Follow the focus."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh_rows())

    def rows(self, width: int) -> list[Row]:
        """One."""
        pairs = (((f" {key}", "bold"), (f" {what}", "muted")) for key, what, _ in self._keys())
        return [clip(tuple(chain(*pairs)), width)]

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked on."""
        right = 0
        for key, what, binding in self._keys():
            right += len(key) + len(what) + 2
            if event.x < right:
                self.app.simulate_key(binding.key)
                return

    def _keys(self) -> Iterator[tuple[str, str, Binding]]:
        """Each action once, by the first key that has it."""
        told = set()
        for active in self.screen.active_bindings.values():
            binding = active.binding
            if binding.show and active.enabled and binding.action not in told:
                told.add(binding.action)
                yield self.app.get_key_display(binding), binding.description, binding
