"""The stacks of all ranks, grouped, in a dialog over the run: with the code of each frame that is at hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from launcher.diagnosis.stacks import frame_in, older_line, stacks_block
from launcher.state.library_code import is_library, library_path
from launcher.state.run_state import RunState

from ...data.code.source import Spot, read_lines
from ...data.run.model import RunView
from ...formatting import number
from ..widgets.key_line import keys_of
from ..widgets.rows import Row
from .code_at_hand import copy_named, edit, root_of
from .frames import FrameSheet, fitted

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import ComposeResult

_FEW = 3
"""As many frames of libraries in a row are shown; of more, only the innermost, which tells what is done."""


class StackSheet(FrameSheet):
    """The stacks that were taken last, and the ranks that have not answered."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.code: Mapping[Spot, str] = {}
        self.unfolded = False
        self._made: tuple[tuple[object, ...], list[Row], dict[int, Spot]] | None = None

    def framed_rows(self, width: int) -> tuple[Sequence[Row], Mapping[int, Spot]]:
        """A block for each group of ranks with the same stack; made again only if something differs."""
        if self.view is None:
            return [()], {}
        state = self.view.state
        key = (state.stacks, state.ended, self.view.live, self.code, self.unfolded, width)
        if self._made is None or self._made[0] != key:
            spots: dict[int, Spot] = {}
            rows = stack_rows(self.view, self.code, spots, unfolded=self.unfolded)
            fit = [fitted(row, spots.get(number), width) for number, row in enumerate(rows)]
            self._made = key, fit, spots
        return self._made[1:]

    def first_of(self, spots: Mapping[int, Spot]) -> int | None:
        """The first frame of the user's code: that of the odd rank out, which stands first."""
        return next((row for row, spot in spots.items() if not is_library(spot.file)), None)


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
        Binding("e", "edit", "Open in the editor", id="stacks.edit"),
        Binding("a", "unfold", "All frames of libraries", id="stacks.unfold"),
    ]

    def __init__(self, view: RunView, run: Path) -> None:
        super().__init__()
        self._view, self._run = view, run
        self._read: set[Spot] = set()

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
            keys = {what: keys_of(self, f"stacks.{what}", key) for what, key in _KEYS.items()}
            title = f"Stacks · {len(view.state.stacks)}/{number(view.size, 'rank')}"
            sheet.entitle(title, f"{keys['edit']} edits · {keys['copy']} copies · {keys['close']} closes")
            stale = sheet.view is None or sheet.view.state.stacks is not view.state.stacks
            sheet.show(view)
            if stale and (new := spots_of(view.state) - self._read):
                self._read |= new
                self._read_code(frozenset(new))

    @work(thread=True, group="code")
    def _read_code(self, spots: frozenset[Spot]) -> None:
        """In a thread, because the files may be on a slow file system."""
        lines = read_lines(self._run, spots, root_of(self.app))
        if lines and self.is_attached:
            self.app.call_from_thread(self._show_code, lines)

    def _show_code(self, lines: Mapping[Spot, str]) -> None:
        for sheet in self.query(StackSheet):
            sheet.code = {**sheet.code, **lines}
            sheet.refresh_rows()

    def action_copy(self) -> None:
        """Copy all stacks, with the code that is shown."""
        code = self.query_one(StackSheet).code
        text = block_text(self._view.state, code)
        if text:
            copy_named(self.app, text, "the stacks")
        else:
            self.notify("there are no stacks to copy", markup=False)

    def action_edit(self) -> None:
        """Open the selected frame's file at its line."""
        edit(self, self._run, self.query_one(StackSheet).spot)

    def action_unfold(self) -> None:
        """Show all frames of libraries, or fold those that stand in a row."""
        sheet = self.query_one(StackSheet)
        sheet.unfolded = not sheet.unfolded
        sheet.refresh_rows()


_KEYS = {"edit": "e", "copy": "y", "close": "esc"}


def spots_of(state: RunState) -> set[Spot]:
    """Every frame of the stacks."""
    lines = {line for taken in state.stacks for line in taken.text.splitlines()}
    return {Spot(*found) for line in lines if (found := frame_in(line)) is not None}


def block_text(state: RunState, code: Mapping[Spot, str]) -> str:
    """All stacks as text, each frame with its code if that is at hand."""
    lines = list[str]()
    for line in stacks_block(state, most=None).splitlines():
        lines.append(line)
        found = frame_in(line)
        if found is not None and (shown := code.get(Spot(*found))):
            lines.append(f"{_indent(line)}  {shown}")
    return "\n".join(lines)


def stack_rows(
    view: RunView,
    code: Mapping[Spot, str] | None = None,
    spots: MutableMapping[int, Spot] | None = None,
    *,
    unfolded: bool = False,
) -> list[Row]:
    """The block, line by line.

    Args:
        view: the run.
        code: what is read of the frames' code.
        spots: the frames are put into it, by the numbers of their rows.
        unfolded: whether all frames of libraries are shown.
    """
    block = stacks_block(view.state, most=None)
    if not block:
        none = " no rank has answered yet …" if view.live else " no stacks were taken of this run"
        return [((none, "muted"),)]
    older = older_line(view.state)
    rows: list[Row] = [((f" {older}", "rank-behind"),), ()] if older else []
    for row, spot in _block_rows(block, code or {}, unfolded=unfolded):
        if spot is not None and spots is not None:
            spots[len(rows)] = spot
        rows.append(row)
    return rows


def _block_rows(block: str, code: Mapping[Spot, str], *, unfolded: bool) -> Iterator[tuple[Row, Spot | None]]:
    """Each row, and the frame that it is."""
    lines = [(line, Spot(*found) if (found := frame_in(line)) else None) for line in block.splitlines()]
    for folds, group in groupby(lines, lambda each: each[1] is not None and is_library(each[1].file)):
        members = list(group)
        shown = members if unfolded or not folds or len(members) <= _FEW else members[:1]
        for line, spot in shown:
            text = code.get(spot, "") if spot is not None else ""
            yield ((f" {line}", "muted" if folds or text else _style(line)),), spot
            if text:
                yield ((f" {_indent(line)}  {text}", "" if not folds else "muted"),), None
        if folded := len(members) - len(shown):
            text = f" {_indent(members[0][0])}… {number(folded, 'frame')} in {_libraries(members[1:])}"
            yield ((text, "muted"),), None


def _style(line: str) -> str:
    return "" if line.startswith(" ") else "bold"


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" "))]


def _libraries(members: Sequence[tuple[str, Spot | None]]) -> str:
    """The packages that these frames are in."""
    names = (library_path(spot.file).partition("/")[0].removesuffix(".py") for _, spot in members if spot)
    packages = list(dict.fromkeys(names))
    return ", ".join(packages[:3]) + (" and others" if len(packages) > 3 else "")
