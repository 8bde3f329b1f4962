"""A table of Textual without a life of its own: the least that a table takes. Run with its number of rows."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from textual.app import App
from textual.widgets import DataTable


class BareTable(App[None]):
    """Rows like those of ranks, and the number of its frames."""

    frames = 0

    def __init__(self, rows: int, **options: Any) -> None:
        super().__init__(**options)
        self._count = rows

    def compose(self) -> Iterator[DataTable[str]]:
        """The table."""
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        """Fill it."""
        table = self.query_one(DataTable)
        table.add_columns("rank", "state", "host", "step", "loss", "GPU", "memory")
        for rank in range(self._count):
            table.add_row(str(rank), "running", "gpu-001", "1200", "2.1134", "97%", "70 GiB")

    def post_display_hook(self) -> None:
        """Count a frame."""
        self.frames += 1


if __name__ == "__main__":
    BareTable(int(sys.argv[1])).run()
