"""The help: what each pane of the screen shows, and every key that is active there, in groups."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from ..manual import ManualScreen, topic_of
from ..widgets.fields import Field
from ..widgets.key_line import KeyLine, is_move, keys_of
from ..widgets.rows import Row, ScrollingSheet, clip, safe, width_of
from .prose import prose_of

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.screen import Screen
    from textual.widget import Widget

_KEYS_WIDTH, _WHAT_WIDTH, _IDS_WIDTH = 12, 25, 25
_SHORT = _KEYS_WIDTH + _WHAT_WIDTH + 3
_COLUMN = _SHORT + _IDS_WIDTH
_BESIDE, _ABOVE = 6, 10
"""Cells and lines of the dialog that are not the list."""
_PROSE_WIDTH = 100
_LOW = 30
"""With fewer lines, only the pane with the focus is described: the keys have the room."""
_HERE, _TYPING, _MOVING, _OWN = "This pane", "Typing", "Moving", "Your commands"
_GROUPS = {
    "go": "Go to",
    "launch": "Form",
    "run": "Run",
    "history": "History",
    "cluster": "Cluster",
    "machines": "Cluster",
    "log": "Log",
    "travel": "Time travel",
    "app": "Everywhere",
}
_ORDER = (
    *(_OWN, "Time travel", "Run", "Form", "History", "Cluster", "Log"),
    *("Go to", _HERE, "Everywhere", _MOVING, _TYPING),
)
# actions that Textual binds in every scrollable widget, even if there is nothing to scroll
_SCROLLS = ("scroll_", "page_")
_OWN_ACTION = re.compile(r"app\.own\('([^']*)'\)")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the help: keys, what they do, the ids under which they can be changed, and the group."""

    keys: str
    what: str
    ids: str
    group: str = _HERE

    def rows(self, *, ids: bool = True) -> list[Row]:
        """The keys, the meaning and the muted ids side by side, each wrapped; or without the ids."""
        keys, what = wrap(self.keys, _KEYS_WIDTH) or [""], wrap(self.what, _WHAT_WIDTH - 1)
        names = wrap(self.ids, _IDS_WIDTH, break_on_hyphens=False) if ids else []
        rows = []
        for key, text, name in zip_longest(keys, what, names, fillvalue=""):
            row: Row = (
                (f"{key:>{_KEYS_WIDTH}}", "bold"),
                (f"  {text:<{_WHAT_WIDTH}}" if name else f"  {text}", ""),
            )
            rows.append(safe((*row, (f" {name}", "muted")) if name else row))
        return rows


