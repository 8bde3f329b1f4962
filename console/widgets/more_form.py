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
    from textual.widget import AwaitMount

    from console.sources.extras import Extra


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
    """A field for each of them that has a meaning in the mode.

    The fields are made when they are first unfolded or filled: most launches leave them alone, and every
    widget is styled again whenever the focus moves.
    """

    DEFAULT_CSS = """
    MoreForm { height: auto; }
    MoreForm #more-fields { height: auto; display: none; }
    """

    class Filled(Message):
        """Something else is filled in now."""

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._workdir = workdir
        self._mode = Mode.LOCAL
        self._fields: dict[str, Field] = {}
        self._made: AwaitMount | None = None
        self._fold, self._room = Fold(id="fold"), Vertical(id="more-fields")
        self.unfolded = False

    def compose(self) -> ComposeResult:
        """The line, and room for the fields."""
        yield FormRow("More", self._fold)
        yield self._room

    def on_mount(self) -> None:
        """Fold."""
        self._fit()

    @property
    def values(self) -> dict[str, str]:
        """What is filled in, by name."""
        return {name: field.value for name, field in self._fields.items() if field.value}

    def fill(self, values: Mapping[str, str]) -> None:
        """Fill in these, and empty the others."""
        if values:
            self._make()
        for name, field in self._fields.items():
            field.value = values.get(name, "")
        self._fit()
        self.post_message(self.Filled())

    def suit(self, mode: Mode) -> None:
        """Show what has a meaning in a mode; what the other fields hold is kept, and not used."""
        self._mode = mode
        self._fit()

    def toggle(self, *, unfold: bool | None = None) -> None:
        """Show the fields, or hide them."""
        self.unfolded = not self.unfolded if unfold is None else unfold
        if not self.unfolded:
            self._fit()
            self._fold.focus()
            return
        self._make()
        self._fit()
        first = next(row for row in self._rows() if row.display)
        self.call_later(self._go_to, first.name)

    def judge(self, name: str | None, problem: str | None) -> None:
        """Say what is wrong with one of them; it must be seen."""
        for row in self._rows():
            row.judge(problem if row.name == name else None)
        own = name in {extra.name for extra in EXTRAS}
        self.query_one(FormRow).judge(problem if own and not self.unfolded else None)

    def reveal(self, name: str) -> None:
        """Unfold and go there, if a field of this name is here."""
        if any(extra.name == name for extra in EXTRAS):
            self.toggle(unfold=True)
            self.call_later(self._go_to, name)

    def summarise(self) -> None:
        """Say on the line what is set."""
        words = words_of(self.values, self._mode)
        sign = "▾" if self.unfolded else "▸"
        self._fold.show(f"{sign} {shlex.join(words) or 'limits, restarts, environment …'}")

    def _make(self) -> None:
        """Make the fields, if that was not done yet."""
        if self._made is None:
            rows = [self._row(extra) for extra in EXTRAS]
            self._made = self._room.mount_all(rows)

    def _row(self, extra: Extra) -> FormRow:
        suggester = PathSuggester(self._workdir) if extra.name in PATHS else None
        field = Field(placeholder=extra.hint, name=extra.name, suggester=suggester)
        self._fields[extra.name] = field
        return FormRow(f" {extra.label}", field, name=extra.name)

    async def _go_to(self, name: str) -> None:
        if self._made is not None:
            await self._made
        self._fields[name].focus(scroll_visible=False)
        # it has no place before it is laid out
        self.call_after_refresh(self._show_around, self._fields[name])

    def _show_around(self, field: Field) -> None:
        """As many of the fields as there is room for, and this one among them."""
        self.scroll_visible(top=True, animate=False, immediate=True)
        field.scroll_visible(animate=False, immediate=True)

    def _fit(self) -> None:
        self._room.display = self.unfolded
        for extra, row in zip(EXTRAS, self._rows(), strict=False):  # there may be none yet
            row.display = self._mode is not Mode.LOCAL or not extra.spark
        self.summarise()

    def _rows(self) -> list[FormRow]:
        return [row for row in self._room.children if isinstance(row, FormRow)]
