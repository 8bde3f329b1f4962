"""One of a few values, changed in place with the arrow keys: a field of one line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

if TYPE_CHECKING:
    from textual import events


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
        """The value, and which of how many it is."""
        shown = "".join(c if c.isprintable() else " " for c in self.value)
        if len(self._values) < 2:
            return Content(shown)
        at = self._values.index(self.value) + 1 if self.value in self._values else 0
        return Content(f"‹ {shown} ›" + (f"  {at}/{len(self._values)}" if len(self._values) > 3 else ""))

    def action_turn(self, by: int) -> None:
        """Choose the next value, or the one before."""
        at = self._values.index(self.value) if self.value in self._values else -by
        value = self._values[(at + by) % len(self._values)]
        if value != self.value:
            self.value = value
            self.post_message(self.Changed(self, value))

    def on_click(self, _: events.Click) -> None:
        """Choose the next value."""
        self.action_turn(1)


class Toggle(Choice):
    """Something that is on or off."""

    def render(self) -> Content:
        """A box, and the value."""
        box = {"True": "[x]", "False": "[ ]"}.get(self.value, "[?]")
        return Content(f"{box} {self.value}")
