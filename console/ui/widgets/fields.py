"""Fields of one line: text, a choice, a switch, a filter; completion in them; the form row around one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.strip import Strip
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Static

from ...data.launch.completion import complete_options, complete_path, takes_path
from ...data.options.option import ScriptOption

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult


class FormRow(Vertical):
    """A label and its fields on one line; below them a message while something is wrong."""

    DEFAULT_CSS = """
    FormRow { height: auto; width: 1fr; }
    FormRow > .line { height: 1; width: 1fr; }
    FormRow .label { width: 13; color: $muted; }
    FormRow .remark {
        width: 1fr; height: 1; color: $muted; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis;
    }
    FormRow .wrong { height: auto; display: none; padding-left: 13; color: $rank-behind; }
    """

    def __init__(
        self,
        label: str,
        *fields: Widget,
        remark: str | None = None,
        id: str | None = None,  # noqa: A002
        name: str | None = None,
    ) -> None:
        super().__init__(id=id, name=name)
        self._label, self._fields = label, fields
        # made here, because `judge` may be called before the row is composed
        self._remark_widget = None if remark is None else Static(remark, classes="remark", markup=False)
        self._problem_widget = Static("", classes="wrong", markup=False)
        self._remark = remark
        self.problem: str | None = None

    def compose(self) -> ComposeResult:
        """The line, and the message below it."""
        with Horizontal(classes="line"):
            yield Static(self._label, classes="label", markup=False)
            yield from self._fields
            if self._remark_widget is not None:
                yield self._remark_widget
        yield self._problem_widget

    def remark(self, text: str) -> None:
        """Show a remark beside the field."""
        if self._remark_widget is not None and text != self._remark:
            self._remark = text
            self._remark_widget.update(harmless(text), layout=False)

    def judge(self, problem: str | None) -> None:
        """Show what is wrong; None if nothing is."""
        if problem == self.problem:
            return
        self.problem = problem
        self._problem_widget.update(f"✗ {harmless(problem)}" if problem else "")
        self._problem_widget.display = bool(problem)
        if problem and self.has_focus_within:
            self.call_after_refresh(self.scroll_visible, animate=False)


def harmless(text: str) -> str:
    """The text with a space for each control character."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


class Field(Input):
    """An input of one line without a frame.

    Its value may come from a record of another machine, so control characters are not sent to the terminal.
    """

    # Textual would lay the whole screen out for each character; a field's place does not depend on its text
    virtual_size: Reactive[Size] = Reactive(Size(0, 0))

    def __init__(self, value: str | None = None, **options: Any) -> None:
        super().__init__(value, compact=True, **options)
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        """Type; a question mark in an empty field opens the help, because no value begins with one."""
        if event.character == "?" and not self.value:
            event.stop()
            event.prevent_default()
            await self.app.run_action("app.help")
        else:
            await super()._on_key(event)

    def render_line(self, y: int) -> Strip:
        """The line as Textual renders it, with spaces for control characters."""
        strip = super().render_line(y)
        if all(segment.text.isprintable() for segment in strip):
            return strip
        return Strip([Segment(_harmless(s.text), s.style) for s in strip], strip.cell_length)


def _harmless(text: str) -> str:
    return "".join(c if c.isprintable() else " " * cell_len(c) for c in text)


class FilterField(Field):
    """A field for a filter: hidden until it is opened, and hidden again when it is submitted empty."""

    DEFAULT_CSS = "FilterField { height: 1; display: none; }"

    def open(self) -> None:
        """Show the field and focus it."""
        self.display = True
        self.focus()

    def close(self) -> bool:
        """Empty and hide the field; return whether it was shown."""
        was_shown, self.value, self.display = self.display, "", False
        return was_shown

    @on(Field.Submitted)
    def settle(self) -> None:
        """Hide the field if it is empty."""
        self.display = bool(self.value.strip())


class Choice(Widget, can_focus=True):
    """Shows the chosen value between arrows."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; padding: 0 1; background: $surface; }
    Choice:focus { background: $cursor-row; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,l,space", "turn(1)", "Next value", show=False, id="choice.next"),
        Binding("left,h", "turn(-1)", "Previous value", show=False, id="choice.previous"),
    ]

    value: reactive[str] = reactive("")

    class Changed(Message):
        """A person chose another value."""

        def __init__(self, choice: Choice, value: str) -> None:
            super().__init__()
            self.choice = choice
            self.value = value

        @property
        def control(self) -> Choice:
            """The field."""
            return self.choice

    def __init__(
        self,
        values: Sequence[str],
        value: str | None = None,
        *,
        id: str | None = None,  # noqa: A002
        name: str | None = None,
    ) -> None:
        super().__init__(id=id, name=name)
        self._values = tuple(values)
        self.set_reactive(Choice.value, value if value is not None else self._values[0])

    def offer(self, values: Sequence[str], value: str) -> None:
        """Offer other values, and show one of them."""
        if tuple(values) != self._values:
            self._values = tuple(values)
            self.refresh()
        self.value = value

    def render(self) -> Content:
        """The value between arrows, and its number if there are many."""
        shown = "".join(c if c.isprintable() else " " for c in self.value)
        if len(self._values) < 2:
            return Content(shown)
        at = self._values.index(self.value) + 1 if self.value in self._values else 0
        return Content(f"‹ {shown} ›" + (f"  {at}/{len(self._values)}" if len(self._values) > 3 else ""))

    def action_turn(self, by: int) -> None:
        """Choose the next or the previous value."""
        at = self._values.index(self.value) if self.value in self._values else -by
        value = self._values[(at + by) % len(self._values)]
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def on_click(self, _: events.Click) -> None:
        """Choose the next value."""
        self.action_turn(1)


class Toggle(Choice):
    """A switch."""

    def render(self) -> Content:
        """A box, and the value."""
        box = {"True": "[x]", "False": "[ ]"}.get(self.value, "[?]")
        return Content(f"{box} {self.value}")


class PathSuggester(Suggester):
    """Suggests names of files below a folder."""

    def __init__(self, here: Path) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._here = here

    async def get_suggestion(self, value: str) -> str | None:
        """The path completed to the first matching entry; in a thread, as listing a folder may take long."""
        return await asyncio.to_thread(complete_path, value, self._here)


class ArgumentSuggester(Suggester):
    """Suggests a script's options and their values, and files where an option takes one."""

    def __init__(self, here: Path) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._here = here
        self.options: Sequence[ScriptOption] = ()

    async def get_suggestion(self, value: str) -> str | None:
        """The line with its last word completed."""
        if completed := complete_options(self.options, value):
            return completed
        if not takes_path(self.options, value):
            return None
        before, space, last = value.rpartition(" ")
        path = await asyncio.to_thread(complete_path, last, self._here)
        return None if path is None else f"{before}{space}{path}"
