"""The preflight: the checks of ``--dry-run`` for the form, and the plan of what would be started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from launcher.errors import LauncherError

from ...data.launch.draft import Draft, Misfit
from ..widgets.key_line import keys_of
from ..widgets.rows import Row, ScrollingSheet, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

    from ...data.launch.detect import Line

LAUNCH: Literal["launch"] = "launch"
_LABEL_WIDTH = 9
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
        style = "rank-behind" if label == "note" else "muted"
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

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft

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

    @on(Done)
    def _show(self, message: Done) -> None:
        checks = self.query_one(Checks)
        room = max(self.app.size.height * 9 // 10 - _FRAME, _ROWS)
        checks.styles.height = min(len(message.lines), room)
        checks.show(message.lines)
        start, again = keys_of(self, "preflight.launch", "ctrl+r"), keys_of(self, "preflight.again", "p")
        self.query_one("#verdict", Static).update(
            f"✓ it can be started · {start} launches · {again} again · esc closes"
        )

    @on(Failed)
    def _close(self, message: Failed) -> None:
        self.dismiss(message.misfit)
