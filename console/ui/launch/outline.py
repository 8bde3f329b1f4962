"""The first frame: the empty panes of the launch screen, shown while that screen is being imported.

The panes have the places of those on the launch screen, by the same style sheet, so the next frame fills them
and moves nothing. The outline lies below all other screens and takes no keys.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widgets import Static

from ...formatting import tilde
from .workbench.layout import FORM, FOUND, PLAN, PREVIEW, RECENT, TITLE_FOUND, TITLE_PLAN, LaunchPanes, shown

if TYPE_CHECKING:
    from textual.app import ComposeResult

_LABELS = ("Target", "Run", "Arguments", "Processes", "GPUs", "Mode", "Spark", "More")
COMMAND_TITLE = "The same on a command line"


class Outline(Screen[None]):
    """Borders, titles and labels; nothing if `workdir` is None, because another screen is shown first."""

    AUTO_FOCUS = ""
    DEFAULT_CSS = """
    Outline #form, Outline #command { color: $muted; }
    Outline #command { height: 4; }
    Outline #keys-here { height: 1; dock: bottom; }
    """

    def __init__(self, workdir: Path | None, *, spark: bool = False, seeking: bool = True) -> None:
        super().__init__()
        self._workdir, self._seeking = workdir, seeking
        self._labels = [label for label in _LABELS if spark or label != "Spark"]

    def compose(self) -> ComposeResult:
        """The panes of the launch screen, without their content."""
        if self._workdir is None:
            return
        yield Static(banner(self._workdir), id="banner", markup=False)
        panes = shown(self.app.size, seeking=self._seeking, recent_first=not self._seeking)
        titles = {
            FORM: "1 New run",
            RECENT: "2 Recent runs",
            FOUND: TITLE_FOUND,
            PLAN: TITLE_PLAN,
            PREVIEW: "",
        }
        texts = {FORM: "\n".join(self._labels)}
        with LaunchPanes(id="launch"):
            for name, title in titles.items():
                pane = _pane(title, name, texts.get(name, ""))
                pane.display = name in panes
                yield pane
        yield _pane(COMMAND_TITLE, "command")
        yield Static(id="keys-here")


def _pane(title: str, name: str, text: str = "") -> Static:
    pane = Static(text, id=name, classes="pane", markup=False)
    pane.border_title = title
    return pane


def banner(workdir: Path) -> str:
    """The program's name and the folder, with ``~`` for the home folder."""
    return f" rankdeck  {tilde(workdir)}"
