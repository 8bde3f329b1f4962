"""A line to type in: flat, and with a cursor that does not blink, for a blink repaints an idle screen."""

from __future__ import annotations

from typing import Any

from textual.widgets import Input


class Field(Input):
    """An input of one line without a frame."""

    def __init__(self, value: str | None = None, **options: Any) -> None:
        super().__init__(value, compact=True, **options)
        self.cursor_blink = False
