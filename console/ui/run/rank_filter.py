"""The line above the panes about ranks in which the filter of ranks is typed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from ...data.ranks.filter import HELP
from ..widgets.fields import FilterField, harmless
from .rank_grid import RankGrid

if TYPE_CHECKING:
    from textual.app import ComposeResult


class RankFilter(Vertical):
    """The filter of a grid and what is wrong with it.

    It is shown while it is typed; afterwards the grid's border shows it.
    """

    DEFAULT_CSS = """
    RankFilter { dock: top; height: auto; display: none; }
    RankFilter .wrong { height: auto; max-height: 3; display: none; padding: 0 2; color: $rank-behind; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "All ranks", id="ranks.filter_clear"),
    ]

    def __init__(self, grid: RankGrid) -> None:
        super().__init__()
        self._grid = grid
        self._field = FilterField(placeholder=HELP, id="rank_filter")
        self._wrong = Static("", classes="wrong", markup=False)
        grid.opens_filter, grid.cleared = self.open, self.close

    def compose(self) -> ComposeResult:
        """The field, and the message below it."""
        yield self._field
        yield self._wrong

    def open(self) -> None:
        """Show the field and focus it."""
        self.display = True
        self._grid.typing(True)
        self._field.open()

    def close(self) -> None:
        """Empty and hide the field."""
        self._field.close()
        self.display = False

    @on(FilterField.Changed)
    def narrow(self, message: FilterField.Changed) -> None:
        """List the ranks that pass what is typed so far."""
        message.stop()
        problem = self._grid.narrow(message.value)
        self._wrong.update(f"✗ {harmless(problem)}" if problem else "")
        self._wrong.display = bool(problem)

    @on(FilterField.Submitted)
    def finish(self, message: FilterField.Submitted) -> None:
        """Go back to the ranks."""
        message.stop()
        self._grid.focus()

    def on_descendant_blur(self) -> None:
        """Give the line back to the panes."""
        self.display = False
        self._grid.typing(False)

    def action_clear(self) -> None:
        """List all ranks."""
        self._grid.focus()
        self._grid.action_clear()
