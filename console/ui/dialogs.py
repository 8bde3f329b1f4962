"""Confirmation before something that cannot be undone; and the help screen, which lists the keys."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from textwrap import wrap
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import ActiveBinding, Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from .manual import ManualScreen
from .widgets.fields import Field, harmless
from .widgets.key_line import keys_of
from .widgets.rows import Row, ScrollingSheet, clip, width_of

if TYPE_CHECKING:
    from textual.app import ComposeResult

_LABEL_WIDTH = 12


class ConfirmScreen(ModalScreen[bool]):
    """Asks a question; only one key answers yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes"),
        Binding("n,escape,q", "answer(False)", "No", id="confirm.no"),
    ]
    YES: ClassVar[tuple[str, str]] = ("confirm.yes", "y")
    NO: ClassVar[tuple[str, str]] = ("confirm.no", "n")

    def __init__(
        self, question: str, lines: Sequence[str], *, verb: str, otherwise: str = "leave it running"
    ) -> None:
        super().__init__()
        self._question, self._lines, self._verb, self._otherwise = question, lines, verb, otherwise

    def compose(self) -> ComposeResult:
        """The question, what it is about, and the two answers."""
        with Vertical(id="dialog"):
            yield Static(self._question, classes="title", markup=False)
            for line in self._lines:
                yield Static(harmless(line), markup=False)
            yes, no = keys_of(self, *self.YES), keys_of(self, *self.NO)
            answers = f"{yes}  {self._verb}      {no}  {self._otherwise}"
            yield Static(answers, classes="answers", markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)


class StartScreen(ConfirmScreen, inherit_bindings=False):
    """Shows what would be started; enter starts it."""

    DEFAULT_CSS = """
    StartScreen #dialog { width: 90%; max-width: 90; }
    StartScreen #dialog Static { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "answer(True)", "Start", id="start.yes"),
        Binding("escape,n,q", "answer(False)", "Start nothing", id="start.no"),
    ]
    YES = ("start.yes", "enter")
    NO = ("start.no", "esc")

    def __init__(self, lines: Sequence[tuple[str, str]]) -> None:
        """Show `lines`: pairs of a label and a text."""
        shown = [f"{label:<{_LABEL_WIDTH}}{text}" for label, text in lines]
        super().__init__("Start this run again?", shown, verb="start it", otherwise="start nothing")


_KEYS_WIDTH, _WHAT_WIDTH, _IDS_WIDTH = 12, 25, 25
_COLUMN = _KEYS_WIDTH + _WHAT_WIDTH + _IDS_WIDTH + 3
_FRAME = 10
_HERE = "This pane"
_TYPING = "Typing"
_GROUPS = {
    "go": "Go to",
    "launch": "Form",
    "run": "Run",
    "history": "History",
    "cluster": "Cluster",
    "machines": "Cluster",
    "log": "Log",
    "app": "Everywhere",
}
_ORDER = ("Run", "Form", "History", "Cluster", "Log", "Go to", _HERE, "Everywhere", _TYPING)
# actions that Textual binds in every scrollable widget, even if there is nothing to scroll
_SCROLLS = ("scroll_", "page_")


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the help: keys, what they do, the ids under which they can be changed, and the group."""

    keys: str
    what: str
    ids: str
    group: str = _HERE

    def rows(self) -> list[Row]:
        """The keys, the meaning and the muted ids side by side; long keys and ids wrap."""
        keys, ids = wrap(self.keys, _KEYS_WIDTH) or [""], wrap(self.ids, _IDS_WIDTH)
        return [
            (
                (f"{key:>{_KEYS_WIDTH}}", "bold"),
                (f"  {(self.what if number == 0 else ''):<{_WHAT_WIDTH}}", ""),
                (f" {name}", "muted"),
            )
            for number, (key, name) in enumerate(zip_longest(keys, ids, fillvalue=""))
        ]


class Keys(ScrollingSheet):
    """The lines of the help, group by group; in two columns if they fit."""

    def __init__(self, lines: Sequence[Line]) -> None:
        super().__init__(id="keys")
        self.lines = lines

    def rows(self, width: int) -> Sequence[Row]:
        """The lines, clipped to the width."""
        return [clip(row, width) for row in laid_out(self.lines, width)]


