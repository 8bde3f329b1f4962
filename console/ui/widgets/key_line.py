"""The keys at the bottom of a screen, and keys that are named in a sentence.

Textual's footer recreates its widgets whenever the focus moves, which repaints the whole screen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.binding import Binding

from .rows import Row, Sheet, Span

if TYPE_CHECKING:
    from textual import events
    from textual.dom import DOMNode


_MOVES = ("scroll_", "page_", "page(", "move(", "move_", "cursor_", "focus_", "first", "last", "sidestep(")


def is_move(binding: Binding) -> bool:
    """Whether a binding only moves a cursor, a view or the focus: nobody looks for it by its name."""
    return binding.action.removeprefix("app.").startswith(_MOVES)


@dataclass(frozen=True, slots=True)
class Key:
    """A key as it is shown, what it does here, and the key that a click on it simulates."""

    name: str
    what: str
    pressed: str

    @property
    def width(self) -> int:
        """How many cells it takes, with a space before the name and the text."""
        return cell_len(self.name) + cell_len(self.what) + 2


class KeyLine(Sheet):
    """The keys of the visible bindings and what they do; a click on one presses it.

    Args:
        first: the ids of the bindings that come first, the most useful one before the others.
        id: the widget's id.
    """

    DEFAULT_CSS = """
    KeyLine { height: 1; dock: bottom; }
    """

    def __init__(self, *first: str, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.first = first
        self.words: Mapping[str, str] = {}

    def reword(self, words: Mapping[str, str]) -> None:
        """Set what some bindings do here, by their ids; these are shown even if they are otherwise not."""
        if words != self.words:
            self.words = words
            self.refresh_rows()

    def on_mount(self) -> None:
        """Repaint whenever the active bindings change."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self.refresh_rows())

    def rows(self, width: int) -> list[Row]:
        """One row with the keys that fit."""
        return [tuple(span for key in self._shown(width) for span in _spans(key))]

    def on_click(self, event: events.Click) -> None:
        """Press the key that was clicked on."""
        right = 0
        for key in self._shown(self.size.width):
            right += key.width
            if event.x < right:
                self.app.simulate_key(key.pressed)
                return

    def _shown(self, width: int) -> list[Key]:
        return fitting_keys([*self._keys()], width)

    def _keys(self) -> Iterator[Key]:
        """Each action once, with its first key."""
        actions = set()
        active = [a.binding for a in self.screen.active_bindings.values() if a.enabled]
        shown = [binding for binding in active if binding.show or binding.id in self.words]
        for binding in sorted(shown, key=lambda binding: self._place(binding.id)):
            if binding.action not in actions:
                actions.add(binding.action)
                what = self.words.get(binding.id or "", binding.description)
                yield Key(self.app.get_key_display(binding), what, binding.key)

    def _place(self, binding: str | None) -> int:
        return self.first.index(binding) if binding in self.first else len(self.first)


def fitting_keys(keys: Sequence[Key], width: int) -> list[Key]:
    """The keys that fit without being cut, earlier ones first; the last, which is the help, always."""
    room = width - sum(key.width for key in keys[-1:])
    shown = []
    for key in keys[:-1]:
        if key.width <= room:
            shown.append(key)
            room -= key.width
    return [*shown, *keys[-1:]]


def _spans(key: Key) -> tuple[Span, Span]:
    return (f" {key.name}", "bold"), (f" {key.what}", "muted")


def keys_of(node: DOMNode, name: str, usual: str) -> str:
    """The first key that the user set for the binding with the id `name`, as it is shown; else `usual`."""
    own: Mapping[str, str] = getattr(node.app, "own_keys", {})
    if name not in own:
        return usual
    return node.app.get_key_display(Binding(own[name].partition(",")[0], ""))
