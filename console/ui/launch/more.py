"""The folded options of the launch form, and the line that unfolds them."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from launcher.spec.job import applies
from launcher.spec.modes import DEFAULT_MODE, Mode
from launcher.spec.options import PATH, SHARED_PATH

from ...data.launch.draft import EXTRAS, words_of
from ..widgets.fields import Field, FormRow, PathSuggester, harmless
from ..widgets.rows import Row, Sheet, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import AwaitMount

    from launcher.spec.options import Option


class Fold(Sheet, can_focus=True):
    """The line that unfolds and folds the options of `MoreForm`."""

    DEFAULT_CSS = """
    Fold { height: 1; width: 1fr; padding: 0 1; }
    Fold:focus { background: $cursor-row; }
    Fold:focus:nocolor { text-style: reverse; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space,right,l", "unfold", "Unfold or fold", show=False, id="more.toggle"),
    ]

    class Toggled(Message):
        """A person unfolded or folded the options."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._text = ""

    def show(self, text: str) -> None:
        """Show a summary of the options that are set."""
        self._text = harmless(text)
        self.refresh_rows()

    def notify_style_update(self) -> None:
        """Paint in the colours that there are now: with the focus it has another ground."""
        super().notify_style_update()
        self._palette.clear()
        self.repaint_rows([(0, 0, None)])

    def rows(self, width: int) -> list[Row]:
        """The summary."""
        return [clip(((self._text, ""),), width)]

    def action_unfold(self) -> None:
        """Post `Toggled`."""
        self.post_message(self.Toggled())

    def on_click(self) -> None:
        """Post `Toggled`."""
        self.action_unfold()


class MoreForm(Vertical):
    """The folded options: a field for each one that applies in the mode.

    The fields are made when they are first unfolded or filled in: most launches do not need them, and Textual
    styles every widget again whenever the focus moves.
    """

    DEFAULT_CSS = """
    MoreForm { height: auto; }
    MoreForm #more-fields { height: auto; display: none; }
    """

    class Filled(Message):
        """The fields have been filled in with other values."""

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self._workdir = workdir
        self._mode = DEFAULT_MODE
        self._fields: dict[str, Field] = {}
        self._made: AwaitMount | None = None
        self._fold, self._room = Fold(id="fold"), Vertical(id="more-fields")
        self.unfolded = False

    def compose(self) -> ComposeResult:
        """The line, and room for the fields."""
        yield FormRow("More", self._fold)
        yield self._room

    def on_mount(self) -> None:
        """Hide the fields."""
        self._fit()

    @property
    def values(self) -> dict[str, str]:
        """The values that are not empty, by name."""
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
        """Show the options that apply in a mode; other fields keep their values, which are not used."""
        self._mode = mode
        self._fit()

    def toggle(self, *, unfold: bool | None = None) -> None:
        """Show or hide the fields."""
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
        """Show what is wrong with a field; while folded, on the line of the fold."""
        for row in self._rows():
            row.judge(problem if row.name == name else None)
        own = name in {extra.name for extra in EXTRAS}
        self.query_one(FormRow).judge(problem if own and not self.unfolded else None)

    def reveal(self, name: str) -> None:
        """Unfold and go to the field of this name, if it is one of these."""
        if any(extra.name == name for extra in EXTRAS):
            self.toggle(unfold=True)
            self.call_later(self._go_to, name)

    def summarise(self) -> None:
        """Show the options that are set on the line of the fold."""
        words = words_of(self.values, self._mode)
        sign = "▾" if self.unfolded else "▸"
        self._fold.show(f"{sign} {shlex.join(words) or 'limits, restarts, environment …'}")

    def _make(self) -> None:
        """Make the fields on the first call."""
        if self._made is None:
            rows = [self._row(extra) for extra in EXTRAS]
            self._made = self._room.mount_all(rows)

    def _row(self, extra: Option) -> FormRow:
        suggester = PathSuggester(self._workdir) if extra.kind in (PATH, SHARED_PATH) else None
        field = Field(placeholder=extra.placeholder, name=extra.name, suggester=suggester)
        self._fields[extra.name] = field
        return FormRow(f" {extra.label}", field, name=extra.name)

    async def _go_to(self, name: str) -> None:
        if self._made is not None:
            await self._made
        self._fields[name].focus(scroll_visible=False)
        # scrolling needs the field's region, which it has only after the layout
        self.call_after_refresh(self._show_around, self._fields[name])

    def _show_around(self, field: Field) -> None:
        """Scroll so that as many of the fields as possible are visible, and this one among them."""
        self.scroll_visible(top=True, animate=False, immediate=True)
        field.scroll_visible(animate=False, immediate=True)

    def _fit(self) -> None:
        self._room.display = self.unfolded
        for extra, row in zip(EXTRAS, self._rows(), strict=False):  # no rows before `_make`
            row.display = applies(extra, self._mode)
        self.summarise()

    def _rows(self) -> list[FormRow]:
        return [row for row in self._room.children if isinstance(row, FormRow)]
