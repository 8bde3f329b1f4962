"""Jump mode: a letter on every field and pane of a screen, and typing it goes there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.geometry import Offset, Region, Size
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

_LETTERS = "asdfghjklqwertyuiopzxcvbnm"
_BEFORE = 2
_MOST = len(_LETTERS) ** 2


@dataclass(frozen=True, slots=True)
class JumpTarget:
    """A widget that can have the focus, and the place of its letter on the screen."""

    widget: Widget
    at: Offset


def targets_on(screen: Screen[Any]) -> list[JumpTarget]:
    """The visible widgets of a screen that can have the focus, from the top to the bottom."""
    found = []
    for widget in screen.focus_chain:
        seen = _seen(screen, widget)
        if seen:
            found.append(JumpTarget(widget, _place(screen, widget, seen)))
    return sorted(found, key=lambda target: (target.at.y, target.at.x))[:_MOST]


def _seen(screen: Screen[Any], widget: Widget) -> Region:
    """The part of a widget that is on the screen."""
    place = screen.find_widget(widget)
    return place.visible_region


def _place(screen: Screen[Any], widget: Widget, seen: Region) -> Offset:
    """Where the letter stands: on the border of a pane, before a field.

    A widget that fills a pane, such as the lines of the log, has it on the border of that pane.
    """
    panes = (node for node in widget.ancestors_with_self if isinstance(node, Widget))
    pane = next((node for node in panes if node.has_class("pane")), None)
    if pane is not None and (widget is pane or widget.size.height > 2):
        outer = _seen(screen, pane)
        return Offset(outer.x + 1, outer.y) if outer else seen.offset
    return Offset(max(seen.x - _BEFORE, 0), seen.y)


def letters(count: int) -> list[str]:
    """A label for each of so many targets: one letter, or two if one does not suffice."""
    if count <= len(_LETTERS):
        return list(_LETTERS[:count])
    return [first + second for first in _LETTERS for second in _LETTERS][:count]


class JumpLabel(Static):
    """The letters of one target; a click on them is as good as typing them."""

    class Clicked(Message):
        """A label was clicked."""

        def __init__(self, label: JumpLabel) -> None:
            super().__init__()
            self.label = label

    def __init__(self, letters: str, target: JumpTarget) -> None:
        super().__init__(f" {letters} ", markup=False)
        self.letters, self.target = letters, target
        self.styles.offset = (target.at.x, target.at.y)

    def on_click(self, event: events.Click) -> None:
        """Go there."""
        event.stop()
        self.post_message(self.Clicked(self))


class JumpScreen(ModalScreen[Widget]):
    """Closes with the widget whose letters were typed, or with nothing."""

    TOPIC = "console"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Leave", id="jump.close"),
    ]

    def __init__(self, targets: Sequence[JumpTarget]) -> None:
        super().__init__()
        self._labels = [
            JumpLabel(word, target) for word, target in zip(letters(len(targets)), targets, strict=True)
        ]
        self._typed = ""
        self._size_shown: Size | None = None
        self._left = False

    def compose(self) -> ComposeResult:
        """The labels, above the screen below."""
        yield from self._labels

    def on_mount(self) -> None:
        """Remember the size for which the places were found."""
        self._size_shown = self.app.size

    def on_key(self, event: events.Key) -> None:
        """Take a letter; one that begins no label changes nothing."""
        letter = (event.character or "").lower()
        if not letter or letter not in _LETTERS:
            return
        event.stop()
        typed = self._typed + letter
        left = [label for label in self._labels if label.letters.startswith(typed)]
        if len(left) == 1 and left[0].letters == typed:
            self._leave(left[0].target.widget)
        elif left:
            self._typed = typed
            for label in self._labels:
                label.set_class(label not in left, "-out")

    def on_click(self) -> None:
        """Leave, as a click beside the labels is meant for nothing."""
        self._leave()

    def on_resize(self, event: events.Resize) -> None:
        """Leave if the terminal changes: the fields below have other places then."""
        if self._size_shown is not None and event.size != self._size_shown:
            self._leave()

    def _leave(self, widget: Widget | None = None) -> None:
        """Close once: what else was typed or told meanwhile would close the screen below."""
        if not self._left:
            self._left = True
            self.dismiss(widget)

    def action_leave(self) -> None:
        """Leave the focus where it was."""
        self._leave()

    @on(JumpLabel.Clicked)
    def _clicked(self, message: JumpLabel.Clicked) -> None:
        self._leave(message.label.target.widget)
