"""The options that most launches leave alone, folded away; folded, a line says which are set."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from console.messages import EXTRAS, PATHS, words_of
from console.widgets.field import Field
from console.widgets.form_row import FormRow, harmless
from console.widgets.sheet import Row, Sheet, clip
from console.widgets.suggesting import PathSuggester
from launcher.spec import Mode

if TYPE_CHECKING:
    from textual.app import ComposeResult


class Fold(Sheet, can_focus=True):
    """The line that opens and closes them."""

    DEFAULT_CSS = """
    Fold { height: 1; width: 1fr; padding: 0 1; }
    Fold:focus { background: $cursor-row; }
    Fold:focus:nocolor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space,right,l", "unfold", "Unfold or fold", show=False, id="more.toggle"),
    ]

    class Toggled(Message):
        """A person wants them shown, or hidden."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._text = ""

    def show(self, text: str) -> None:
        """Say what is set."""
        self._text = harmless(text)
        self.refresh_rows()

    def rows(self, width: int) -> list[Row]:
        """One."""
        return [clip(((self._text, ""),), width)]

    def action_unfold(self) -> None:
        """Ask for the other state."""
        self.post_message(self.Toggled())

    def on_click(self) -> None:
        """The same by the mouse."""
        self.action_unfold()


class MoreForm(Vertical):
    """A field for each of them that has a meaning in the mode."""

    DEFAULT_CSS = """
    MoreForm { height: auto; }
    MoreForm #more-fields { height: auto; display: none; }
    """

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._workdir = workdir
        self._mode = Mode.LOCAL
        self.unfolded = False

    def compose(self) -> ComposeResult:
        """The line, and all fields, of which those that the mode needs are shown."""
        yield FormRow("More", Fold(id="fold"))
        with Vertical(id="more-fields"):
            for extra in EXTRAS:
                suggester = PathSuggester(self._workdir) if extra.name in PATHS else None
                field = Field(placeholder=extra.hint, name=extra.name, suggester=suggester)
                yield FormRow(f" {extra.label}", field, name=extra.name)

    def on_mount(self) -> None:
        """Fold."""
        self._fit()

    @property
    def values(self) -> dict[str, str]:
        """What is filled in, by name."""
        return {name: field.value for name, field in self._fields() if field.value}

    def fill(self, values: Mapping[str, str]) -> None:
        """Fill in these, and empty the others."""
        for name, field in self._fields():
            field.value = values.get(name, "")
        self._fit()

    def suit(self, mode: Mode) -> None:
        """Show what has a meaning in a mode; what the other fields hold is kept, and not used."""
        self._mode = mode
        self._fit()

    def toggle(self, *, unfold: bool | None = None) -> None:
        """Show the fields, or hide them."""
        self.unfolded = not self.unfolded if unfold is None else unfold
        self._fit()
        first = next((row for row in self._rows() if row.display), None)
        (first.query_one(Field) if self.unfolded and first else self.query_one(Fold)).focus()

    def judge(self, name: str | None, problem: str | None) -> None:
        """Say what is wrong with one of them; it must be seen."""
        for row in self._rows():
            row.judge(problem if row.name == name else None)
        own = name in {extra.name for extra in EXTRAS}
        self.query_one(FormRow).judge(problem if own and not self.unfolded else None)

    def reveal(self, name: str) -> None:
        """Unfold, if a field of this name is here."""
        if any(extra.name == name for extra in EXTRAS):
            self.toggle(unfold=True)

    def summarise(self) -> None:
        """Say on the line what is set."""
        words = words_of(self.values, self._mode)
        sign = "▾" if self.unfolded else "▸"
        self.query_one(Fold).show(f"{sign} {shlex.join(words) or 'limits, restarts, environment …'}")

    def _fit(self) -> None:
        self.query_one("#more-fields").display = self.unfolded
        for extra, row in zip(EXTRAS, self._rows(), strict=True):
            row.display = self._mode is not Mode.LOCAL or not extra.spark
        self.summarise()

    def _rows(self) -> list[FormRow]:
        return list(self.query("#more-fields FormRow").results(FormRow))

    def _fields(self) -> list[tuple[str, Field]]:
        return [(field.name or "", field) for field in self.query("#more-fields Field").results(Field)]
