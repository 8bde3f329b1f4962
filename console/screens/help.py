"""The keys of what had the focus, read from the bindings themselves, so that they cannot be out of date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from console.widgets.field import Field
from console.widgets.hints import keys_of
from console.widgets.sheet import Row, ScrollingSheet, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

_KEYS_WIDTH = 22
_WHAT_WIDTH = 26
_FRAME = 8
# what Textual binds keys to in whatever scrolls, though it may not scroll sideways
_SIDEWAYS = frozenset({"scroll_left", "scroll_right", "page_left", "page_right"})


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that can be done here: its keys, what it does, and the ids by which keys can be changed."""

    keys: str
    what: str
    ids: str

    def row(self) -> Row:
        """Keys to the left, meaning, and ids in the background."""
        return (
            (f"{self.keys:>{_KEYS_WIDTH}}", "bold"),
            (f"  {self.what:<{_WHAT_WIDTH}}", ""),
            (f" {self.ids}", "muted"),
        )


class Keys(ScrollingSheet):
    """A line for each thing that can be done: its keys, and what they do."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__(id="keys")
        self.lines = lines

    def rows(self, width: int) -> Sequence[Row]:
        """Those lines, cut where room ends."""
        return [clip(line.row(), width) for line in self.lines]


class HelpScreen(ModalScreen[None]):
    """Every key that did something, the nearest first."""

    AUTO_FOCUS = "#keys"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1", "dismiss", "Close", show=False, id="help.close"),
        Binding("slash", "search", "Find a key", show=False, key_display="/", id="help.search"),
    ]

    def __init__(self, bindings: Iterable[ActiveBinding], name: Callable[[Binding], str]) -> None:
        super().__init__()
        self._lines = key_lines(bindings, name)

    def compose(self) -> ComposeResult:
        """What the keys do here."""
        with Vertical(id="dialog"):
            yield Static("Keys here", classes="title")
            yield Field(placeholder="letters of a key, of what it does, or of its id", id="sought")
            yield Keys(self._lines)
            find, close = keys_of(self, "help.search", "/"), keys_of(self, "help.close", "esc")
            said = f"{find} finds a key · {close} closes this · leaving stops no run"
            yield Static(said, classes="answers", markup=False)

    def on_mount(self) -> None:
        """As tall as the list, if the terminal is."""
        self.query_one(Field).display = False
        self.query_one(Keys).styles.height = min(
            len(self._lines), max(self.app.size.height * 9 // 10 - _FRAME, 3)
        )

    def action_search(self) -> None:
        """Ask for letters, and show only the lines that have them."""
        field = self.query_one(Field)
        field.display = True
        field.focus()

    @on(Field.Changed)
    def _narrow(self, message: Field.Changed) -> None:
        keys = self.query_one(Keys)
        keys.lines = matching(self._lines, message.value)
        keys.refresh_rows()

    @on(Field.Submitted)
    def _found(self) -> None:
        self.query_one(Keys).focus()


def matching(lines: Sequence[Line], letters: str) -> list[Line]:
    """The lines that have every word of `letters` in them, whatever the case."""
    words = letters.casefold().split()
    return [
        line for line in lines if all(w in f"{line.keys} {line.what} {line.ids}".casefold() for w in words)
    ]


def key_lines(bindings: Iterable[ActiveBinding], name: Callable[[Binding], str]) -> list[Line]:
    """The keys of each action as `name` shows them, and what it does; two of one meaning share a line."""
    keys: dict[str, list[Binding]] = {}
    for active in bindings:
        binding = active.binding
        if binding.description and not binding.system and (binding.id or binding.action not in _SIDEWAYS):
            keys.setdefault(binding.description, []).append(binding)
    return [
        Line(_unique(map(name, all_)), what, _unique(b.id or "" for b in all_)) for what, all_ in keys.items()
    ]


def _unique(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words)).strip()