def laid_out(lines: Sequence[Line], width: int) -> list[Row]:
    """The groups below each other, or in two columns if the width allows."""
    blocks = []
    for name in _ORDER:
        rows = [row for line in lines if line.group == name for row in line.rows()]
        if rows:
            blocks.append([((f"{name:>{_KEYS_WIDTH}}", "muted underline"),), *rows, ()])
    if width < 2 * _COLUMN:
        return [row for block in blocks for row in block][:-1]
    left: list[Row] = []
    right: list[Row] = []
    half = sum(map(len, blocks)) / 2
    for block in blocks:
        (left if len(left) + len(block) / 2 <= half else right).extend(block)
    return [
        (*one, (" " * (_COLUMN - width_of(one)), ""), *other)
        for one, other in zip_longest(left[:-1], right[:-1], fillvalue=())
    ]


class HelpScreen(ModalScreen[None]):
    """Every key that was active on the screen below."""

    AUTO_FOCUS = "#keys"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close", show=False, id="help.close"),
        Binding("slash", "search", "Find a key", show=False, key_display="/", id="help.search"),
        Binding("m", "manual", "Manual", show=False, id="help.manual"),
    ]

    def __init__(
        self,
        bindings: Iterable[ActiveBinding],
        name: Callable[[Binding], str],
        words: Mapping[str, str],
        topic: str,
    ) -> None:
        super().__init__()
        self._topic = topic
        self._lines = key_lines(bindings, name, words)

    def compose(self) -> ComposeResult:
        """The title, the search field, the keys, and a line with the keys of this screen."""
        with Vertical(id="dialog"):
            yield Static("Keys here", classes="title")
            yield Field(placeholder="letters of a key, of what it does, or of its id", id="sought")
            yield Keys(self._lines)
            find, close = keys_of(self, "help.search", "/"), keys_of(self, "help.close", "esc")
            manual = keys_of(self, "help.manual", "m")
            hint = f"{find} finds a key · {manual} the manual · {close} closes · leaving stops no run"
            yield Static(hint, classes="answers", markup=False)

    def on_mount(self) -> None:
        """Make the list as tall as its rows if the terminal allows, and as wide as its columns."""
        self.query_one(Field).display = False
        keys, room = self.query_one(Keys), self.app.size.width * 9 // 10 - _FRAME
        keys.styles.width = 2 * _COLUMN + 1 if room > 2 * _COLUMN else _COLUMN + 1
        rows = len(laid_out(self._lines, room))
        keys.styles.height = min(rows, max(self.app.size.height * 9 // 10 - _FRAME, 3))

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


def key_lines(
    bindings: Iterable[ActiveBinding], name: Callable[[Binding], str], words: Mapping[str, str]
) -> list[Line]:
    """The lines of the help, those of the key line first.

    Args:
        bindings: the active bindings. Two with the same group and meaning share a line.
        name: gives the text for a binding's key.
        words: what a binding does at the moment, by its id, if that differs from its description.
    """
    grouped: dict[tuple[str, str], list[Binding]] = {}
    for active in bindings:
        binding = active.binding
        if binding.description and not binding.system and _is_listed(binding):
            usual = binding.description if binding.id else binding.description.capitalize()
            what = words.get(binding.id or "", usual)
            grouped.setdefault((_group(binding), what), []).append(binding)
    ordered = sorted(grouped.items(), key=lambda each: not any(binding.show for binding in each[1]))
    return [
        Line(_unique(map(name, same)), what, _unique(b.id or "" for b in same), group)
        for (group, what), same in ordered
    ]


def _is_listed(binding: Binding) -> bool:
    if binding.id:
        return True
    return not binding.action.startswith(_SCROLLS) and not binding.key.startswith("super+")


def _group(binding: Binding) -> str:
    """The group of a binding, by its id; a binding without one is Textual's own, mostly for text fields."""
    if not binding.id:
        return _GROUPS["app"] if binding.action.startswith("app.") or binding.action == "quit" else _TYPING
    if "pane(" in binding.action:
        return _GROUPS["go"]
    return _GROUPS.get(binding.id.partition(".")[0], _HERE)


def _unique(words: Iterable[str]) -> str:
    return " ".join(dict.fromkeys(words)).strip()
