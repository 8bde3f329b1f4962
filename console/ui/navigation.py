"""The screens that a key opens from everywhere: launch, history, cluster.

Each is open at most once, so switching between them does not stack screens. A run screen lies above the
screen it was opened from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual.binding import Binding, BindingType
from textual.reactive import Reactive
from textual.screen import Screen

from ..commands import Commands
from .rendering.focus import Framed
from .rendering.insides import compose_by_parts

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.widget import Widget

    from ..data.launch.draft import Draft
    from .launch.screen import LaunchScreen


@dataclass(frozen=True, slots=True)
class Site:
    """What these screens work on: the folder of runs, the folder of the user's programs, and the commands."""

    root: Path
    workdir: Path
    commands: Commands


class NavigableScreen(Screen[None]):
    """A screen with the keys for launch, history and cluster."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f2,H", "go('history')", "History", show=False, key_display="f2", id="go.history"),
        Binding("f3,C", "go('cluster')", "Cluster", show=False, key_display="f3", id="go.cluster"),
        Binding("f4,L", "go('launch')", "Launch screen", show=False, key_display="f4", id="go.launch"),
    ]

    # Textual would repaint the whole screen; the widgets that gain and lose the focus repaint themselves
    focused: Reactive[Widget | None] = Reactive(None, repaint=False)

    def __init__(self) -> None:
        super().__init__()
        compose_by_parts(self)
        self._focused_pane: DOMNode | None = None

    def set_focus(
        self, widget: Widget | None, scroll_visible: bool = True, from_app_focus: bool = False
    ) -> None:
        """Move the focus, and repaint only what shows it."""
        with Framed.focus_moves():
            super().set_focus(widget, scroll_visible, from_app_focus)
            self._mark_pane()

    def _mark_pane(self) -> None:
        """Mark the pane that contains the focus; `console.tcss` explains why no CSS rule does this."""
        ancestors = self.focused.ancestors if self.focused is not None else []
        pane = next((node for node in ancestors if node.has_class("pane")), None)
        if pane is not self._focused_pane:
            for node, within in ((self._focused_pane, False), (pane, True)):
                if node is not None:
                    node.set_class(within, "-within")
            self._focused_pane = pane

    def action_go(self, name: str) -> None:
        """Go to a screen: return to it if it is open, else open it on top of this one."""
        go(self.app, name)


def go(app: App[object], name: str) -> None:
    """Go to a screen by its name; any other name than history or cluster means the launch screen."""
    from .cluster.screen import ClusterScreen
    from .history.screen import HistoryScreen

    home = launch_screen(app)
    kinds: dict[str, Callable[[Site], NavigableScreen]] = {"history": HistoryScreen, "cluster": ClusterScreen}
    kind = kinds.get(name)
    if kind is None:
        _return_to(app, home)
    elif found := next((screen for screen in app.screen_stack if type(screen) is kind), None):
        _return_to(app, found)
    else:
        app.push_screen(kind(home.site))


def edit(app: App[object], draft: Draft) -> None:
    """Go to the launch screen, and fill in its form."""
    home = launch_screen(app)
    _return_to(app, home)
    home.fill(draft)


def launch_screen(app: App[object]) -> LaunchScreen:
    """The screen below all others."""
    from .launch.screen import LaunchScreen

    return next(screen for screen in app.screen_stack if isinstance(screen, LaunchScreen))


def _return_to(app: App[object], screen: Screen[Any]) -> None:
    while app.screen is not screen:
        app.pop_screen()
