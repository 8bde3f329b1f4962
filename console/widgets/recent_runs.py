"""The runs there have been, to be opened again or launched again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from console.messages import took
from console.widgets import figures as fig
from console.widgets.cursor_sheet import CursorSheet
from console.widgets.identity import PHASE_GLYPHS
from console.widgets.sheet import Row, clip
from launcher.runs.status import Status

_ROOMY, _WIDE = 64, 84
_USER, _WHY = 10, 500


class RecentRuns(CursorSheet):
    """One line a run, newest first."""

    def __init__(self, *, id: str | None = None, clock: Callable[[], float] = time.time) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.runs: tuple[Status, ...] = ()
        self._users = False
        self._clock = clock

    def show(self, runs: Sequence[Status]) -> None:
        """Show these runs, with the cursor on the same one as before."""
        here = self.runs[self.cursor].id if self.cursor < len(self.runs) else None
        self.runs = tuple(runs)
        self._users = any(run.user for run in runs)
        ids = [run.id for run in self.runs]
        self.cursor = ids.index(here) if here in ids else 0
        self.entitle(f"2 Recent runs · {len(runs)}" if runs else "2 Recent runs")
        self.refresh_rows()

    @property
    def chosen(self) -> Status | None:
        """The run under the cursor."""
        return self.runs[self.cursor] if self.cursor < len(self.runs) else None

    @property
    def length(self) -> int:
        """How many runs."""
        return len(self.runs)

    def empty_row(self) -> Row:
        """Before the first run."""
        return ((" none yet", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """State, name, size, when, how long, by whom, and why it ended or what it reached."""
        run = self.runs[index]
        glyph, style = PHASE_GLYPHS[run.state]
        now = self._clock()
        size = f"{run.num_processes} rank{'s' if run.num_processes != 1 else ' '}"
        name = 16 if width >= _ROOMY else 12
        who = f"{fig.shorten(run.user, _USER):<{_USER}} " if width >= _WIDE and self._users else ""
        row = (
            (f" {glyph} ", style + ground),
            (f"{fig.shorten(run.name or run.id, name):<{name}} ", f"bold{ground}"),
            (f"{size:>10} " if width >= _ROOMY else f"×{run.num_processes:<4} ", ground),
            (f"{ago(run.started, now):>8} ", f"muted{ground}"),
            (f"{took_text(took(run, now), live=not run.state.final):>7}  ", ground),
            (who, ground),
            *((text, style + ground) for text, style in outcome(run)),
        )
        return clip(row, width)


def ago(then: float | None, now: float) -> str:
    """How long ago, in whole minutes: nothing here changes by the second."""
    if then is None:
        return fig.UNKNOWN
    minutes = int((now - then) // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}m ago"
    return f"{minutes // 60}h ago" if minutes < 48 * 60 else f"{minutes // 1440}d ago"


def outcome(run: Status) -> Row:
    """Why it ended, where it went wrong; else its state, and the figures that it reported last."""
    if run.unreadable is not None:
        return ((" ".join(f"unreadable: {run.unreadable[:_WHY]}".split()), "muted"),)
    if run.state.final and run.exit_code and run.why:
        return ((" ".join(run.why[:_WHY].split()), "muted"),)
    told = fig.metric_spans(run.metrics, " · ")
    return ((str(run.state), "muted"), *((text, style or "muted") for text, style in told))


def took_text(seconds: float | None, *, live: bool) -> str:
    """How long it took; a live run only says so."""
    return "live" if live else fig.duration(seconds)
