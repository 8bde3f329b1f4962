"""Confirmation before something that cannot be undone, and before a run is started again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from .widgets.fields import harmless
from .widgets.key_line import keys_of

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
