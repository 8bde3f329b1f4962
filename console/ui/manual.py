"""A topic of the manual, shown over the screen that it describes.

A screen or pane names its topic in the class attribute `TOPIC`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from ..manual import readable, topics
from .widgets.key_line import keys_of
from .widgets.markdown import markdown_rows
from .widgets.rows import Row, ScrollingSheet

if TYPE_CHECKING:
    from textual.app import ComposeResult

_USUAL = "console"


def topic_of(screen: Screen[object]) -> str:
    """The topic of the focused widget or its nearest ancestor with one, else that of the screen."""
    focused = screen.focused
    nodes = [*(focused.ancestors_with_self if focused is not None else ()), screen]
    named = (getattr(node, "TOPIC", "") for node in nodes)
    return next(filter(None, named), _USUAL)


class TopicSheet(ScrollingSheet):
    """The text of a topic, wrapped to the width of the pane."""

    def __init__(self, name: str) -> None:
        super().__init__(id="topic")
        self.name_shown = name

    def rows(self, width: int) -> Sequence[Row]:
        """The topic as rows."""
        return markdown_rows(readable(topics()[self.name_shown].text), width)


class ManualScreen(ModalScreen[None]):
    """Shows a topic, with keys for the next and the previous one."""

    AUTO_FOCUS = "#topic"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,m,question_mark", "dismiss", "Back", show=False, id="manual.close"),
        Binding("right_square_bracket", "turn(1)", "Next topic", key_display="]", id="manual.next"),
        Binding("left_square_bracket", "turn(-1)", "Previous topic", key_display="[", id="manual.previous"),
    ]

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def compose(self) -> ComposeResult:
        """The topic, and the keys of this screen."""
        with Vertical(id="dialog"):
            yield Static(self._place(), classes="title", markup=False)
            yield TopicSheet(self._topic)
            following, before = keys_of(self, "manual.next", "]"), keys_of(self, "manual.previous", "[")
            close = keys_of(self, "manual.close", "esc")
            hint = f"{following} next topic · {before} previous topic · {close} back to the keys"
            yield Static(hint, classes="answers", markup=False)

    def action_turn(self, by: int) -> None:
        """Show the next or the previous topic; the first follows the last."""
        names = list(topics())
        self._topic = names[(names.index(self._topic) + by) % len(names)]
        sheet = self.query_one(TopicSheet)
        sheet.name_shown = self._topic
        sheet.refresh_rows()
        sheet.scroll_home(animate=False)
        self.query_one(".title", Static).update(self._place())

    def _place(self) -> str:
        names = list(topics())
        return f"rankdeck help {self._topic} · {names.index(self._topic) + 1} of {len(names)}"
