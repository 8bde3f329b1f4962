"""The comparison of two runs: their differences, and in one line how much is equal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message

from launcher.errors import LauncherError

from ... import formatting as fig
from ...data.history.comparison import Comparison, compared, difference_row, shortened_ids
from ...formatting import table
from ..navigation import NavigableScreen
from ..widgets.key_line import KeyLine
from ..widgets.rows import Row, ScrollingSheet, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NAME, _DELTA, _LEAST = 28, 22, 10


class ComparisonSheet(ScrollingSheet):
    """The differences, section by section."""

    def __init__(self, left: str, right: str) -> None:
        super().__init__(id="comparison", classes="pane")
        self._left, self._right = left, right
        self.found: Comparison | None = None
        self.problem = ""

    def show(self, found: Comparison | None, problem: str = "") -> None:
        """Show the comparison, or why the runs cannot be compared."""
        self.found, self.problem = found, problem
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """A heading for each section that differs, and a row for each value."""
        if self.found is None:
            lines = textwrap.wrap(self.problem or "reading both runs …", max(20, width - 2))
            return [((f" {line}", "muted"),) for line in lines]
        return [clip(row, width) for row in self._lines(self.found, width)]

    def _lines(self, found: Comparison, width: int) -> Iterator[Row]:
        sections = {s.name: [difference_row(s.name, d)[1:] for d in s.differences] for s in found.sections}
        sizes = _sizes([row for rows in sections.values() for row in rows], width)
        left, right = shortened_ids(self._left, self._right, sizes[1] - 2)
        yield ((_cells(("", f"A {left}", f"B {right}", "B - A"), sizes), "muted"),)
        for section, rows in sections.items():
            if rows:
                yield ((f" {section}", "bold"),)
            for row in rows:
                yield ((_cells(row, sizes), ""),)
        equal = [f"{s.name} {s.equal}" for s in found.sections if s.equal]
        yield ((f" equal: {', '.join(equal) or 'nothing'}", "muted"),)
        for note in found.notes:
            yield ((f" note: {note}", "rank-behind"),)

    def text(self) -> str:
        """The differences as a table for other programs."""
        if self.found is None:
            return ""
        rows = [difference_row(s.name, d) for s in self.found.sections for d in s.differences]
        return table(("", "", f"A {self._left}", f"B {self._right}", "B - A"), rows)


def _sizes(rows: Sequence[Sequence[str]], width: int) -> tuple[int, int, int, int]:
    """The widths of the columns: names and differences take what they need, the values share the rest."""
    name = min(max((len(row[0]) for row in rows), default=0), _NAME)
    delta = min(max((len(row[3]) for row in rows), default=0) or len("B - A"), _DELTA)
    value = max((width - name - delta - 7) // 2, _LEAST)  # 7: a cell at the left, two between columns
    return name, value, value, delta


def _cells(row: Sequence[str], sizes: Sequence[int]) -> str:
    return " " + "  ".join(
        f"{fig.shorten(text, size):<{size}}" for text, size in zip(row, sizes, strict=True)
    )


class ComparisonScreen(NavigableScreen):
    """Compares two runs."""

    TOPIC = "history"
    AUTO_FOCUS = "#comparison"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="compare.back"),
        Binding("y", "copy", "Copy", id="compare.copy"),
        Binding("q", "app.detach", "Quit", show=False, id="compare.quit"),
    ]

    class Compared(Message):
        """The comparison, or why the runs cannot be compared."""

        def __init__(self, found: Comparison | None, problem: str = "") -> None:
            super().__init__()
            self.found, self.problem = found, problem

    def __init__(self, left: Path, right: Path) -> None:
        super().__init__()
        self._left, self._right = left, right

    def compose(self) -> ComposeResult:
        """The pane, and the keys."""
        yield ComparisonSheet(self._left.name, self._right.name)
        yield KeyLine()

    def on_mount(self) -> None:
        """Read both runs."""
        self.query_one(ComparisonSheet).entitle("Compare")
        self._compare()

    @work(thread=True, group="compare")
    def _compare(self) -> None:
        try:
            self.post_message(self.Compared(compared(self._left, self._right)))
        except LauncherError as error:
            self.post_message(self.Compared(None, str(error)))

    @on(Compared)
    def _show(self, message: Compared) -> None:
        self.query_one(ComparisonSheet).show(message.found, message.problem)

    def action_copy(self) -> None:
        """Copy the differences."""
        if text := self.query_one(ComparisonSheet).text():
            self.app.copy_to_clipboard(text)
