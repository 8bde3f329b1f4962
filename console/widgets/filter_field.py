"""The line in which a person says what a list is to show: there while it says something, or is typed in."""

from __future__ import annotations

from textual import on

from console.widgets.field import Field


class FilterField(Field):
    """Hidden until it is opened, and again once it is left empty."""

    DEFAULT_CSS = "FilterField { height: 1; display: none; }"

    def open(self) -> None:
        """Let a person type in it."""
        self.display = True
        self.focus()

    def close(self) -> bool:
        """Empty it and take it away; whether it was there."""
        was_there, self.value, self.display = self.display, "", False
        return was_there

    @on(Field.Submitted)
    def settle(self) -> None:
        """Stay only with what narrows the list."""
        self.display = bool(self.value.strip())
