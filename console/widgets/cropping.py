"""Frames that hold the cells which changed, and not those to their left.

Textual begins at the left end of a widget for whatever it repaints in one of its lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

# Textual has no public way to say how a screen is composed
from textual._compositor import ChopsUpdate, Compositor

if TYPE_CHECKING:
    from rich.console import Console
    from textual.strip import Strip


class CroppingCompositor(Compositor):
    """Composes a screen as Textual does, and repaints regions of it cell by cell."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """What is to be repainted, or None."""
        update = super().render_partial_update()
        return None if update is None else CroppedUpdate(update.chops, update.spans, update.chop_ends)


class CroppedUpdate(ChopsUpdate):
    """Spans of lines, each from its first cell to its last."""

    def render_segments(self, console: Console) -> str:
        """What a terminal is sent."""
        return "".join(
            f"\x1b[{y + 1};{x + 1}H{strip.render(console)}"
            for y, first, last in self.spans
            for x, strip in self._pieces(y, first, last)
        )

    def _pieces(self, y: int, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
            left, right = max(x, first), min(end, last)
            if strip is not None and left < right:
                yield left, strip if (left, right) == (x, end) else strip.crop(left - x, right - x)
