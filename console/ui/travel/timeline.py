"""The timeline: a run's whole time as a bar with what happened, and a cursor at the moment that is shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.message import Message

from ... import formatting as fig
from ...data.travel.marks import LandmarkKind
from ...data.travel.moment import Moment
from ..widgets.rows import Row, Sheet, Span, clip, joined

if TYPE_CHECKING:
    from textual import events

_GLYPHS = {
    LandmarkKind.CHECKPOINT: ("◇", "rank-done"),
    LandmarkKind.TRAINING: ("▸", "rank-ok bold"),
    LandmarkKind.END: ("■", "bold"),
    LandmarkKind.ALERT: ("!", "rank-behind bold"),
    LandmarkKind.RESTART: ("↻", "rank-stale bold"),
    LandmarkKind.FAILURE: ("✗", "rank-failed bold"),
}
_CURSOR: Span = ("◆", "rank-behind bold reverse")
_OLD_S = 5


class Timeline(Sheet):
    """Two lines: the moment in words, and the bar. A click on it goes there."""

    DEFAULT_CSS = """
    Timeline { height: 2; display: none; }
    """

    class Sought(Message):
        """A moment was chosen, in seconds since the epoch."""

        def __init__(self, moment: float) -> None:
            super().__init__()
            self.moment = moment

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.moment: Moment | None = None

    def show(self, moment: Moment | None) -> None:
        """Show a moment; None hides the timeline."""
        self.moment, self.display = moment, moment is not None
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The moment in words, and the bar."""
        if self.moment is None:
            return [(), ()]
        return [words_row(self.moment, width), bar_row(self.moment, width)]

    def on_click(self, event: events.Click) -> None:
        """Go to where the mouse is."""
        if (moment := self.moment) is not None:
            share = (event.x - 1) / max(_cells(self.size.width) - 1, 1)
            span = moment.end - moment.begin
            self.post_message(self.Sought(moment.begin + min(max(share, 0.0), 1.0) * span))


def words_row(moment: Moment, width: int) -> Row:
    """That this is the past; which moment, by the run's time, its step and the clock."""
    state = moment.view.state
    step = state.leader.step if state.leader is not None else None
    begin = moment.begin if state.started is None else state.started
    how = "playing" if moment.playing else "paused"
    speed = f" ×{moment.speed:g}" if moment.speed != 1 else ""
    left: list[Span] = [
        (" ◀ PAST ", "rank-behind bold reverse"),
        (
            f" at {fig.clock(max(moment.at - begin, 0))} of {fig.clock(moment.end - begin)}",
            "rank-behind bold",
        ),
        (f" · {how}{speed}", "rank-behind"),
    ]
    if step is not None:
        left.append((f" · step {fig.count(step)}", "bold"))
    left.append((f" · {_clock_time(moment.at)}", ""))
    if moment.old_s is not None and moment.old_s > _OLD_S:
        left.append((f" · figures {fig.age(moment.old_s)} old", "muted"))
    if not moment.exact:
        left.append((" · reading the past", "muted"))
    return clip(tuple(left), width)


def _clock_time(moment: float) -> str:
    try:
        return time.strftime("%H:%M:%S", time.localtime(moment))
    except (OverflowError, ValueError, OSError):
        return fig.UNKNOWN


def bar_row(moment: Moment, width: int) -> Row:
    """The run's time with its marks and the cursor."""
    cells = _cells(width)
    at = cell_of(moment, moment.at, cells)
    drawn: list[Span] = [("━", "bar") if cell <= at else ("─", "bar-track") for cell in range(cells)]
    for mark in sorted(moment.marks, key=lambda mark: mark.kind):
        if moment.begin <= mark.moment <= moment.end:
            drawn[cell_of(moment, mark.moment, cells)] = _GLYPHS[mark.kind]
    glyph, _ = drawn[at]
    drawn[at] = _CURSOR if glyph in "━─" else (glyph, _CURSOR[1])
    return ((" ", ""), *joined(drawn))


def cell_of(moment: Moment, when: float, cells: int) -> int:
    """The cell of the bar that shows a time."""
    span = moment.end - moment.begin
    share = (when - moment.begin) / span if span > 0 else 1.0
    return min(max(round(share * (cells - 1)), 0), cells - 1)


def _cells(width: int) -> int:
    return max(width - 2, 1)
