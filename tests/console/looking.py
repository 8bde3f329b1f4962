"""What a person would see of a run: a sheet's text, and whether the screen has taken its shape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from console.ui.run.header import Headline, RunHeader
from console.ui.run.screen import RunScreen
from console.ui.run.view_sheet import ViewSheet

if TYPE_CHECKING:
    from textual.app import App

    from console.ui.widgets.rows import Sheet


def text(sheet: Sheet) -> str:
    """The lines of a sheet, without the blanks at their ends."""
    return "\n".join(sheet.render_line(y).text.rstrip() for y in range(sheet.size.height))


def shown(app: App[int]) -> bool:
    """Whether a run is on the screen, and what is said at its top has the lines that it takes."""
    screen = app.screen
    if not isinstance(screen, RunScreen) or screen.view is None:
        return False
    return all(_whole(screen.query_one(kind)) for kind in (RunHeader, Headline))


def _whole(sheet: ViewSheet) -> bool:
    """It asks for its lines when it is drawn, and has them a frame later."""
    return len(sheet.rows(sheet.size.width)) == sheet.size.height
