"""What is painted first: the launch screen without what stands in it, while that is still being imported.

It has the same places as the launch screen, by the same style sheet, so the frame that follows fills what
was empty and moves nothing. It lies below all other screens and takes no keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.screen import Screen
from textual.widgets import Static

from ...formatting import tilde

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.geometry import Size

WIDE = 150
"""From so many columns on, past runs stand beside the form."""
LOW = 22
"""Below so many lines, the form below which they stand gives them half of its room."""

_LABELS = ("Target", "Run", "Arguments", "Processes", "GPUs", "Mode", "Spark", "More")
COMMAND_TITLE = "The same on a command line"


class Outline(Screen[None]):
    """Frames, titles and labels; or nothing at all, before another screen than the launch screen."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Outline #form, Outline #command { color: $muted; }
    Outline #command { height: 4; }
    Outline #keys-here { height: 1; dock: bottom; }
    """

    def __init__(self, workdir: Path | None, *, spark: bool = False) -> None:
        super().__init__()
        self._workdir = workdir
        self._labels = [label for label in _LABELS if spark or label != "Spark"]

    def compose(self) -> ComposeResult:
        """The same places as on the launch screen."""
        if self._workdir is None:
            return
        yield Static(banner(self._workdir), id="banner", markup=False)
        with Container(id="launch", classes=placed(self.app.size)):
            yield _pane("1 New run", "form", "\n".join(self._labels))
            yield _pane("2 Recent runs", "recent")
        yield _pane(COMMAND_TITLE, "command")
        yield Static(id="keys-here")


def _pane(title: str, name: str, text: str = "") -> Static:
    pane = Static(text, id=name, classes="pane", markup=False)
    pane.border_title = title
    return pane


def banner(workdir: Path) -> str:
    """Who this is, and where; a home folder by its sign."""
    return f" rankdeck  {tilde(workdir)}"


def placed(size: Size) -> str:
    """The class of the launch screen's middle in a terminal of that size."""
    return "-wide" if size.width >= WIDE else "-low" if size.height < LOW else ""
