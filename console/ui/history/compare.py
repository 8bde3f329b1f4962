"""The comparison of two to eight runs: their curves together, and a row for each value, differing first."""

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
from ...data.curves.run_curves import RunCurves
from ...data.history.comparison import (
    Comparison,
    compared,
    difference_row,
    differences_text,
    letter,
    shortened_ids,
    value_cell,
)
from ...sanitize import printable
from ..curves.sheet import CurveSheet, Traced, style_of_run
from ..navigation import NavigableScreen
from ..widgets.failed_pane import contained
from ..widgets.key_line import KeyLine
from ..widgets.rows import Row, ScrollingSheet, Span, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NAME, _DELTA, _LEAST = 28, 22, 6


class ComparisonSheet(ScrollingSheet):
    """The values of all runs, section by section: those that differ, then those that are equal."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(id="comparison", classes="pane")
        self._names = names
        self.found: Comparison | None = None
        self.problem = ""

    def show(self, found: Comparison | None, problem: str = "") -> None:
        """Show the comparison, or why the runs cannot be compared."""
        self.found, self.problem = found, problem
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """A heading for each section that differs, and a row for each value."""
        if self.found is None:
            lines = textwrap.wrap(self.problem or "reading the runs …", max(20, width - 2))
            return [((f" {line}", "muted"),) for line in lines]
        return [clip(row, width) for row in self._lines(self.found, width)]

    def _lines(self, found: Comparison, width: int) -> Iterator[Row]:
        sections = {s.name: [difference_row(s.name, d)[1:] for d in s.differences] for s in found.sections}
        sizes = _sizes([row for rows in sections.values() for row in rows], len(self._names), width)
        yield self._head(sizes)
        for section, rows in sections.items():
            if rows:
                yield ((f" {section}", "bold"),)
            for row in rows:
                yield ((_cells(row, sizes), ""),)
        for note in found.notes:
            yield ((f" note: {note}", "rank-behind"),)
        yield from self._equal(found)

    def _head(self, sizes: Sequence[int]) -> Row:
        ids = shortened_ids(self._names, sizes[1] - 2)
        spans: list[Span] = [(" " * (sizes[0] + 3), "")]
        for number, each in enumerate(ids):
            rest = fig.shorten(each, max(sizes[1] - 2, 1))
            spans += [(letter(number), f"{style_of_run(number)} bold"), (f" {rest:<{sizes[1]}}", "muted")]
        if len(ids) == 2:
            return (*spans, ("B - A", "muted"))
        text, style = spans[-1]
        return (*spans[:-1], (text.rstrip(), style))

    def _equal(self, found: Comparison) -> Iterator[Row]:
        """What is equal in all runs."""
        count = sum(section.equal for section in found.sections)
        yield ((f" equal {count}", "bold"), ("" if count else " nothing", "muted"))
        for section in found.sections:
            for name, value in section.same.items():
                text = f" {printable(name):<{_NAME}}  {value_cell(section.name, value)}"
                yield ((text, "muted"), (f"  {section.name}", "muted dim"))

    def text(self) -> str:
        """The differences as a table for other programs."""
        return "" if self.found is None else differences_text(self._names, self.found)


def _sizes(rows: Sequence[Sequence[str]], runs: int, width: int) -> tuple[int, ...]:
    """The widths of the columns: names and differences take what they need, the values share the rest."""
    name = min(max((len(row[0]) for row in rows), default=0), _NAME if runs < 5 else _NAME - 8)
    delta = 0
    if runs == 2:
        delta = min(max((len(row[3]) for row in rows), default=0) or len("B - A"), _DELTA)
    taken = name + delta + 1 + 2 * (runs + bool(delta))  # a cell at the left, two between columns
    value = max((width - taken) // runs, _LEAST)
    return (name, *[value] * runs, *([delta] if delta else []))


def _cells(row: Sequence[str], sizes: Sequence[int]) -> str:
    cells = (f"{fig.shorten(text, size):<{size}}" for text, size in zip(row, sizes, strict=True))
    return " " + "  ".join(cells)


class ComparisonScreen(NavigableScreen):
    """Compares runs: their curves above, their values below."""

    TOPIC = "history"
    AUTO_FOCUS = "#comparison"
    DEFAULT_CSS = """
    ComparisonScreen #curves { height: 2fr; display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Back", id="compare.back"),
        Binding("y", "copy", "Copy", id="compare.copy"),
        Binding("z", "zoom", "Zoom", id="compare.zoom"),
        Binding("q", "app.detach", "Quit", show=False, id="compare.quit"),
    ]

    class Compared(Message):
        """The comparison with all curves, or why the runs cannot be compared."""

        def __init__(
            self, found: Comparison | None, curves: Sequence[RunCurves] = (), problem: str = ""
        ) -> None:
            super().__init__()
            self.found, self.curves, self.problem = found, curves, problem

    def __init__(self, folders: Sequence[Path]) -> None:
        super().__init__()
        self._folders = folders
        self._zoomed: str | None = None
        self._has_curves = False

    def compose(self) -> ComposeResult:
        """The panes, and the keys."""
        yield CurveSheet(id="curves", classes="pane")
        yield ComparisonSheet([folder.name for folder in self._folders])
        yield KeyLine()

    def on_mount(self) -> None:
        """Read all runs."""
        self.query_one(ComparisonSheet).entitle("Compare")
        self.query_one(CurveSheet).entitle("Curves")
        self._compare()

    @work(thread=True, group="compare")
    def _compare(self) -> None:
        from ...data.curves.making import curves_of  # with NumPy

        try:
            found = compared(self._folders)
        except LauncherError as error:
            self.post_message(self.Compared(None, problem=str(error)))
        else:
            self.post_message(self.Compared(found, [curves_of(folder) for folder in self._folders]))

    @on(Compared)
    def _show(self, message: Compared) -> None:
        with contained(self):
            self.query_one(ComparisonSheet).show(message.found, message.problem)
        self._has_curves = any(curves.names for curves in message.curves)
        traced = enumerate(message.curves)
        with contained(self):
            self.query_one(CurveSheet).trace([Traced(letter(n), each, style_of_run(n)) for n, each in traced])
        self._place()

    def _place(self) -> None:
        self.query_one(CurveSheet).display = self._has_curves and self._zoomed != "comparison"
        self.query_one(ComparisonSheet).display = self._zoomed != "curves"

    def action_zoom(self) -> None:
        """Show the focused pane alone, or both panes again."""
        focused = self.focused.id if self.focused is not None else None
        self._zoomed = None if self._zoomed else focused
        self._place()

    def action_copy(self) -> None:
        """Copy the differences."""
        if text := self.query_one(ComparisonSheet).text():
            self.app.copy_to_clipboard(text)
