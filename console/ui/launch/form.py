"""The launch form: a target, its parameters or arguments, how many processes, and the folded options."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.message import Message

from launcher.spec.job import applies
from launcher.spec.modes import DEFAULT_MODE, Mode
from launcher.spec.options import PATH, SHARED_PATH
from launcher.spec.script_options import ScriptOption
from launcher.spec.signature import Signature

from ...data.launch.completion import describe
from ...data.launch.detect import Detected, mode_line, room_line
from ...data.launch.draft import EXTRAS, MODES, Draft, words_of
from ..rendering.focus import Framed
from ..widgets.fields import ArgumentSuggester, Choice, Field, FormRow, PathSuggester, harmless
from ..widgets.rows import Row, Sheet, clip
from .parameters import ParamForm, takes_positional

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


SCRIPT = "the whole script"
_PARAM = "param:"


class LaunchForm(VerticalScroll, Framed, can_focus=False):
    """The fields of the form, whose content is a `Draft`. The draft is not validated here."""

    DEFAULT_CSS = """
    LaunchForm { scrollbar-size-vertical: 1; }
    LaunchForm #gpus { width: 16; height: 1; }
    LaunchForm #gpu { width: 16; }
    LaunchForm #mode { width: 16; }
    LaunchForm #hint { padding-left: 13; height: 1; color: $muted; }
    """

    class Edited(Message):
        """Something was filled in."""

    class FindWanted(Message):
        """Enter was pressed in the target field, and it names nothing: something should be found."""

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self._workdir = workdir
        self._pending_params: Mapping[str, str] = {}
        self._kept: Mapping[str, str | None] = {}
        self._params_by_target: dict[str, Mapping[str, str]] = {}
        self._shown_target = ""
        self._arguments = ArgumentSuggester(workdir)
        self._detected: Detected | None = None
        self._offering = asyncio.Lock()
        self.unfound = False
        """Whether the target is no file or function, while something similar is offered."""
        self.border_title = "1 New run"

    def compose(self) -> ComposeResult:
        """A line with label and field for each option."""
        yield FormRow(
            "Target", Field(placeholder="train.py, train.py:main; ctrl+f finds", id="target"), name="target"
        )
        yield FormRow("Run", Choice((SCRIPT,), id="entry"), id="entry-row", remark="")
        yield ParamForm(self._workdir, id="params")
        args = Field(placeholder="--lr 0.1 --epochs 3", id="args", suggester=self._arguments)
        yield FormRow("Arguments", args, id="args-row", name="args")
        yield FormRow("", id="hint-row", remark="")
        processes = Field(value="1", id="processes", restrict=r"[0-9:]*", max_length=11)
        yield FormRow("Processes", processes, id="processes-row", name="processes", remark="")
        yield FormRow("GPUs", Choice(("auto", "yes", "no"), id="gpu"), name="gpu", remark=_GPU["auto"])
        yield FormRow("Mode", Choice([str(m) for m in MODES], id="mode"), name="mode", remark="")
        yield FormRow("Spark", Field(id="spark"), id="spark-row", name="spark")
        yield MoreForm(self._workdir, id="more")

    def on_mount(self) -> None:
        """Show the fields that the mode needs."""
        self.watch(self, "virtual_size", self._keep_in_view, init=False)
        self.query_one("#hint-row").display = False
        self._fit_mode()

    def on_resize(self) -> None:
        """Keep the focused field visible: the command below grows and shrinks while a person types."""
        self._keep_in_view()

    def _keep_in_view(self) -> None:
        """Scroll to the focused field."""
        focused = self.screen.focused
        if focused is not None and self in focused.ancestors:
            focused.scroll_visible(animate=False, immediate=True)

    @property
    def draft(self) -> Draft:
        """The content of the fields."""
        target = self._input("target").value.strip()
        draft = Draft(
            target=target,
            args=self._input("args").value if self.query_one("#args-row").display else "",
            processes=self._input("processes").value,
            mode=self._mode,
            spark=self._input("spark").value if self._mode.traits.address else "",
            gpu=self.query_one("#gpu", Choice).value,
            extras=self._more.values,
            workdir=self._workdir,
            params=self._params.values,
            secrets=self._kept,
        )
        return draft if draft.function else draft.without_params()

    def fill(self, draft: Draft) -> None:
        """Fill in a draft; its parameters are filled in when the function's signature is known."""
        self._pending_params, self._kept = draft.params, draft.secrets
        self._params_by_target.pop(draft.target, None)
        self._input("processes").value = draft.processes
        self._input("args").value = draft.args
        self.query_one("#gpu", Choice).value = draft.gpu
        self.query_one("#mode", Choice).value = str(draft.mode)
        self._input("spark").value = draft.spark
        self._more.fill(draft.extras)
        self._fit_mode()
        self._input("target").value = draft.target
        self.post_message(self.Edited())

    def pick(self, target: str) -> None:
        """Fill in a target."""
        field = self._input("target")
        field.value = target
        field.cursor_position = len(target)

    def go_on(self) -> None:
        """After a target was picked, go to the next field to fill in."""
        first = next(iter(self._params.query("Input, Choice")), None)
        script = bool(self._arguments.options) and bool(self.query_one("#args-row").display)
        field = first or self._input("args" if script else "processes")
        field.focus()
        if isinstance(field, Field):
            field.action_select_all()  # so that typing replaces the value, even if it was focused before

    def toggle_more(self) -> None:
        """Unfold or fold the other options."""
        self._more.toggle()

    def set_detected(self, detected: Detected) -> None:
        """Show the resources of this machine in the remarks."""
        self._detected = detected
        self._remark()

    def show_framework(self, text: str) -> None:
        """Show by whose rules the ranks of the target will meet."""
        self.query_one("#entry-row", FormRow).remark(text)

    async def offer(
        self, functions: Sequence[Signature], options: Sequence[ScriptOption], draft: Draft
    ) -> None:
        """Offer the functions found in the target's file, and fields for the one that is chosen.

        One call after another: a second one with the same function finds its fields made, not being made.
        """
        async with self._offering:
            await self._offer(functions, options, draft)

    async def _offer(
        self, functions: Sequence[Signature], options: Sequence[ScriptOption], draft: Draft
    ) -> None:
        values = [SCRIPT] if draft.source.endswith(".py") or not functions else []
        entry = self.query_one("#entry", Choice)
        entry.offer([*values, *(f.name for f in functions)], draft.function or SCRIPT)
        signature = next((f for f in functions if f.name == draft.function), None)
        self.query_one("#args-row").display = (
            not draft.function or signature is None or takes_positional(signature)
        )
        self._arguments.options = options
        self._hint()
        await self._show_params(signature, draft)

    async def _show_params(self, signature: Signature | None, draft: Draft) -> None:
        """Show the fields of a function; values are remembered for each target, and filled in again."""
        pending, self._pending_params = self._pending_params, {}
        form, changed = self._params, draft.target != self._shown_target
        if form.signature == signature and not pending and not (changed and signature is None):
            self._shown_target = draft.target
            return
        self._params_by_target[self._shown_target] = form.values
        self._shown_target = draft.target
        known = bool(draft.function) and (signature is not None or bool(pending))
        values = pending or self._params_by_target.get(draft.target, {})
        await form.show(signature, values, is_function=known)
        self.post_message(self.Edited())

    def judge(self, field: str, problem: str | None) -> None:
        """Show what is wrong with a field, which is named as in `console.data.launch.draft.Misfit`."""
        for row in self.query("LaunchForm > FormRow").results(FormRow):
            row.judge(problem if row.name == field else None)
        self._params.judge(field.removeprefix(_PARAM) if field.startswith(_PARAM) else None, problem)
        self._more.judge(field, problem)

    @property
    def trouble(self) -> str:
        """Why the mode cannot work here; empty if it can, or if nothing is detected yet."""
        if self._detected is None:
            return ""
        works, how = mode_line(self._detected, self.draft)
        return "" if works else how

    def go_to(self, field: str) -> None:
        """Focus a field by its name as in `Misfit`."""
        name = field.removeprefix(_PARAM)
        self._more.reveal(name)
        for row in self.query(FormRow).results(FormRow):
            if row.name == name and row.display:
                for widget in list(row.query("Input, Choice"))[:1]:
                    widget.focus()

    @on(Field.Changed)
    @on(Choice.Changed)
    @on(MoreForm.Filled)
    def _edited(self) -> None:
        self._remark()
        self._more.summarise()
        self.post_message(self.Edited())

    @on(Fold.Toggled)
    def _toggled(self) -> None:
        self.toggle_more()

    @on(Field.Changed, "#args")
    def _hint(self) -> None:
        options = self._arguments.options
        row = self.query_one("#hint-row", FormRow)
        row.display = bool(options) and bool(self.query_one("#args-row").display)
        row.remark(describe(options, self._input("args").value))

    def _remark(self) -> None:
        draft = self.draft
        self.query_one("#processes-row", FormRow).remark(room_line(self._detected, draft))
        works, how = (True, "") if self._detected is None else mode_line(self._detected, draft)
        self._row("mode").remark(how if works else f"✗ {how}")
        self._row("gpu").remark(_GPU.get(draft.gpu, ""))

    @property
    def _mode(self) -> Mode:
        return Mode(self.query_one("#mode", Choice).value)

    @on(Choice.Changed, "#mode")
    def _fit_mode(self) -> None:
        """Show the address field and the options if they apply in the mode."""
        mode = self._mode
        self.query_one("#spark-row").display = bool(mode.traits.address)
        self._input("spark").placeholder = f"{mode.traits.example}; empty: what the environment says"
        self._more.suit(mode)
        self._remark()

    @on(Choice.Changed, "#entry")
    def _entry_chosen(self, message: Choice.Changed) -> None:
        source = self.draft.source
        self._input("target").value = source if message.value == SCRIPT else f"{source}:{message.value}"

    @on(Field.Submitted)
    def _submitted(self, message: Field.Submitted) -> None:
        if message.input.id == "target" and (self.unfound or not message.value.strip()):
            self.post_message(self.FindWanted())
        else:
            self.screen.focus_next()

    @property
    def _params(self) -> ParamForm:
        return self.query_one(ParamForm)

    @property
    def _more(self) -> MoreForm:
        return self.query_one(MoreForm)

    def _row(self, name: str) -> FormRow:
        return next(row for row in self.query(FormRow).results(FormRow) if row.name == name)

    def _input(self, name: str) -> Field:
        return self.query_one(f"#{name}", Field)


_GPU = {
    "auto": "used if there are enough",
    "yes": "one a rank, or it does not start",
    "no": "hidden from the ranks",
}
