"""A line of a form: a label, what is filled in, and a remark; what is wrong with it stands below it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
from textual.widgets import Static

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget


class FormRow(Vertical):
    """One line, and a second one while there is something wrong."""

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
        # made here, because a row may be judged before it is composed
        self._aside = None if remark is None else Static(remark, classes="remark", markup=False)
        self._below = Static("", classes="wrong", markup=False)
        self._remark = remark
        self.problem: str | None = None

    def compose(self) -> ComposeResult:
        """The line, and room for what is wrong."""
        with Horizontal(classes="line"):
            yield Static(self._label, classes="label", markup=False)
            yield from self._fields
            if self._aside is not None:
                yield self._aside
        yield self._below

    def remark(self, text: str) -> None:
        """Say something beside the field."""
        if self._aside is not None and text != self._remark:
            self._remark = text
            self._aside.update(harmless(text), layout=False)

    def judge(self, problem: str | None) -> None:
        """Say what is wrong, or with None that nothing is."""
        if problem == self.problem:
            return
        self.problem = problem
        self._below.update(f"✗ {harmless(problem)}" if problem else "")
        self._below.display = bool(problem)
        if problem and self.has_focus_within:
            self.call_after_refresh(self.scroll_visible, animate=False)


def harmless(text: str) -> str:
    """The text with a space for each control character."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
