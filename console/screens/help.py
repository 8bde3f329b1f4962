"""The keys of what had the focus, read from the bindings themselves, so that they cannot be out of date."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from console.widgets.sheet import Row, ScrollingSheet

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NAMES = {
    "question_mark": "?",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "pageup": "pgup",
    "pagedown": "pgdn",
}
_KEYS_WIDTH = 22
_FRAME = 8


class Keys(ScrollingSheet):
    """A line for each thing that can be done: its keys, and what they do."""

    def __init__(self, lines: Sequence[tuple[str, str]]) -> None:
        super().__init__(id="keys")
        self.lines = lines

    def rows(self, width: int) -> Sequence[Row]:  # noqa: ARG002
        """Keys to the left, meaning to the right."""
        return [((f"{keys:>{_KEYS_WIDTH}}", "bold"), (f"  {what}", "")) for keys, what in self.lines]


class HelpScreen(ModalScreen[None]):
    """Every key that did something, the nearest first."""

    AUTO_FOCUS = "#keys"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Close", show=False)
    ]

    def __init__(self, bindings: Iterable[ActiveBinding]) -> None:
        super().__init__()
        self._lines = key_lines(bindings)

    def compose(self) -> ComposeResult:
        """What the keys do here."""
        with Vertical(id="dialog"):
            yield Static("Keys here", classes="title")
            yield Keys(self._lines)
            yield Static("q never stops a run · esc closes this", classes="answers")

    def on_mount(self) -> None:
        """As tall as the list, if the terminal is."""
        self.query_one(Keys).styles.height = min(
            len(self._lines), max(self.app.size.height * 9 // 10 - _FRAME, 3)
        )


def key_lines(bindings: Iterable[ActiveBinding]) -> list[tuple[str, str]]:
    """The keys of each action, and what it does; two actions of one meaning share a line."""
    keys: dict[str, list[str]] = {}
    for active in bindings:
        binding = active.binding
        if binding.description and not binding.system:
            keys.setdefault(binding.description, []).append(_name(binding))
    return [(" ".join(dict.fromkeys(names)), what) for what, names in keys.items()]


def _name(binding: Binding) -> str:
    return binding.key_display or _NAMES.get(binding.key) or binding.key.replace("ctrl+", "^")
