"""The launch screen: what to run, with which arguments, how often; and the command that says the same."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.widgets import Footer, Static
from textual.worker import get_current_worker

from console.commands import Commands
from console.screens.picker import PickerScreen
from console.screens.run import RunScreen
from console.sources.drafts import Draft, command_text, draft_of
from console.sources.history import recent_runs
from console.sources.targets import functions_of
from console.widgets.command_line import CommandLine
from console.widgets.launch_form import LaunchForm
from console.widgets.recent_runs import RecentRuns
from launcher.errors import LauncherError
from launcher.request import Request
from launcher.runs.reader import read_spec
from launcher.runs.status import Status
from launcher.signature import Signature

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

_LOOK_S = 2.0
_WIDE = 110


class LaunchScreen(Screen[None]):
    """Fill in, check while typing, launch."""

    AUTO_FOCUS = "#target"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "launch", "Launch", priority=True, id="launch.start"),
        Binding("ctrl+f", "find", "Find", id="launch.find", priority=True),
        Binding("ctrl+o", "recent", "Recent runs", id="launch.recent", priority=True),
        Binding("e", "edit", "Edit and run again", show=False, id="launch.edit"),
        Binding("y", "copy", "Copy command", show=False, id="launch.copy"),
        Binding("slash", "find", "Find", show=False, key_display="/", id="launch.search"),
        Binding("1", "form", "New run", show=False, id="launch.pane_1"),
        Binding("2", "recent", "Recent runs", show=False, id="launch.pane_2"),
        Binding("down", "app.focus_next", "Next field", show=False, id="launch.down"),
        Binding("up", "app.focus_previous", "Previous field", show=False, id="launch.up"),
        Binding("escape", "leave_field", "Leave field", show=False, id="launch.escape"),
        Binding("q", "app.detach", "Quit", show=False, id="launch.quit"),
        Binding("ctrl+q", "app.detach", "Quit", priority=True, id="launch.leave"),
    ]

    class Checked(Message):
        """What reading the target said about a draft."""

        def __init__(self, draft: Draft, functions: tuple[Signature, ...], problem: str | None) -> None:
            super().__init__()
            self.draft = draft
            self.functions = functions
            self.problem = problem

    class Listed(Message):
        """The runs there are."""

        def __init__(self, runs: tuple[Status, ...]) -> None:
            super().__init__()
            self.runs = runs

    class Launched(Message):
        """A run was started."""

        def __init__(self, run: Path) -> None:
            super().__init__()
            self.run = run

    def __init__(self, root: Path, workdir: Path, commands: Commands) -> None:
        super().__init__()
        self._root, self._workdir, self._commands = root, workdir, commands
        self._launching = False
        self._looking: Timer

    def compose(self) -> ComposeResult:
        """The form, past runs, and the command below both."""
        yield Static(f" rankdeck  {_short(self._workdir)}", id="banner", markup=False)
        with Container(id="launch"):
            yield LaunchForm(self._workdir, id="form")
            yield RecentRuns(id="recent")
        yield CommandLine(id="command")
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Look what there is."""
        self.query_one(CommandLine).entitle("The same on a command line")
        self._changed()
        self._list()
        self._looking = self.set_interval(_LOOK_S, self._list)

    def on_resize(self) -> None:
        """Past runs beside the form, or below it."""
        self.query_one("#launch").set_class(self.size.width >= _WIDE, "-wide")

    def on_screen_suspend(self) -> None:
        """Rest while another screen is shown: Textual paints that one again for what changes below it."""
        self._looking.pause()

    def on_screen_resume(self) -> None:
        """A run may have ended meanwhile."""
        self._list()
        self._looking.resume()

    @property
    def draft(self) -> Draft:
        """What is filled in."""
        return self.query_one(LaunchForm).draft

    @on(LaunchForm.Edited)
    def _changed(self) -> None:
        draft = self.draft
        self.query_one(CommandLine).show(command_text(draft))
        self._check(draft)

    @work(thread=True, exclusive=True, exit_on_error=False, group="check")
    def _check(self, draft: Draft) -> None:
        worker = get_current_worker()
        functions = functions_of(draft.target, draft.workdir)
        problem = None
        try:
            draft.resolved()
        except LauncherError as error:
            problem = str(error)
        if not worker.is_cancelled:
            self.post_message(self.Checked(draft, functions, problem))

    @on(Checked)
    async def _show_checked(self, message: Checked) -> None:
        if message.draft.target != self.draft.target:
            return
        await self.query_one(LaunchForm).offer(message.functions, message.draft)
        if message.draft == self.draft:
            self.query_one(CommandLine).judge(message.problem)

    @on(LaunchForm.FindWanted)
    def action_find(self) -> None:
        """Pick a script or function."""
        self.app.push_screen(PickerScreen(self._workdir), self._picked)

    def _picked(self, target: str | None) -> None:
        if target:
            self.query_one(LaunchForm).pick(target)

    def action_form(self) -> None:
        """Go to the form."""
        self.query_one("#target").focus()

    def action_recent(self) -> None:
        """Go to past runs."""
        self.query_one(RecentRuns).focus()

    def action_leave_field(self) -> None:
        """Stop typing, so that letters are keys again."""
        self.set_focus(None)

    def action_copy(self) -> None:
        """Copy the command."""
        self.app.copy_to_clipboard(command_text(self.draft))

    def action_edit(self) -> None:
        """Fill the form from the run under the cursor."""
        run = self.query_one(RecentRuns).chosen
        if run is None:
            return
        try:
            draft = draft_of(read_spec(self._root / run.id))
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.query_one(LaunchForm).fill(draft)
        self.action_form()

    @on(RecentRuns.Chosen, "#recent")
    def _open(self, message: RecentRuns.Chosen) -> None:
        run = self.query_one(RecentRuns).runs[message.index]
        self.app.push_screen(RunScreen(self._root / run.id, self._commands))

    @work(thread=True, exclusive=True, exit_on_error=False, group="list")
    def _list(self) -> None:
        self.post_message(self.Listed(recent_runs(self._root)))

    @on(Listed)
    def _show_runs(self, message: Listed) -> None:
        self.query_one(RecentRuns).show(message.runs)

    def action_launch(self) -> None:
        """Start the run, and watch it."""
        if not self._launching:
            self._launching = True
            self.query_one(CommandLine).wait("starting …")
            self._launch(self.draft)

    @work(thread=True, exit_on_error=False, group="launch")
    def _launch(self, draft: Draft) -> None:
        try:
            run = self._commands.start(Request(draft.resolved()))
        except LauncherError as error:
            self.post_message(self.Checked(draft, functions_of(draft.target, draft.workdir), str(error)))
            self.app.call_from_thread(self._launch_ended, str(error))
        else:
            self.post_message(self.Launched(self._root / run))
            self.app.call_from_thread(self._launch_ended, None)

    def _launch_ended(self, problem: str | None) -> None:
        self._launching = False
        self.query_one(CommandLine).judge(problem)
        if problem:
            self.notify(problem, severity="error", markup=False)

    @on(Launched)
    def _watch(self, message: Launched) -> None:
        self.app.push_screen(RunScreen(message.run, self._commands))


def _short(path: Path) -> str:
    home = os.path.expanduser("~")
    return f"~{str(path)[len(home) :]}" if str(path).startswith(home + os.sep) else str(path)
