"""Pick a script or a function by a few letters of its name. Source is read, never imported."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static
from textual.worker import get_current_worker

from launcher.runs.status import Status

from ... import formatting as fig
from ...data.launch.targets import Candidate, candidates, matched, narrow, recent_candidates, with_recent
from ...formatting import tilde
from ..widgets.fields import Field
from ..widgets.lists import CursorSheet
from ..widgets.rows import Row, Span, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

_SHOWN = 200


class Candidates(CursorSheet[Candidate]):
    """The matching candidates, a line each."""

    def __init__(self) -> None:
        super().__init__(id="candidates")
        self.query_text = ""

    def show(self, candidates: Sequence[Candidate], query: str) -> None:
        """Show these, the best first, with the letters of `query` marked."""
        self.items, self.cursor, self.query_text = candidates, 0, query
        self.refresh_rows()
        self.reveal(0)

    @property
    def shows_cursor(self) -> bool:
        """Always, because the field above has the focus."""
        return True

    def empty_row(self) -> Row:
        """The text if nothing matches."""
        return ((" nothing matches", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """Name and signature."""
        candidate = self.items[index]
        source, colon, name = candidate.target.partition(":")
        at = matched(candidate.target, self.query_text)
        row = (
            (" ", ground),
            *_marked(source, 0, at, "muted" if colon else "", ground),
            *_marked(colon + name, len(source), at, "bold", ground),
            (" · recent" if candidate.recent else "", f"muted{ground}"),
            (f"  {self._takes(candidate, width)}", f"muted{ground}"),
            (f"  {candidate.doc}" if candidate.doc else "", f"muted{ground}"),
        )
        return clip(row, width)

    def _takes(self, candidate: Candidate, width: int) -> str:
        """The signature, shortened where a docstring follows."""
        text = "" if candidate.takes == "recent" else candidate.takes
        return fig.shorten(text, max(width // 3, 8)) if candidate.doc else text


def _marked(text: str, start: int, at: Collection[int], style: str, ground: str) -> Iterator[Span]:
    """The part of a target that begins at `start`, with the letters at positions `at` underlined."""
    for hit, letters in groupby(enumerate(text, start), lambda pair: pair[0] in at):
        mark = f"{style} underline" if hit else style
        yield "".join(letter for _, letter in letters), f"{mark}{ground}"


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

    def compose(self) -> ComposeResult:
        """A field, and the candidates that match it."""
        with Vertical(id="picker"):
            yield Field(value=self._query, placeholder="letters of a file or function")
            yield Candidates()
            yield Static("", id="tally", markup=False)

    def on_mount(self) -> None:
        """Start to search for candidates."""
        self.query_one("#picker").border_title = Content(
            f"Scripts and functions below {tilde(self._workdir)}"
        )
        self._read()

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
