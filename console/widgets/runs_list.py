"""Every run there has been as a row: state, size, when, how long, by whom, and why it ended."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.reactive import Reactive

from console.messages import took
from console.widgets import figures as fig
from console.widgets.columns import Column, fitting
from console.widgets.identity import PHASE_GLYPHS
from console.widgets.long_list import LongList
from console.widgets.recent_runs import outcome
from console.widgets.sheet import Row, clip
from launcher.runs.status import Status

_LEAD, _LEAST = 13, 20
_TEXT = 500


def _target(run: Status) -> str:
    return _line(f"{os.path.basename(run.target[-_TEXT:])} {run.args}")


COLUMNS: tuple[Column[Status], ...] = (
    Column("name", 16, lambda run: _line(run.name or run.id), 9, "bold", left=True),
    Column("target", 24, _target, 3, left=True),
    Column("ranks", 5, lambda run: str(run.num_processes), 7),
    Column("mode", 7, lambda run: _line(run.mode), 2, "muted", left=True),
    Column("who", 10, lambda run: _line(run.user), 4, left=True),
    Column("started", 12, lambda run: started(run.started), 6, "muted", left=True),
    Column("took", 7, lambda run: took_text(run), 8),
    Column("exit", 4, lambda run: "" if run.exit_code is None else str(run.exit_code), 5),
)


def started(moment: float | None) -> str:
    """The local time of a start: it does not change while one looks."""
    if moment is None or not math.isfinite(moment):
        return fig.UNKNOWN
    try:
        return time.strftime("%d %b %H:%M", time.localtime(moment))
    except (ValueError, OverflowError, OSError):
        return fig.UNKNOWN


def took_text(run: Status, now: float | None = None) -> str:
    """How long a run took; of one that goes on, the whole minutes so far, which seldom change."""
    seconds = took(run, now)
    if run.state.final or seconds is None:
        return fig.duration(seconds)
    minutes = int(seconds // 60)
    return f"{minutes // 60}h{minutes % 60:02d}m" if minutes >= 60 else f"{minutes}m" if minutes else "<1m"


def _columns(width: int) -> list[Column[Status]]:
    """The columns that fit beside the state and some words of why."""
    return fitting(COLUMNS, width - _LEAD - max(_LEAST, width // 4))


class RunsList(LongList):
    """The runs, with a cursor and marks. A mark is for what is done to several at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", id="history.mark"),
    ]

    # watched, not told by a message: what is shown of a run is then painted together with the cursor
    here: Reactive[Status | None] = Reactive(None, repaint=False)
    """The run under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.runs: tuple[Status, ...] = ()
        self.marked: dict[str, None] = {}
        self.empty = ""

    def show(self, runs: Sequence[Status], *, empty: str) -> None:
        """Show these runs, with the cursor on the same one as before; `empty` is said where there is none."""
        here = self.chosen
        self.runs, self.empty = tuple(runs), empty
        at = next((i for i, run in enumerate(self.runs) if here is not None and run.id == here.id), None)
        self.cursor = min(self.cursor, max(len(self.runs) - 1, 0)) if at is None else at
        self.refresh_rows()
        self.here = self.chosen

    @property
    def chosen(self) -> Status | None:
        """The run under the cursor."""
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None

    @property
    def length(self) -> int:
        """How many runs."""
        return len(self.runs)

    @property
    def shows_cursor(self) -> bool:
        """Always: what is told below the list is about that run."""
        return True

    def action_move(self, items: int) -> None:
        """Move the cursor, and tell."""
        super().action_move(items)
        self.here = self.chosen

    def around(self) -> list[Status]:
        """The runs below and above the cursor."""
        return [self.runs[i] for i in (self.cursor + 1, self.cursor - 1) if 0 <= i < len(self.runs)]

    def action_mark(self) -> None:
        """Mark the run under the cursor, or take its mark away, and go on to the next."""
        if (run := self.chosen) is not None:
            self.toggle(run.id)
            self.action_move(1)

    def toggle(self, run: str) -> None:
        """Set or take a mark."""
        if run in self.marked:
            del self.marked[run]
        else:
            self.marked[run] = None
        self.refresh_rows()

    def unmark(self) -> None:
        """Take all marks away."""
        self.marked.clear()
        self.refresh_rows()

    def head_row(self, width: int) -> Row:
        """What each column is."""
        cells = "".join(f"{column.head} " for column in _columns(width))
        return clip(((f"   {'state':<{_LEAD - 3}}{cells}why, or the last figures", "muted"),), width)

    def empty_row(self) -> Row:
        """What one can do about it."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """A run, as far as it fits."""
        run = self.runs[index]
        glyph, style = PHASE_GLYPHS[run.state]
        mark = "*" if run.id in self.marked else " "
        row: Row = (
            (mark, f"bold{ground}"),
            (f"{glyph} {run.state:<{_LEAD - 3}}", style + ground),
            *((f"{column.text(run)} ", column.style + ground) for column in _columns(width)),
            *((text, style + ground) for text, style in outcome(run)),
        )
        return clip(row, width)


def _line(text: str) -> str:
    return " ".join(text[:_TEXT].split())
