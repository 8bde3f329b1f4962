"""The launch form: a target, how it is entered, its parameters or arguments, and how many processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Horizontal, VerticalScroll
from textual.message import Message
from textual.widgets import Static

from console.messages import MODES, Draft
from console.widgets.choice import Choice
from console.widgets.field import Field
from console.widgets.param_form import ParamForm, takes_positional
from launcher.signature import Signature
from launcher.spec import Mode

if TYPE_CHECKING:
    from textual.app import ComposeResult

SCRIPT = "the whole script"


class LaunchForm(VerticalScroll, can_focus=False):
    """Fields of one line each. What is in them is a draft; whether it is right is not known here."""

    DEFAULT_CSS = """
    LaunchForm { scrollbar-size-vertical: 1; }
    LaunchForm .row { height: 1; width: 1fr; }
    LaunchForm .label { width: 13; color: $muted; }
    LaunchForm .second { width: 8; margin-left: 2; }
    LaunchForm .parameter { color: $foreground; }
    LaunchForm .note { width: 18; color: $muted; padding-left: 1; }
    """

    class Edited(Message):
        """Something was filled in."""

    class FindWanted(Message):
        """Enter on an empty target: a person wants to be shown what there is."""

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self._workdir = workdir
        self._filling: Mapping[str, str] = {}
        self.border_title = "1 New run"

    def compose(self) -> ComposeResult:
        """Label and field, a line each."""
        with Horizontal(classes="row"):
            yield Static("Target", classes="label")
            yield Field(placeholder="train.py, train.py:main; ctrl+f finds", id="target")
        with Horizontal(classes="row"):
            yield Static("Run", classes="label")
            yield Choice((SCRIPT,), id="entry")
        yield ParamForm(id="params")
        with Horizontal(classes="row", id="args-row"):
            yield Static("Arguments", classes="label")
            yield Field(placeholder="--lr 0.1 --epochs 3", id="args")
        with Horizontal(classes="row"):
            yield Static("Processes", classes="label")
            yield Field(value="1", id="processes", type="integer", max_length=5)
            yield Static("GPUs", classes="label second")
            yield Choice(("auto", "yes", "no"), id="gpu")
        if len(MODES) > 1:
            with Horizontal(classes="row"):
                yield Static("Mode", classes="label")
                yield Choice([str(m) for m in MODES], id="mode")

    @property
    def draft(self) -> Draft:
        """What is filled in."""
        target = self._input("target").value.strip()
        draft = Draft(
            target=target,
            args=self._input("args").value if self.query_one("#args-row").display else "",
            processes=self._input("processes").value,
            mode=Mode(self.query_one("#mode", Choice).value) if len(MODES) > 1 else MODES[0],
            gpu=self.query_one("#gpu", Choice).value,
            workdir=self._workdir,
            params=self.query_one(ParamForm).values,
        )
        return draft if draft.function else draft.without_params()

    def fill(self, draft: Draft) -> None:
        """Fill in a draft; parameters follow when the function's signature is known."""
        self._filling = draft.params
        self._input("processes").value = draft.processes
        self._input("args").value = draft.args
        self.query_one("#gpu", Choice).value = draft.gpu
        self._input("target").value = draft.target
        self.post_message(self.Edited())

    def pick(self, target: str) -> None:
        """Fill in a target, and go on to the next thing a person has to say."""
        field = self._input("target")
        field.value = target
        field.cursor_position = len(target)
        self._input("processes").focus()

    async def offer(self, functions: Sequence[Signature], draft: Draft) -> None:
        """Offer the functions found in the target's file, and fields for the one that is chosen."""
        values = [SCRIPT] if draft.source.endswith(".py") or not functions else []
        entry = self.query_one("#entry", Choice)
        entry.offer([*values, *(f.name for f in functions)], draft.function or SCRIPT)
        signature = next((f for f in functions if f.name == draft.function), None)
        self.query_one("#args-row").display = (
            not draft.function or signature is None or takes_positional(signature)
        )
        filling, self._filling = self._filling, {}
        form = self.query_one(ParamForm)
        if form.signature != signature or filling:
            await form.show(signature, filling)
            self.post_message(self.Edited())

    @on(Field.Changed)
    @on(Choice.Changed)
    def _edited(self) -> None:
        self.post_message(self.Edited())

    @on(Choice.Changed, "#entry")
    def _entry_chosen(self, message: Choice.Changed) -> None:
        source = self.draft.source
        self._input("target").value = source if message.value == SCRIPT else f"{source}:{message.value}"

    @on(Field.Submitted)
    def _submitted(self, message: Field.Submitted) -> None:
        if message.input.id == "target" and not message.value.strip():
            self.post_message(self.FindWanted())
        else:
            self.screen.focus_next()

    def _input(self, name: str) -> Field:
        return self.query_one(f"#{name}", Field)