@dataclass(frozen=True, slots=True)
class PaneHelp:
    """A pane of the screen: the key that goes to it, its name, and what it shows; `here` has the focus."""

    key: str
    name: str
    text: str
    here: bool = False

    def rows(self, width: int) -> list[Row]:
        """The key and the name, and the sentences beside them, wrapped."""
        lead = min(_KEYS_WIDTH, width // 8) + 2
        name = f"{self.name}{' (here)' * self.here}: "
        lines = wrap(name + self.text, max(min(width, _PROSE_WIDTH) - lead - 1, 16))
        first: Row = ((f"{self.key:>{lead - 2}}  ", "bold"), (lines[0][: len(name)], "bold"))
        return [
            (*first, (lines[0][len(name) :], "")),
            *(((" " * lead + line, ""),) for line in lines[1:]),
        ]


class Keys(ScrollingSheet):
    """The panes, and the lines of the help, group by group; in two columns if they fit."""

    def __init__(self, lines: Sequence[Line], panes: Sequence[PaneHelp]) -> None:
        super().__init__(id="keys")
        self.lines, self.panes = lines, panes

    def rows(self, width: int) -> Sequence[Row]:
        """The panes above, the lines below them; what a search found has ids, if it fits in one column."""
        columns = columns_for(width, searched=not self.panes)
        rows = (clip(row, width) for row in laid_out(self.lines, *columns))
        return [*pane_rows(self.panes, width), *rows]


def pane_rows(panes: Sequence[PaneHelp], width: int) -> list[Row]:
    """The sentences about panes, and an empty row after them."""
    rows = [row for pane in panes for row in pane.rows(width)]
    return [*rows, ()] if rows else []


def columns_for(width: int, *, searched: bool = False) -> tuple[int, bool]:
    """How many columns fit, and whether they have ids: rather two columns than ids, unless one searches."""
    if width >= 2 * _COLUMN:
        return 2, True
    if width >= 2 * _SHORT and not searched:
        return 2, False
    return 1, width >= _COLUMN


def laid_out(lines: Sequence[Line], columns: int, ids: bool) -> list[Row]:
    """The groups below each other, or in two columns."""
    blocks = []
    for name in _ORDER:
        rows = [row for line in lines if line.group == name for row in line.rows(ids=ids)]
        if rows:
            blocks.append([((f"{name:>{_KEYS_WIDTH}}", "muted underline"),), *rows, ()])
    if columns == 1:
        return [row for block in blocks for row in block][:-1]
    left: list[Row] = []
    right: list[Row] = []
    half = sum(map(len, blocks)) / 2
    for block in blocks:
        (left if len(left) + len(block) / 2 <= half else right).extend(block)
    room = _COLUMN if ids else _SHORT
    return [
        (*one, (" " * (room - width_of(one)), ""), *other)
        for one, other in zip_longest(left[:-1], right[:-1], fillvalue=())
    ]


class HelpScreen(ModalScreen[None]):
    """What the panes of the screen below show, and every key that was active on it."""

    AUTO_FOCUS = "#keys"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close", show=False, id="help.close"),
        Binding("slash", "search", "Find a key", show=False, key_display="/", id="help.search"),
        Binding("m", "manual", "Manual", show=False, id="help.manual"),
    ]

    def __init__(self, lines: Sequence[Line], panes: Sequence[PaneHelp], topic: str) -> None:
        super().__init__()
        self._topic, self._lines, self._panes = topic, lines, panes

    def compose(self) -> ComposeResult:
        """The title, the search field, the keys, and a line with the keys of this screen."""
        with Vertical(id="dialog"):
            yield Static("Keys here", classes="title")
            yield Field(placeholder="letters of a key, of what it does, or of its id", id="sought")
            yield Keys(self._lines, self._panes)
            find, close = keys_of(self, "help.search", "/"), keys_of(self, "help.close", "esc")
            manual = keys_of(self, "help.manual", "m")
            hint = f"{find} finds a key · {manual} the manual · {close} closes · leaving stops no run"
            yield Static(hint, classes="answers", markup=False)

    def on_mount(self) -> None:
        """Make the list as tall as its rows if the terminal allows, and as wide as its columns."""
        self.query_one(Field).display = False
        keys, room = self.query_one(Keys), self.app.size.width * 9 // 10 - _BESIDE
        columns, ids = columns_for(room)
        keys.styles.width = width = min(columns * (_COLUMN if ids else _SHORT) + 1, room)
        keys.styles.height = min(len(keys.rows(width)), max(self.app.size.height * 9 // 10 - _ABOVE, 3))

    def action_search(self) -> None:
        """Open the search field."""
        field = self.query_one(Field)
        field.display = True
        field.focus()

    def action_manual(self) -> None:
        """Show the manual's topic for the screen below."""
        self.app.push_screen(ManualScreen(self._topic))

    @on(Field.Changed)
    def _narrow(self, message: Field.Changed) -> None:
        keys = self.query_one(Keys)
        keys.lines = matching(self._lines, message.value)
        keys.panes = () if message.value.strip() else self._panes
        keys.refresh_rows()

    @on(Field.Submitted)
    def _leave_field(self) -> None:
        self.query_one(Keys).focus()


def matching(lines: Sequence[Line], letters: str) -> list[Line]:
    """The lines that contain every word of `letters`, whatever the case."""
    words = letters.casefold().split()
    return [
        line for line in lines if all(w in f"{line.keys} {line.what} {line.ids}".casefold() for w in words)
    ]


def help_of(screen: Screen[Any], name: Callable[[Binding], str], words: Mapping[str, str]) -> HelpScreen:
    """The help for a screen.

    Args:
        screen: the screen, which must be the present one.
        name: gives the text for a binding's key.
        words: what a binding does at the moment, by its id, if that differs from its description.
    """
    bindings = [*screen.active_bindings.values()]
    first = [id_ for line in screen.query(KeyLine) for id_ in line.first]
    panes = [*panes_of(screen, bindings, name)]
    if screen.app.size.height < _LOW:
        panes = [pane for pane in panes if pane.here]
    return HelpScreen(key_lines(bindings, name, words, first), panes, topic_of(screen))


def panes_of(
    screen: Screen[Any], bindings: Iterable[ActiveBinding], name: Callable[[Binding], str]
) -> Iterator[PaneHelp]:
    """The panes that are shown, each once, in the order of their places."""
    ways = [active.binding for active in bindings if "pane" in (active.binding.id or "")]
    focused = set(screen.focused.ancestors_with_self) if screen.focused is not None else set()
    for pane in screen.query(".pane"):
        prose = prose_of(pane) if pane.display and pane.region else None
        if prose is not None:
            yield PaneHelp(_way(pane, ways, name), *prose, here=pane in focused)


def _way(pane: Widget, bindings: Sequence[Binding], name: Callable[[Binding], str]) -> str:
    """The first key that goes to a pane; empty if there is none."""
    found = (b for b in bindings if pane.id and pane.id in re.findall(r"\w+", b.action))
    return next((name(binding) for binding in found), "")


def key_lines(
    bindings: Iterable[ActiveBinding],
    name: Callable[[Binding], str],
    words: Mapping[str, str],
    first: Sequence[str] = (),
) -> list[Line]:
    """The lines of the help, those of the key line first.

    Args:
        bindings: the active bindings. Two with the same group and meaning share a line.
        name: gives the text for a binding's key.
        words: what a binding does at the moment, by its id, if that differs from its description.
        first: the ids of the bindings that are used most, in their order.
    """
    grouped: dict[tuple[str, str], list[Binding]] = {}
    for active in bindings:
        binding = active.binding
        if binding.description and not binding.system and _is_listed(binding):
            ours = binding.id or _OWN_ACTION.fullmatch(binding.action)
            usual = binding.description if ours else binding.description.capitalize()
            what = words.get(binding.id or "", usual)
            grouped.setdefault((_group(binding), what), []).append(binding)
    ordered = sorted(grouped.items(), key=lambda each: min(_place(binding, first) for binding in each[1]))
    return [
        Line(_unique(map(name, same)), what, _unique(map(_id, same)), group)
        for (group, what), same in ordered
    ]


def _place(binding: Binding, first: Sequence[str]) -> int:
    """The place in the order of use: what the key line has, then what it could have, then the rest."""
    if binding.id in first:
        return first.index(binding.id)
    return len(first) + (not binding.show)


def _id(binding: Binding) -> str:
    """Where its keys can be changed: its id, or the table of a command of the user."""
    own = _OWN_ACTION.fullmatch(binding.action)
    return f"commands.{own[1]}" if own else binding.id or ""


def _is_listed(binding: Binding) -> bool:
    if binding.id or _OWN_ACTION.fullmatch(binding.action):
        return True
    return not binding.action.startswith(_SCROLLS) and not binding.key.startswith("super+")


def _group(binding: Binding) -> str:
    """The group of a binding, by its id; a binding without one is Textual's own, mostly for text fields."""
    if _OWN_ACTION.fullmatch(binding.action):
        return _OWN
    if not binding.id:
        return _GROUPS["app"] if binding.action.startswith("app.") or binding.action == "quit" else _TYPING
    if "pane(" in binding.action:
        return _GROUPS["go"]
    if is_move(binding):
        return _MOVING
    return _GROUPS.get(binding.id.partition(".")[0], _HERE)


def _unique(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words)).strip()
