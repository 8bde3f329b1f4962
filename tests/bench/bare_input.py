"""An app of Textual with one input and nothing else: the least that a typed character takes."""

from __future__ import annotations

from collections.abc import Iterator

from textual.app import App
from textual.widgets import Input


class BareInput(App[None]):
    """One empty input, which has the focus."""

    def compose(self) -> Iterator[Input]:
        """The input."""
        yield Input(placeholder="type here", compact=True)


if __name__ == "__main__":
    BareInput().run()
