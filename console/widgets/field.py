"""A line to type in: flat, and with a cursor that does not blink, for a blink repaints an idle screen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.cells import cell_len
from rich.segment import Segment
from textual.strip import Strip
from textual.widgets import Input

if TYPE_CHECKING:
    from textual import events


class Field(Input):
    """An input of one line without a frame.

    It may be filled from a record of another machine, so no control character in it reaches the terminal.
    """

    def __init__(self, value: str | None = None, **options: Any) -> None:
        super().__init__(value, compact=True, **options)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        """Type; a question mark in an empty field asks for help, for nothing that is typed begins with it."""
        if event.character == "?" and not self.value:
            event.stop()
            event.prevent_default()
            await self.app.run_action("app.help")
        else:
            await super()._on_key(event)

    def render_line(self, y: int) -> Strip:
        """The line as Textual makes it, but for what a terminal would obey; as wide as before."""
        strip = super().render_line(y)
        if all(segment.text.isprintable() for segment in strip):
            return strip
        return Strip([Segment(_harmless(s.text), s.style) for s in strip], strip.cell_length)


def _harmless(text: str) -> str:
    return "".join(c if c.isprintable() else " " * cell_len(c) for c in text)
