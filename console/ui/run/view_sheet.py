"""Sheets that show a `RunView`: the run screen gives each of them every new view."""

from __future__ import annotations

from collections.abc import Sequence

from ...data.run.model import RunView
from ..widgets.rows import Row, ScrollingSheet, Sheet


class ViewSheet(Sheet):
    """A sheet whose rows are made from the newest view of the run; None before the first."""

    view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        self.view = view
        self.refresh_rows()

    def fit(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows, and set the sheet's height to their number."""
        if self.styles.height is None or self.styles.height.value != len(rows):
            self.styles.height = len(rows)
        return rows


# ViewSheet first, because Textual queries a widget by its first bases; it takes no focus, hence `can_focus`.
class ScrollingViewSheet(ViewSheet, ScrollingSheet, can_focus=True):
    """A view sheet that can be scrolled with the keys."""
