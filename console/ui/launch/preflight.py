"""The preflight: the checks of ``--dry-run`` for the form, the plan of what would be started, and its hosts.

Hosts are asked on request only, since that may take seconds, on a thread that holds up nothing: when the
console is left, the check ends with its process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from launcher.errors import LauncherError
from launcher.spec.request import Request

from ...data.launch.draft import Draft, Misfit
from ...sanitize import escaped
from ..widgets.failed_pane import contained
from ..widgets.key_line import keys_of
from ..widgets.rows import Row, ScrollingSheet, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from launcher.diagnosis.checks.check import CheckReport

    from ...commands import Commands
    from ...data.launch.detect import Line

LAUNCH: Literal["launch"] = "launch"
_LABEL_WIDTH = 9
_NOTABLE = frozenset({"note", "warn", "fail"})
_FRAME = 10
_ROWS = 4


class Checks(ScrollingSheet):
    """The checks, a line each."""

    DEFAULT_CSS = """
    Checks { width: 100%; }
    """

    def __init__(self) -> None:
        super().__init__(id="checks")
        self.lines: Sequence[Line] = ()

    def show(self, lines: Sequence[Line]) -> None:
        """Show these lines."""
        self.lines = lines
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """A label on the left and its text on the right."""
        return [clip(self._row(label, text), width) for label, text in self.lines]

    def _row(self, label: str, text: str) -> Row:
        style = "rank-behind" if label in _NOTABLE else "muted"
        return ((f"{label:<{_LABEL_WIDTH}} ", style), (text, ""))


class PreflightScreen(ModalScreen["Misfit | Literal['launch']"]):
    """Checks the form and shows the plan; closes with what is wrong, with `LAUNCH`, or with nothing."""

    TOPIC = "targets"
    AUTO_FOCUS = "#checks"
    DEFAULT_CSS = """
    PreflightScreen #dialog Static { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Close", show=False, id="preflight.close"),
        Binding("p,f5", "again", "Check again", show=False, id="preflight.again"),
        Binding("d", "ask_hosts", "Check the hosts", show=False, id="preflight.hosts"),
        Binding("ctrl+r", "launch", "Launch", show=False, priority=True, id="preflight.launch"),
    ]

    class Done(Message):
        """The checks passed."""

        def __init__(self, lines: Sequence[Line]) -> None:
            super().__init__()
            self.lines = lines

    class Failed(Message):
        """A check failed."""

        def __init__(self, misfit: Misfit) -> None:
            super().__init__()
            self.misfit = misfit

    class Asked(Message):
        """The hosts were asked; `error` is why they could not be."""

        def __init__(self, report: CheckReport | None, error: str = "") -> None:
            super().__init__()
            self.report, self.error = report, error

    def __init__(
        self, draft: Draft, commands: Commands, on_report: Callable[[Draft, CheckReport], None]
    ) -> None:
        super().__init__()
        self._draft, self._commands, self._on_report = draft, commands, on_report
        self._plan: tuple[Line, ...] = ()
        self._asking = False

    def compose(self) -> ComposeResult:
        """The lines of the checks, and the verdict."""
        with Vertical(id="dialog"):
            yield Static("Preflight: nothing is started", classes="title", markup=False)
            yield Checks()
            yield Static("", classes="answers", id="verdict", markup=False)

    def on_mount(self) -> None:
        """Start the checks."""
        self.action_again()

    def action_again(self) -> None:
        """Check again."""
        self.query_one("#verdict", Static).update("◐ checking …")
        self._check()

    def action_launch(self) -> None:
        """Close, and launch the run."""
        self.dismiss(LAUNCH)

    @work(thread=True, exclusive=True, group="preflight")
    def _check(self) -> None:
        from ...data.launch.preflight import preflight

        try:
            lines = preflight(self._draft)
        except Misfit as misfit:
            self.post_message(self.Failed(misfit))
        except LauncherError as error:
            self.post_message(self.Failed(Misfit(error, "")))
        else:
            self.post_message(self.Done(lines))

    def action_ask_hosts(self) -> None:
        """Have agents look at every host of the launch."""
        if not self._asking:
            self._asking = True
            self.query_one("#verdict", Static).update("◐ asking the hosts …")
            threading.Thread(target=self._ask, name="rankdeck-check", daemon=True).start()

    def _ask(self) -> None:
        try:
            report = self._commands.check(Request(self._draft.resolved()))
        except (LauncherError, Misfit) as error:
            self.post_message(self.Asked(None, str(error)))
        else:
            self.post_message(self.Asked(report))

    @on(Asked)
    def _show_report(self, message: Asked) -> None:
        self._asking = False
        if (report := message.report) is None:
            self.query_one("#verdict", Static).update(f"✗ {escaped(message.error)}")
            return
        from ...data.launch.preflight import findings

        self._on_report(self._draft, report)
        self._show_lines((*self._plan, *findings(report)))
        glyph = "✓" if report.ok else "?"
        self.query_one("#verdict", Static).update(f"{glyph} {escaped(report.summary)} · {self._keys}")

    def _show_lines(self, lines: Sequence[Line]) -> None:
        checks = self.query_one(Checks)
        room = max(self.app.size.height * 9 // 10 - _FRAME, _ROWS)
        checks.styles.height = min(len(lines), room)
        with contained(self):
            checks.show(lines)

    @property
    def _keys(self) -> str:
        """What keys do here."""
        start, again = keys_of(self, "preflight.launch", "ctrl+r"), keys_of(self, "preflight.again", "p")
        hosts = keys_of(self, "preflight.hosts", "d")
        return f"{start} launches · {hosts} hosts · {again} again · esc closes"

    @on(Done)
    def _show(self, message: Done) -> None:
        self._plan = tuple(message.lines)
        self._show_lines(self._plan)
        self.query_one("#verdict", Static).update(f"✓ it can start · {self._keys}")

    @on(Failed)
    def _close(self, message: Failed) -> None:
        self.dismiss(message.misfit)
