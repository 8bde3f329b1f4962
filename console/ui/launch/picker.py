"""Pick a script or a function by a few letters of its name. Source is read, never imported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import get_current_worker

from launcher.runs.status import Status

from ... import formatting as fig
from ...data.launch.preview import Preview, preview_of
from ...data.launch.targets import Candidate, candidates, matched, narrow, recent_candidates, with_recent
from ...formatting import tilde
from ..widgets.failed_pane import contained
from ..widgets.fields import Field
from ..widgets.lists import CursorSheet
from ..widgets.rows import Row, clip, width_of
from .target_text import marked_target
from .workbench.preview import SourcePreview

if TYPE_CHECKING:
    from textual.app import ComposeResult

_SHOWN = 200
_LEAST_TAKES = 12
_BESIDE, _BELOW = 100, 22
"""The least number of columns for a preview beside the candidates, and of lines for one below them."""


class Candidates(CursorSheet[Candidate]):
    """The matching candidates, a line each."""

    class Aimed(Message):
        """Another candidate is under the cursor."""

    def __init__(self) -> None:
        super().__init__(id="candidates")
        self.query_text = ""

    def show(self, candidates: Sequence[Candidate], query: str) -> None:
        """Show these, the best first, with the letters of `query` marked."""
        self.items, self.cursor, self.query_text = candidates, 0, query
        self.refresh_rows()
        self.reveal(0)
        self.post_message(self.Aimed())

    @property
    def shows_cursor(self) -> bool:
        """Always, because the field above has the focus."""
        return True

    def empty_row(self) -> Row:
        """The text if nothing matches."""
        return ((" nothing matches", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """Target, docstring, and the signature where there is room for it."""
        candidate = self.items[index]
        at = matched(candidate.target, self.query_text)
        name = (
            (" ", ground),
            *marked_target(candidate.target, at, ground),
            (" · recent" if candidate.recent else "", f"muted{ground}"),
        )
        doc = f"  {candidate.doc}" if candidate.doc else ""
        takes = "" if candidate.takes in ("recent", "script") else f"  {candidate.takes}"
        room = width - width_of(name) - cell_len(doc)
        takes = fig.shorten(takes, max(room, 0)) if room >= _LEAST_TAKES or not doc else ""
        return clip((*name, (takes, f"muted{ground}"), (doc, f"muted{ground}")), width)

    def action_move(self, items: int) -> None:
        """Move the cursor."""
        super().action_move(items)
        self.post_message(self.Aimed())


class PickerScreen(ModalScreen[str]):
    """Finds what could be launched below a folder; closes with the target, or with nothing."""

    TOPIC = "targets"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close", id="picker.close"),
        Binding("down,ctrl+n", "move(1)", "Next", show=False, id="picker.next"),
        Binding("up,ctrl+p", "move(-1)", "Previous", show=False, priority=True, id="picker.previous"),
        Binding("pagedown", "move(8)", "Page down", show=False, id="picker.page_down"),
        Binding("pageup", "move(-8)", "Page up", show=False, id="picker.page_up"),
    ]

    class CandidatesFound(Message):
        """More candidates; `done` with the last."""

        def __init__(
            self, batch: list[Candidate], *, recent: Sequence[Candidate] = (), done: bool = False
        ) -> None:
            super().__init__()
            self.batch = batch
            self.recent = recent
            self.done = done

    def __init__(self, workdir: Path, runs: Sequence[Status] = (), query: str = "") -> None:
        super().__init__()
        self._workdir, self._query = workdir, query
        self._runs = runs
        self._recent: list[Candidate] = []
        self._all: list[Candidate] = []
        self._done = False

    class CandidateRead(Message):
        """The candidate under the cursor was read."""

        def __init__(self, preview: Preview) -> None:
            super().__init__()
            self.preview = preview

    def compose(self) -> ComposeResult:
        """A field, the candidates that match it, and a preview of one."""
        with Vertical(id="picker"):
            yield Field(value=self._query, placeholder="letters of a file or function")
            with Container(id="choices"):
                yield Candidates()
                yield SourcePreview(id="candidate", classes="")
            yield Static("", id="tally", markup=False)

    def on_mount(self) -> None:
        """Start to search for candidates."""
        self.query_one("#picker").border_title = Content(
            f"Scripts and functions below {tilde(self._workdir)}"
        )
        self._place_preview()
        self._read()

    def on_resize(self) -> None:
        """Place the preview where there is room."""
        self._place_preview()

    def _place_preview(self) -> None:
        width, height = self.app.size
        choices = self.query_one("#choices")
        choices.set_class(width >= _BESIDE, "-beside")
        choices.set_class(width < _BESIDE and height >= _BELOW, "-below")

    @on(Candidates.Aimed)
    def _follow(self) -> None:
        chosen = self.query_one(Candidates).chosen
        if chosen is None:
            self.query_one(SourcePreview).show(None)
        elif self.query_one(SourcePreview).display:
            self._read_preview(chosen.target)

    @work(thread=True, exclusive=True, group="preview")
    def _read_preview(self, target: str) -> None:
        worker = get_current_worker()
        preview = preview_of(target, self._workdir)
        if not worker.is_cancelled:
            self.post_message(self.CandidateRead(preview))

    @on(CandidateRead)
    def _show_preview(self, message: CandidateRead) -> None:
        chosen = self.query_one(Candidates).chosen
        if chosen is not None and chosen.target == message.preview.target:
            self.query_one(SourcePreview).show(message.preview)

    @work(thread=True, group="read")
    def _read(self) -> None:
        worker = get_current_worker()
        self.post_message(self.CandidatesFound([], recent=recent_candidates(self._runs, self._workdir)))
        for batch in candidates(self._workdir):
            if worker.is_cancelled:
                return
            self.post_message(self.CandidatesFound(batch))
        self.post_message(self.CandidatesFound([], done=True))

    @on(CandidatesFound)
    def _take(self, message: CandidatesFound) -> None:
        self._all += message.batch
        self._recent += message.recent
        self._done = message.done
        self._narrow()

    @on(Field.Changed)
    def _narrow(self) -> None:
        known, query = with_recent(self._all, self._recent), self.query_one(Field).value
        matching = narrow(known, query)
        with contained(self):
            self.query_one(Candidates).show(matching[:_SHOWN], query)
        few = f"{fig.count(len(matching))} of " if query.strip() else ""
        state = "" if self._done else " · reading …"
        tally = f"{few}{fig.count(len(known))} found{state} · enter picks"
        self.query_one("#tally", Static).update(tally)

    @on(Field.Submitted)
    def _submitted(self) -> None:
        self.query_one(Candidates).action_choose()

    @on(Candidates.Chosen)
    def _chosen(self, message: Candidates.Chosen) -> None:
        self.dismiss(self.query_one(Candidates).items[message.index].target)

    def action_move(self, items: int) -> None:
        """Move the cursor of the list."""
        self.query_one(Candidates).action_move(items)
