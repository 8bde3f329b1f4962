"""A question before something that cannot be taken back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from console.widgets.hints import keys_of

if TYPE_CHECKING:
    from textual.app import ComposeResult


class ConfirmScreen(ModalScreen[bool]):
    """Asks; only one key says yes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "Yes", id="confirm.yes"),
        Binding("n,escape,q", "answer(False)", "No", id="confirm.no"),
    ]

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
                yield Static(line, markup=False)
            yes, no = keys_of(self, "confirm.yes", "y"), keys_of(self, "confirm.no", "n")
            said = f"{yes}  {self._verb}      {no}  {self._otherwise}"
            yield Static(said, classes="answers", markup=False)

    def action_answer(self, answer: bool) -> None:
        """Close with the answer."""
        self.dismiss(answer)
