"""The launch form: a target, its parameters or arguments, how many processes, and the folded options."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.containers import VerticalScroll
from textual.content import Content
from textual.geometry import Region
from textual.message import Message

from launcher.spec.modes import Mode
from launcher.spec.signature import Signature

from ... import formatting as fig
from ...data.launch.completion import describe, option_line
from ...data.launch.detect import Detected, mode_line, room_line
from ...data.launch.draft import MODES, Draft
from ...data.options.arguments import read_line, suited
from ...data.options.option import ScriptParser
from ..rendering.focus import Framed
from ..widgets.fields import ArgumentSuggester, Choice, Field, FormRow, harmless
from .more import Fold, MoreForm
from .options import OptionForm
from .parameters import ParamForm, takes_positional

if TYPE_CHECKING:
    from typing import Self

    from textual import events
    from textual.app import ComposeResult


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

    _subtitling = False

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
        line = self._arguments_line
        yield OptionForm(self._workdir, line, self._write_arguments, id="options")
        args = Field(placeholder="as in a shell", id="args", suggester=self._arguments)
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Up and down go from field to field, also where the form could be scrolled."""
        if action in ("scroll_up", "scroll_down"):
            return False
        return super().check_action(action, parameters)

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
        field = next(iter(self._params.query("Input, Choice")), None) or self._options.first()
        field = field or self._input("processes")
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
        self,
        functions: Sequence[Signature],
        parser: ScriptParser,
        draft: Draft,
        about: Mapping[str, str] | None = None,
    ) -> None:
        """Offer the functions found in the target's file, and fields for what is chosen.

        One call after another: a second one with the same function finds its fields made, not being made.
        `about` is what the function's docstring says about its parameters.
        """
        async with self._offering:
            values = [SCRIPT] if draft.source.endswith(".py") or not functions else []
            entry = self.query_one("#entry", Choice)
            entry.offer([*values, *(f.name for f in functions)], draft.function or SCRIPT)
            signature = next((f for f in functions if f.name == draft.function), None)
            self.query_one("#args-row").display = (
                not draft.function or signature is None or takes_positional(signature)
            )
            self._params.about = about or {}
            await self._options.show(parser, self._input("args").value)
            self._hint()
            await self._show_params(signature, draft)

    async def _show_params(self, signature: Signature | None, draft: Draft) -> None:
        """Show the fields of a function; values are remembered for each target, and filled in again."""
        pending, self._pending_params = self._pending_params, {}
        form, changed = self._params, draft.target != self._shown_target
        if form.signature == signature and not pending and not (changed and form.is_open):
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

    def _arguments_line(self) -> str:
        return self._input("args").value

    def _write_arguments(self, text: str) -> None:
        """Take over the line of arguments that a field has changed."""
        field = self._input("args")
        field.value = text
        field.cursor_position = len(text)

    @on(Field.Changed, "#args")
    def _arguments_typed(self) -> None:
        self._options.follow(self._input("args").value)
        self._hint()

    def _hint(self) -> None:
        """Describe the option that is being typed, else say what is not read of the script."""
        parser, text = self._options.parser, self._input("args").value
        line = read_line(parser.options, text)
        self._arguments.options = suited(parser.options, line.command if line else "")
        row = self.query_one("#hint-row", FormRow)
        row.display = bool(parser) and bool(self.query_one("#args-row").display)
        typed = describe(self._arguments.options, text) if self._input("args").has_focus else ""
        row.remark(harmless(typed or read_of(parser)))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Tell in the border what the option is whose field has the focus."""
        option = self._options.option_at(event.widget)
        text = harmless(option_line(option)) if option is not None else ""
        subtitle = Content(fig.shorten(text, max(self.size.width - 6, 8)))
        if (self.border_subtitle or "") != subtitle.markup:
            self._subtitling = True
            self.border_subtitle = subtitle
            self._subtitling = False

    def refresh(
        self, *regions: Region, repaint: bool = True, layout: bool = False, recompose: bool = False
    ) -> Self:
        """Repaint; while the text in the lower border is set, only that line."""
        if self._subtitling and not layout:
            regions = (Region(-1, self.outer_size.height - 2, self.outer_size.width, 1),)
        return super().refresh(*regions, repaint=repaint, layout=layout, recompose=recompose)

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
    def _options(self) -> OptionForm:
        return self.query_one(OptionForm)

    @property
    def _more(self) -> MoreForm:
        return self.query_one(MoreForm)

    def _row(self, name: str) -> FormRow:
        rows = self.query("LaunchForm > FormRow").results(FormRow)  # a parameter may have the same name
        return next(row for row in rows if row.name == name)

    def _input(self, name: str) -> Field:
        return self.query_one(f"#{name}", Field)


def read_of(parser: ScriptParser) -> str:
    """Which library reads a script's arguments, and what of it is not read here."""
    if not parser.unread:
        return f"{parser.library}: the fields above write this line, and it fills them in"
    return f"{parser.library}: options of {', '.join(parser.unread)} are not read; type them here"


_GPU = {
    "auto": "used if there are enough",
    "yes": "one a rank, or it does not start",
    "no": "hidden from the ranks",
}
