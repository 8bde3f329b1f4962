"""The columns of a table: each cell is a function of the row's item, and the least important leave first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rich.cells import cell_len, set_cell_size

T = TypeVar("T")


@dataclass(frozen=True)  # with slots, Python 3.11 cannot make a `Column[T]` by that name
class Column(Generic[T]):
    """One column of a table of `T`.

    Attributes:
        title: what stands above it.
        width: how many cells it takes.
        cell: what it shows of an item.
        keep: those with the greatest outlast the others where room is short.
        style: the style of its cells.
        left: whether it is a text, which begins at the left; figures end at the right.
    """

    title: str
    width: int
    cell: Callable[[T], str]
    keep: int
    style: str = ""
    left: bool = False

    @property
    def head(self) -> str:
        """The title as it stands above the column."""
        return self.aligned(self.title)

    def text(self, item: T) -> str:
        """What it shows of an item, as wide as the column."""
        return self.aligned(self.cell(item))

    def aligned(self, text: str) -> str:
        """A text as wide as the column; what is too long is cut."""
        missing = self.width - cell_len(text)
        if missing < 0:
            return set_cell_size(text, self.width - 1) + "…"
        return text + " " * missing if self.left else " " * missing + text


def fitting(columns: Sequence[Column[T]], room: int) -> list[Column[T]]:
    """The columns that fit into `room` cells, with a space between any two and one beside them."""
    kept = list(columns)
    while kept and sum(column.width + 1 for column in kept) > room:
        kept.remove(min(kept, key=lambda column: column.keep))
    return kept
