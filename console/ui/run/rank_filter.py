"""The line above the panes about ranks in which the filter of ranks is typed."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from ...data.ranks.filter import HELP
from ..widgets.fields import FilterField
from .rank_grid import RankGrid


class RankFilter(FilterField):
    """The filter of a grid. It is shown while it is typed; afterwards the grid's border shows it."""

    DEFAULT_CSS = "RankFilter { dock: top; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "clear", "All ranks", show=False, id="ranks.filter_clear"),
    ]

    def __init__(self, grid: RankGrid) -> None:
        super().__init__(placeholder=HELP, id="rank_filter")
        self._grid = grid
        grid.opens_filter = self.open
        grid.cleared = self.close

    @on(FilterField.Changed)
    def narrow(self, message: FilterField.Changed) -> None:
        """List the ranks that pass what is typed so far."""
        message.stop()
        self._grid.narrow(message.value)

    @on(FilterField.Submitted)
    def finish(self, message: FilterField.Submitted) -> None:
        """Go back to the ranks."""
        message.stop()
        self._grid.focus()

    def on_blur(self) -> None:
        """Give the line back to the panes."""
        self.display = False

    def action_clear(self) -> None:
        """List all ranks."""
        self._grid.focus()
        self._grid.action_clear()
