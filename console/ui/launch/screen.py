"""The launch screen: a form for a run, past runs, and the equivalent command."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from launcher.errors import LauncherError
from launcher.runs.catalog import read_private
from launcher.runs.reader import read_spec
from launcher.runs.status import Status
from launcher.spec.request import Request
from launcher.spec.signature import Signature

from ...commands import Commands
from ...data.history.query import recent_runs
from ...data.launch.detect import Detected, look, machine_line
from ...data.launch.draft import Draft, Misfit, command_text, draft_of, require_editable, unwritten
from ...data.launch.targets import framework_of, functions_of
from ...data.options.check import misgiven
from ...data.options.option import ScriptParser
from ...sanitize import escaped
from ..navigation import Site
from ..rerun import StartsAgain
from ..widgets.failed_pane import contained
from ..widgets.key_line import KeyLine
from .form import LaunchForm
from .outline import COMMAND_TITLE, banner
from .panes import CommandLine, RecentRuns
from .workbench.bench import Workbench

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.timer import Timer

    from launcher.diagnosis.checks.check import CheckReport

    from ...data.demo import DemoStage

_LIST_S = 2.0
_KEYS = (
    "launch.start",
    "launch.find",
    "list.choose",
    "launch.again",
    "launch.preflight",
    "go.history",
    "go.cluster",
    "launch.leave",
)
"""The keys at the bottom, the first ones also where there is little room."""


class LaunchScreen(StartsAgain):
    """The form, which is checked while a person types, and the key that launches the run."""

    TOPIC = "targets"
    AUTO_FOCUS = ""  # after another screen closes, no field is focused if none was before
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "find", "Find", id="launch.find", priority=True),
        Binding("ctrl+t,m", "more", "More options", id="launch.more"),
        Binding("p,f5", "preflight", "Preflight", show=True, id="launch.preflight"),
        Binding("s", "save", "Save as preset", show=False, id="launch.save"),
        Binding("o", "presets", "Presets", show=False, id="launch.presets"),
        Binding("y,ctrl+y", "copy", "Copy command", show=False, id="launch.copy"),
        Binding("slash", "find", "Find", show=False, key_display="/", id="launch.search"),
        Binding("ctrl+r", "launch", "Launch", priority=True, id="launch.start"),
        Binding("f6", "recent", "Recent runs", id="launch.recent", priority=True),
        Binding("e", "edit", "Edit and run again", id="launch.edit"),
        Binding("r", "again", "Run again", id="launch.again"),
        Binding("1", "form", "New run", show=False, id="launch.pane_1"),
        Binding("2", "recent", "Recent runs", show=False, id="launch.pane_2"),
        Binding("3", "workbench", "Trainings, or the plan", show=False, id="launch.pane_3"),
        Binding("f7,d", "demo", "Demo", show=False, id="launch.demo"),
        Binding("down", "step(1)", "Next field", show=False, id="launch.down"),
        Binding("up", "step(-1)", "Previous field", show=False, id="launch.up"),
        Binding("escape", "leave_field", "Leave field", show=False, id="launch.escape"),
        Binding("q", "app.detach", "Quit", show=False, id="launch.quit"),
        Binding("ctrl+q", "app.detach", "Quit", priority=True, id="launch.leave"),
    ]

    class Checked(Message):
        """A draft was checked by reading its target."""

        def __init__(
            self,
            draft: Draft,
            functions: tuple[Signature, ...],
            parser: ScriptParser,
            framework: str,
            misfit: Misfit | None,
            about: Mapping[str, str],
        ) -> None:
            super().__init__()
            self.draft = draft
            self.functions = functions
            self.parser = parser
            self.framework = framework
            self.misfit = misfit
            self.about = about

    class MachineFound(Message):
        """The resources of this machine were detected."""

        def __init__(self, detected: Detected) -> None:
            super().__init__()
            self.detected = detected

    class RecentListed(Message):
        """The recent runs were listed."""

        def __init__(self, runs: tuple[Status, ...]) -> None:
            super().__init__()
            self.runs = runs

    class Launched(Message):
        """A run was started."""

        def __init__(self, run: Path) -> None:
            super().__init__()
            self.run = run

    def __init__(
        self,
        root: Path,
        workdir: Path,
        commands: Commands,
        draft: Draft | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__()
        self._defaults = defaults or {}
        self._root, self._workdir, self._commands = root, workdir, commands
        self.site = Site(root, workdir, commands)
        self._first = draft
        self._refused: tuple[Draft, Misfit] | None = None
        self._checked: tuple[Draft, CheckReport] | None = None
        self._launching = False
        self._reading: Draft | None = None
        self._newest: Draft | None = None
        self._list_timer: Timer
        self._demo: DemoStage | None = None

    def compose(self) -> ComposeResult:
        """The form, the past runs, and the command below both."""
        yield Static(banner(self._workdir), id="banner", markup=False)
        form, recent = LaunchForm(self._workdir, id="form"), RecentRuns(id="recent")
        seeking = not (self._first and self._first.target)
        yield Workbench(form, recent, self._root, self._workdir, seeking=seeking)
        yield CommandLine(id="command")
        yield KeyLine(*_KEYS, id="keys-here")

    def on_mount(self) -> None:
        """Fill in the first draft, list past runs and detect the machine's resources."""
        self.query_one(CommandLine).entitle(COMMAND_TITLE)
        self.query_one(KeyLine).reword({"go.history": "History", "go.cluster": "Cluster"})
        self.action_form()
        self._changed()
        if self._first is not None:
            self.fill(self._first)
        self._list()
        self.detect()
        self._list_timer = self.set_interval(_LIST_S, self._list)

    def on_screen_suspend(self) -> None:
        """Stop listing while another screen is shown, which Textual repaints when this one changes."""
        self._list_timer.pause()
        self.query_one(Workbench).pause()

    def on_screen_resume(self) -> None:
        """List past runs now, because they may have changed, and then regularly."""
        self._list()
        self._list_timer.resume()
        self.query_one(Workbench).resume()
        self._end_demo()

    @on(LaunchForm.Edited)
    def _changed(self) -> None:
        draft = self.draft
        with contained(self):
            self.query_one(CommandLine).show(command_text(draft, self._defaults))
        self.query_one(LaunchForm).unfound = False  # until it is checked
        self.query_one(Workbench).edited(draft)
        self._show_checks()
        self._check(draft)

    def _check(self, draft: Draft) -> None:
        """Check a draft in a thread; while one is being checked, only the newest of the others waits."""
        if self._reading is None:
            self._reading = draft
            self._read_aside(draft)
        self._newest = draft

    @work(thread=True, group="check")
    def _read_aside(self, draft: Draft) -> None:
        self.post_message(self._read(draft))

    @on(Checked)
    async def _checked_aside(self, message: Checked) -> None:
        self._reading = None
        if self._newest is not None and self._newest != message.draft:
            self._check(self._newest)
        await self._show_checked(message)

    def _read(self, draft: Draft) -> Checked:
        """Check a draft by reading its source; blocks."""
        from ...data.options.reading import parameter_texts, parser_of

        misfit, framework = None, ""
        try:
            framework = framework_of(draft.resolved())
        except Misfit as error:
            misfit = error
        functions = functions_of(draft.target, draft.base)
        parser, about = ScriptParser(), dict[str, str]()
        if draft.function:
            about = parameter_texts(draft.source, draft.function, draft.base)
        else:
            parser = parser_of(draft.source, draft.base, draft.args)
        return self.Checked(draft, functions, parser, framework, misfit, about)

    async def _show_checked(self, message: Checked) -> None:
        if message.draft.target != self.draft.target:
            return
        form = self.query_one(LaunchForm)
        form.unfound = self.query_one(Workbench).settle(message.draft, message.misfit)
        await form.offer(message.functions, message.parser, message.draft, message.about)
        form.show_framework(message.framework)
        if message.draft == self.draft:
            self.judge(message.misfit, misgiven(message.parser, message.draft.args) or form.trouble)

    async def learn(self) -> None:
        """Read the target and offer fields for what it takes. Input that arrives meanwhile waits."""
        await self._show_checked(await asyncio.to_thread(self._read, self.draft))

    def detect(self) -> None:
        """Detect the resources of this machine again."""
        self._detect()

    @work(thread=True, exclusive=True, group="detect")
    def _detect(self) -> None:
        self.post_message(self.MachineFound(look(os.environ)))

    @on(MachineFound)
    def _show_detected(self, message: MachineFound) -> None:
        self.query_one(LaunchForm).set_detected(message.detected)
        self.query_one(Workbench).know(message.detected)
        self.query_one(RecentRuns).tell_machine(machine_line(message.detected))

    def action_recent(self) -> None:
        """Go to the list of past runs."""
        self.query_one(Workbench).prefer(recent=True).focus()

    def action_workbench(self) -> None:
        """Go to the trainings found here, or to the plan of the one that is filled in."""
        self.query_one(Workbench).prefer(recent=False).focus()

    def action_step(self, by: int) -> None:
        """Go to the next or the previous field; in an empty Target, to the next training first."""
        if not self.query_one(Workbench).move(by):
            (self.focus_next if by > 0 else self.focus_previous)()

    def action_leave_field(self) -> None:
        """Take the focus from the field, so that letters are keys of the screen again."""
        self.set_focus(None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Actions on a past run need the focus in the list of past runs."""
        if action in ("again", "edit"):
            return isinstance(self.focused, RecentRuns)
        return super().check_action(action, parameters)

    def action_edit(self) -> None:
        """Fill in the form from the run under the cursor."""
        run = self.query_one(RecentRuns).chosen
        if run is not None:
            self._edit(self._root / run.id)

    @work(thread=True, group="edit")
    def _edit(self, folder: Path) -> None:
        """In a thread, because the target's source may be on a slow file system."""
        try:
            spec, private = read_spec(folder), read_private(folder)
            require_editable(spec)
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        draft = draft_of(spec, self._workdir, private)
        self.app.call_from_thread(self.fill, draft)
        if missing := unwritten(spec, private):
            self.notify(f"not in its record, because they look secret: {', '.join(missing)}", markup=False)

    @on(RecentRuns.Chosen, "#recent")
    def _open(self, message: RecentRuns.Chosen) -> None:
        self._show_run(self._root / self.query_one(RecentRuns).items[message.index].id)

    @work(thread=True, exclusive=True, group="list")
    def _list(self) -> None:
        self.post_message(self.RecentListed(recent_runs(self._root)))

    @on(RecentListed)
    def _show_runs(self, message: RecentListed) -> None:
        recent = self.query_one(RecentRuns)
        first = not recent.listed
        with contained(self):
            recent.show(message.runs)
        if first:
            self.query_one(Workbench).fit()

    def action_launch(self) -> None:
        """Start the run, and open its screen."""
        if not self._launching:
            self._launching = True
            self.query_one(CommandLine).wait("starting …")
            self._launch(self.draft)

    @work(thread=True, group="launch")
    def _launch(self, draft: Draft) -> None:
        try:
            run = self._commands.start(Request(draft.resolved()))
        except Misfit as misfit:
            self.app.call_from_thread(self._launch_ended, str(misfit), misfit)
        except LauncherError as error:
            self.app.call_from_thread(self._launch_ended, str(error))
        else:
            self.post_message(self.Launched(self._root / run))
            self.app.call_from_thread(self._launch_ended, None)

    def action_again(self) -> None:
        """Show what the run under the cursor was, and start it again if a person confirms."""
        run = self.query_one(RecentRuns).chosen
        if run is not None:
            self.ask_again(self._root / run.id)

    def _launch_ended(self, problem: str | None, misfit: Misfit | None = None) -> None:
        self._launching = False
        self.query_one(CommandLine).judge(problem)
        if misfit is not None:
            self.refuse(misfit)

    @on(Launched)
    def _watch(self, message: Launched) -> None:
        self._show_run(message.run)

    def _show_run(self, run: Path) -> None:
        from ..run.screen import RunScreen

        self.app.push_screen(RunScreen(run, self._commands))

    @property
    def draft(self) -> Draft:
        """The content of the form."""
        return self.query_one(LaunchForm).draft

    def fill(self, draft: Draft) -> None:
        """Fill in the form, and go to it."""
        self.query_one(LaunchForm).fill(draft)
        self.action_form()

    def judge(self, misfit: Misfit | None, doubt: str = "") -> None:
        """Show what is wrong, at its field and below the command.

        A problem that a preflight or a launch found is shown until the form changes.
        """
        refused = self._refused[1] if self._refused and self._refused[0] == self.draft else None
        misfit = refused or misfit
        # an empty form is not wrong
        begun = bool(refused or self.draft.target or (misfit and misfit.field != "target"))
        self.query_one(CommandLine).judge(str(misfit) if misfit else None, doubt, begun=begun)
        form = self.query_one(LaunchForm)
        if misfit and begun:
            form.judge(misfit.field, str(misfit))
        else:
            form.judge("", None)

    def refuse(self, misfit: Misfit) -> None:
        """Show why the run cannot be started, and go to the field."""
        self._refused = (self.draft, misfit)
        self.judge(misfit)
        self.query_one(LaunchForm).go_to(misfit.field)

    @on(LaunchForm.FindWanted)
    def _find_wanted(self) -> None:
        """Take the training under the cursor of the list, if one is shown; else open the picker."""
        bench = self.query_one(Workbench)
        if bench.choosing:
            bench.choose()
        else:
            self.action_find()

    @on(Workbench.Picked)
    async def _training_picked(self, message: Workbench.Picked) -> None:
        await self._picked(message.target)

    def action_find(self) -> None:
        """Open the picker for a script or function."""
        from .picker import PickerScreen

        runs = self.query_one(RecentRuns).items
        self.app.push_screen(PickerScreen(self._workdir, runs), self._picked)

    async def _picked(self, target: str | None) -> None:
        if target:
            await self.take(target)

    async def take(self, target: str) -> None:
        """Fill in a target, and go to the first field of what it takes."""
        form = self.query_one(LaunchForm)
        form.pick(target)
        await self.learn()
        form.go_on()

    @on(RecentRuns.DemoWanted)
    def action_demo(self) -> None:
        """Show the recorded run of eight ranks, beside this console's own runs."""
        if self._demo is None:
            from ...data.demo import DemoStage

            self._demo = DemoStage()
            self._show_demo(self._demo)

    @work(thread=True, group="demo")
    def _show_demo(self, demo: DemoStage) -> None:
        """In a thread, because the run is recorded first."""
        run = demo.start()
        self.app.call_from_thread(self._open_demo, demo, run)

    def _open_demo(self, demo: DemoStage, run: Path) -> None:
        from ..run.screen import RunScreen

        if self._demo is demo and self.is_current:
            self.app.push_screen(RunScreen(run, demo.commands))
        else:  # the person has gone elsewhere meanwhile
            self._end_demo()

    def _end_demo(self) -> None:
        """Remove the demo's folders, once its screen is closed."""
        demo, self._demo = self._demo, None
        if demo is not None:
            self.run_worker(demo.close, thread=True, group="demo")

    def on_unmount(self) -> None:
        """Remove the demo's folders."""
        if self._demo is not None:
            self._demo.close()

    def action_more(self) -> None:
        """Unfold or fold the other options."""
        self.query_one(LaunchForm).toggle_more()

    def action_preflight(self) -> None:
        """Check all that can be checked before a start, and show the plan."""
        from .preflight import PreflightScreen

        screen = PreflightScreen(self.draft, self._commands, self._hosts_checked)
        self.app.push_screen(screen, self._preflight_closed)

    def _hosts_checked(self, draft: Draft, report: CheckReport) -> None:
        """Show what checks on the hosts have found, until the form changes."""
        self._checked = (draft, report)
        self._show_checks()

    def _show_checks(self) -> None:
        report = self._checked[1] if self._checked and self._checked[0] == self.draft else None
        summary = escaped(report.summary) if report else ""
        self.query_one(CommandLine).note_checks(summary, fine=report is None or report.ok)

    def _preflight_closed(self, outcome: Misfit | str | None) -> None:
        from .preflight import LAUNCH

        self.detect()
        if outcome == LAUNCH:
            self.action_launch()
        elif isinstance(outcome, Misfit):
            self.refuse(outcome)

    def action_save(self) -> None:
        """Save the form as a preset."""
        from .presets import SaveScreen

        self.app.push_screen(SaveScreen(self.draft))

    def action_presets(self) -> None:
        """Fill in the form from a preset."""
        from .presets import PresetsScreen

        self.app.push_screen(PresetsScreen(self._workdir), lambda draft: self.fill(draft) if draft else None)

    def action_form(self) -> None:
        """Go to the form."""
        self.query_one("#target").focus()

    def action_copy(self) -> None:
        """Copy the command."""
        self.app.copy_to_clipboard(command_text(self.draft, self._defaults))
