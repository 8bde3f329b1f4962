"""The launch screen's panes beside the form: the equivalent command, and the past runs."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from textual.message import Message
from textual.widgets import Input

from launcher.runs.status import Status

from ... import formatting as fig
from ...data.history.query import took_text
from ...data.run.model import PHASE_GLYPHS
from ..widgets.key_line import keys_of
from ..widgets.lists import CursorSheet
from ..widgets.rows import Row, Sheet, clip, wrapped_rows

if TYPE_CHECKING:
    from textual import events

_MOST_LINES = 3
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"[^"]*"|['"])+""")


class CommandLine(Sheet):
    """The command, and a line that shows whether it can run."""

    DEFAULT_CSS = """
    CommandLine { height: 4; max-height: 6; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.command = ""
        self.problem: str | None = None
        self.doubt = ""
        self.busy = ""
        self.checked, self.checked_fine = "", True
        self.begun = True
        self._typing = False

    def on_mount(self) -> None:
        """Follow the focus: while a field has it, the pane names keys that would not be typed into it."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _: self._follow_focus())

    def _follow_focus(self) -> None:
        typing = isinstance(self.screen.focused, Input)
        if typing != self._typing:
            self._typing = typing
            self.refresh_rows()

    def show(self, command: str) -> None:
        """Show another command; whether it can run is not known yet."""
        self.command = command
        self.refresh_rows()

    def judge(self, problem: str | None, doubt: str = "", *, begun: bool = True) -> None:
        """Show what is wrong; None if nothing is.

        A `doubt`, which only the script can settle, prevents no launch. If the form is not `begun`, the
        problem is shown as a hint.
        """
        self.begun = begun
        self.problem, self.doubt, self.busy = problem, doubt, ""
        self.refresh_rows()

    def note_checks(self, summary: str, *, fine: bool) -> None:
        """Show what checks on the hosts have found; empty for none. It prevents no launch."""
        self.checked, self.checked_fine = summary, fine
        self.refresh_rows()

    def wait(self, for_what: str) -> None:
        """Show what is in progress."""
        self.busy = for_what
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The command on as many lines as it needs, and the verdict."""
        lines = wrapped(self.command, max(width - 3, 8))
        if len(lines) > _MOST_LINES:
            last = clip(((lines[_MOST_LINES - 1], ""),), max(width - 20, 8))[0][0].removesuffix(" \\")
            copy = keys_of(self, "launch.copy", "ctrl+y" if self._typing else "y")
            lines = [*lines[: _MOST_LINES - 1], f"{last} … {copy} copies it all"]
        height = len(lines) + 3
        if self.styles.height is None or self.styles.height.value != height:
            self.styles.height = height
        first: list[Row] = [
            ((" $ " if i == 0 else "   ", "muted"), (line, "bold")) for i, line in enumerate(lines)
        ]
        return [*first, clip(self._verdict(), width)]

    def _verdict(self) -> Row:
        if self.busy:
            return ((f" ◐ {self.busy}", "rank-waiting"),)
        if self.problem and not self.begun:
            return ((f" {self.problem} · {keys_of(self, 'launch.find', 'ctrl+f')} finds", "muted"),)
        if self.problem:
            return ((f" ✗ {self.problem}", "rank-behind"),)
        start = keys_of(self, "launch.start", "ctrl+r")
        check = keys_of(self, "launch.preflight", "f5" if self._typing else "p")
        if self.doubt:
            return ((f" ? {self.doubt}", "rank-behind"), (f" · {start} launches all the same", "muted"))
        if self.checked:
            glyph, style = ("✓", "rank-done") if self.checked_fine else ("?", "rank-behind")
            return ((f" {glyph} {self.checked}", style), (f" · {start} launches", "muted"))
        return ((" ✓ ready", "rank-done"), (f" · {start} launches · {check} checks", "muted"))


def wrapped(text: str, width: int) -> list[str]:
    """A command broken between words, with backslashes at line ends, so that it can be pasted as it is.

    Quoted text is not broken, because the backslash would become part of it.
    """
    lines, line = [], ""
    for word in _WORD.findall(text):
        if line and len(line) + 1 + len(word) > width - 2:
            lines.append(line + " \\")
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*lines, line]


WELCOME = "rankdeck runs one training on many processes, GPUs and hosts, and shows every rank."
DEMO = "demo: 8 ranks, recorded"
_TIGHT = 12
_ROOMY, _WIDE = 64, 84
_USER, _WHY = 10, 500


class RecentRuns(CursorSheet[Status]):
    """A line for each run, newest first. Before the first run: what this program is, and where to begin."""

    class DemoWanted(Message):
        """The line of the demo was clicked."""

    def __init__(self, *, id: str | None = None, clock: Callable[[], float] = time.time) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self._users = False
        self._clock = clock
        self.listed = False
        self._machine = ""

    def show(self, runs: Sequence[Status]) -> None:
        """Show these runs, with the cursor on the same one as before."""
        here, self.listed = self.chosen, True
        self.items = tuple(runs)
        self._users = any(run.user for run in runs)
        at = (i for i, run in enumerate(runs) if here is not None and run.id == here.id)
        self.cursor = next(at, 0)
        self.entitle(f"2 Recent runs · {len(runs)}" if runs else "2 Recent runs")
        self.refresh_rows()

    def tell_machine(self, text: str) -> None:
        """Say what this machine has, before the first run."""
        self._machine = text
        if not self.items:
            self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """A row for each run; before the first one, the welcome."""
        if self.items:
            return super().rows(width)
        return [clip(row, width) for row in self._welcome(width)] if self.listed else []

    def _welcome(self, width: int) -> Iterator[Row]:
        yield from wrapped_rows(WELCOME, width)
        tight = self.size.height < _TIGHT
        if not tight:
            yield ()
        demo = keys_of(self, "launch.demo", "f7")
        yield (f" {demo}", "bold"), (f" {DEMO}", "rank-ok")
        keys = (("go.history", "f2", "History"), ("go.cluster", "f3", "Cluster"), ("app.help", "f1", "Help"))
        yield tuple(
            span
            for name, usual, what in keys
            for span in ((f" {keys_of(self, name, usual)}", "bold"), (f" {what}", "muted"))
        )
        if self._machine:
            yield from wrapped_rows(f"here: {self._machine}", width, "muted")

    def on_click(self, event: events.Click) -> None:
        """Open the demo, if that is the line that was clicked."""
        number = self.row_at(event.y - self.gutter.top)
        if not self.items and 0 <= number < len(self._rows) and DEMO in str(self._rows[number]):
            event.prevent_default()
            self.post_message(self.DemoWanted())

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """State, name, size, when, how long, by whom, and why it ended or what it reached."""
        run = self.items[index]
        glyph, style = PHASE_GLYPHS[run.state]
        now = self._clock()
        size = fig.number(run.num_processes, "rank") + " " * (run.num_processes == 1)
        name = 16 if width >= _ROOMY else 12
        who = f"{fig.shorten(run.user, _USER):<{_USER}} " if width >= _WIDE and self._users else ""
        row = (
            (f" {glyph} ", style + ground),
            (f"{fig.shorten(run.name or run.id, name):<{name}} ", f"bold{ground}"),
            (f"{size:>10} " if width >= _ROOMY else f"×{run.num_processes:<4} ", ground),
            (f"{fig.ago(run.started, now):>8} ", f"muted{ground}"),
            (f"{took_text(run, now):>7}  ", ground),
            (who, ground),
            *((text, style + ground) for text, style in outcome(run)),
        )
        return clip(row, width)


def outcome(run: Status) -> Row:
    """Why a failed run ended, or what a succeeded one warns of; else its state and its last figures."""
    if run.unreadable is not None:
        return ((" ".join(f"unreadable: {run.unreadable[:_WHY]}".split()), "muted"),)
    if run.state.final and run.why and (run.exit_code or run.warns):
        return ((" ".join(run.why[:_WHY].split()), "rank-behind" if run.warns else "muted"),)
    metrics = fig.metric_spans(run.metrics, " · ")
    return ((str(run.state), "muted"), *((text, style or "muted") for text, style in metrics))
