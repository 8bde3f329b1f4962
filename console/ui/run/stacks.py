"""The stacks of all ranks, grouped, in a dialog over the run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from launcher.diagnosis.stacks import older_line, stacks_block

from ...data.run.model import RunView
from ...formatting import number
from ..widgets.key_line import keys_of
from ..widgets.rows import Row, clip
from .view_sheet import ScrollingViewSheet

if TYPE_CHECKING:
    from textual.app import ComposeResult


class StackSheet(ScrollingViewSheet):
    """The stacks that were taken last, and the ranks that have not answered."""

    def rows(self, width: int) -> Sequence[Row]:
        """A block for each group of ranks with the same stack."""
        if self.view is None:
            return [()]
        return [clip(row, width) for row in stack_rows(self.view)]


class StacksScreen(ModalScreen[None]):
    """Shows stacks as they arrive."""

    TOPIC = "limits"
    DEFAULT_CSS = """
    StacksScreen { align: center middle; }
    StacksScreen StackSheet { width: 90%; height: 90%; background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "app.pop_screen", "Close", id="stacks.close"),
        Binding("y", "copy", "Copy", id="stacks.copy"),
    ]

    def __init__(self, view: RunView) -> None:
        super().__init__()
        self._view = view

    def compose(self) -> ComposeResult:
        """The sheet."""
        yield StackSheet(id="stacks", classes="pane")

    def on_mount(self) -> None:
        """Show the stacks that have arrived."""
        self.show(self._view)

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        self._view = view
        for sheet in self.query(StackSheet):
            copy, close = keys_of(self, "stacks.copy", "y"), keys_of(self, "stacks.close", "esc")
            title = f"Stacks · {len(view.state.stacks)}/{number(view.size, 'rank')}"
            sheet.entitle(title, f"{copy} copies all · {close} closes")
            sheet.show(view)

    def action_copy(self) -> None:
        """Copy all stacks."""
        self.app.copy_to_clipboard(stacks_block(self._view.state, most=None))


def stack_rows(view: RunView) -> list[Row]:
    """The block, line by line."""
    block = stacks_block(view.state, most=None)
    if not block:
        none = " no rank has answered yet …" if view.live else " no stacks were taken of this run"
        return [((none, "muted"),)]
    older = older_line(view.state)
    head: list[Row] = [((f" {older}", "rank-behind"),), ()] if older else []
    return [*head, *_block_rows(block)]


def _block_rows(block: str) -> list[Row]:
    return [((f" {line}", "" if line.startswith(" ") else "bold"),) for line in block.splitlines()]
