"""The Textual application: its first frame, its screens, its themes, its start and its exit.

Importing the launch form takes most of the start-up time. Until it is imported, its outline is shown and
typed keys are buffered for it.
"""

from __future__ import annotations

from .ui.rendering import pace  # noqa: F401  first, because Textual reads its settings when it is imported

# isort: split

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from .attention import TerminalTitle, call_of
from .commands import Commands, LauncherCommands
from .echo import say
from .settings import ConsoleSettings, form_draft, load
from .themes import FALLBACKS, choose_theme, first_theme, load_themes
from .ui.launch.outline import Outline
from .ui.rendering.containment import Contained
from .ui.rendering.driver import frugal, line_filters, wants_no_color
from .ui.rendering.insides import may_use
from .ui.rendering.terminal import copy, exit_anyway, quiet_descriptors
from .ui.rendering.type_ahead import TypeAhead, is_typed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.driver import Driver
    from textual.events import Event
    from textual.filter import LineFilter
    from textual.notifications import SeverityLevel
    from textual.screen import Screen
    from textual.widget import AwaitMount

    from .data.finding.entry import BarEntry
    from .data.finding.sources import RunEntries
    from .data.finding.usage import UseRecord
    from .data.launch.draft import Draft

_MAX_NOTICE = 400
_AT_ONCE = frozenset({"ctrl+c", "ctrl+q"})
_IMPORTED_LATER = (
    "run.screen",
    "history.screen",
    "cluster.screen",
    "dialogs",
    "finding.deeds",
    "finding.help",
    "finding.jump",
    "launch.picker",
    "launch.presets",
    "launch.preflight",
)


HANGUP, TERMINATED = 129, 143


class RankdeckApp(Contained):
    """The console. It owns no run: leaving it, in whatever way, ends no run.

    It opens the launch screen, and above it the run `open_run`. With `paint_first`, which is for a real
    terminal, it paints a first frame before it imports these screens.
    """

    TITLE = "rankdeck"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = False  # the command bar takes its place
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", id="app.help"),
        Binding("f1", "help", "Help", priority=True, id="app.help_anywhere"),
        Binding("ctrl+p", "bar", "Command bar", show=False, priority=True, id="app.palette"),
        Binding("colon", "bar", "Command bar", show=False, key_display=":", id="app.command"),
        Binding("ctrl+o", "jump", "Jump to a field or pane", show=False, priority=True, id="app.jump"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend"),
        # priority: what another program wrote into the terminal may be over a dialog, too
        Binding("ctrl+l", "redraw", "Redraw", show=False, priority=True, id="app.redraw"),
        Binding("ctrl+c", "interrupt", "Leave", show=False, priority=True, id="app.interrupt"),
    ]

    def __init__(
        self,
        *,
        root: Path,
        workdir: Path,
        open_run: Path | None = None,
        draft: Draft | None = None,
        theme: str | None = None,
        commands: Commands | None = None,
        settings: ConsoleSettings | None = None,
        handle_signals: bool = False,
        paint_first: bool = False,
        survives: bool = False,
    ) -> None:
        self.survives = survives and may_use()
        no_color = wants_no_color(os.environ)
        super().__init__(ansi_color=no_color or None)
        self.no_color, self.settings = no_color, settings or ConsoleSettings()
        self.log_times = self.settings.timestamps
        self.columns = self.settings.columns
        self.own_keys: dict[str, str] = {}
        self.command_keys: dict[str, str] = {}
        self.left_running: str | None = None
        wanted = self.settings.notify.title
        self.terminal_title = TerminalTitle(os.environ, wanted=wanted, ascii=self.settings.ascii)
        self._root, self._workdir, self._first, self._draft = root, workdir, open_run, draft
        self._commands = commands if commands is not None else LauncherCommands()
        self._handle_signals = handle_signals
        self._interrupted = 0.0
        self._uses: UseRecord | None = None
        self._run_entries: RunEntries | None = None
        self._ahead = TypeAhead(self, _AT_ONCE) if paint_first else None
        self._entering = self._themes_registered = False
        self._apply_theme(theme or self.settings.theme)

    def get_default_screen(self) -> Screen[None]:
        """The outline of the launch screen: painted first, and below all other screens."""
        mode = self._draft.mode if self._draft else self.settings.form.get("mode", "")
        seeking = not (self._draft and self._draft.target)
        spark = bool(mode) and _has_address(mode)
        return Outline(None if self._first else self._workdir, spark=spark, seeking=seeking)

    def _apply_theme(self, theme: str) -> None:
        """Apply the theme before the first frame; no other theme is read if that can be avoided."""
        problems = list(self.settings.problems)
        if (chosen := first_theme(theme)) is not None:
            self.register_theme(chosen)
            self.theme = chosen.name
        else:
            self._register_themes(problems)
            self.theme = choose_theme(theme, self.available_themes, problems)
        self._notify_problems(problems)

    async def on_event(self, event: Event) -> None:
        """Handle an event, or buffer it while earlier input has not taken effect."""
        if is_typed(event) and not self.screen_stack:  # the app is exiting: no screen can take input
            return
        if self._ahead is None or not self._ahead.keeps(event):
            await super().on_event(event)

    def post_display_hook(self) -> None:
        """After the first frame, prepare the second; without this Textual paints the first four times."""
        if self._ahead is not None and not self._entering:
            self._entering = True
            paused = ExitStack()
            paused.enter_context(self.batch_update())
            self.run_worker(self._enter(self._ahead, paused))

    async def _enter(self, ahead: TypeAhead, paused: ExitStack) -> None:
        """Open the screens over the first frame, replay the buffered input, and import the other screens."""
        with paused:
            await asyncio.to_thread(self._import)
            for opened in self._open():
                await opened
        ahead.begin()
        await asyncio.to_thread(self._import_next)

    def _import(self) -> None:
        """Import the first screen, in a thread: the event loop must keep receiving keys."""
        if self.settings.keys or self.settings.commands:
            from .ui.keymap import known_bindings

            known_bindings(type(self))
        import_module("console.ui.launch.screen")

    def _import_next(self) -> None:
        """Import the other screens, so that the first visit is as quick as the second."""
        for name in _IMPORTED_LATER:
            import_module(f"console.ui.{name}")

    def _open(self) -> list[AwaitMount]:
        from .ui.launch.screen import LaunchScreen

        problems: list[str] = []
        self._register_themes(problems)
        self._apply_keys(problems)
        self._notify_problems(problems)
        draft = self._draft or form_draft(self.settings, self._workdir)
        launch = LaunchScreen(self._root, self._workdir, self._commands, draft, self.settings.form)
        opened = [self.push_screen(launch)]
        return opened if self._first is None else [*opened, self.open_run(self._first)]

    def open_run(self, run: Path) -> AwaitMount:
        """Show a run."""
        from .ui.run.screen import RunScreen

        return self.push_screen(RunScreen(run, self._commands))

    def _register_themes(self, problems: list[str]) -> None:
        """Register all themes, for the palette, once."""
        if not self._themes_registered:
            self._themes_registered = True
            for each in load_themes(problems=problems):
                self.register_theme(each)

    def _apply_keys(self, problems: list[str]) -> None:
        """Apply the user's key bindings; to check their ids, every screen is imported."""
        if self.settings.keys:
            from .ui.keymap import known_bindings, usable

            self.own_keys = usable(self.settings.keys, known_bindings(type(self)), problems)
            self.set_keymap(self.own_keys)
        if self.settings.commands:
            self._bind_commands(problems)

    def _bind_commands(self, problems: list[str]) -> None:
        """Bind the keys of the user's commands; those that are taken are left out."""
        from .data.finding.own import shown_keys
        from .ui.keymap import known_bindings, normal, own_key_problems

        commands = self.settings.commands
        wrong = [*own_key_problems(commands, self.settings.keys, known_bindings(type(self)))]
        problems += (text for *_, text in wrong)
        refused = {(name, key) for name, key, _ in wrong}
        for command, key in shown_keys(commands):
            if (command.name, key) not in refused:
                (pressed,) = normal(key)
                self.bind(pressed, f"app.own('{command.name}')", description=command.says, show=False)
                shown = self.get_key_display(Binding(pressed, ""))
                self.command_keys[command.name] = f"{self.command_keys.get(command.name, '')} {shown}".strip()

    def _notify_problems(self, problems: list[str]) -> None:
        for problem in problems:
            from .sanitize import printable

            self.notify(printable(problem)[:_MAX_NOTICE], severity="warning", markup=False, timeout=10)

    def get_driver_class(self) -> type[Driver]:
        """The platform's driver, made to write as little as it can."""
        return frugal(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Values of our own variables, for themes that do not define them."""
        return FALLBACKS

    def on_mount(self) -> None:
        """Handle signals and failing threads; open the screens, unless a first frame is painted before."""
        self.watch_threads()
        title, write = self.terminal_title, self.write_terminal
        self.app_suspend_signal.subscribe(self, lambda _: title.pause(write), immediate=True)
        self.app_resume_signal.subscribe(self, lambda _: title.resume(write), immediate=True)
        if self._handle_signals:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._leave, HANGUP)
            loop.add_signal_handler(signal.SIGTERM, self._leave, TERMINATED)
        if self._ahead is None:
            self._open()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A dialog has neither the bar nor jump mode above it; a user's command has its screens."""
        if action in ("bar", "jump") and isinstance(self.screen, ModalScreen):
            return False
        if action == "own":
            from .ui.finding.own import is_offered

            command = self.settings.commands.get(str(parameters[0]))
            return command is not None and is_offered(command, self.screen)
        return super().check_action(action, parameters)

    def action_bar(self, text: str = "") -> None:
        """Open the command bar for the present screen."""
        from .data.finding.sources import RunEntries
        from .data.finding.usage import UseRecord
        from .ui.finding.bar import BarScreen
        from .ui.finding.deeds import deeds_of, do, entries_of, own_entries, sources_of

        uses = self._uses = self._uses or UseRecord()
        runs = self._run_entries = self._run_entries or RunEntries(self._root, self._workdir)
        deeds, commands = deeds_of(self.screen), self.settings.commands
        known = [
            *own_entries(commands, self.screen, lambda name: self.command_keys.get(name, "")),
            *entries_of(deeds, self._key_words(), self.get_key_display),
        ]

        def chosen(entry: BarEntry | None) -> None:
            if entry is not None:
                self.run_worker(partial(uses.note, entry.used_as), thread=True, group="uses")
                do(self, entry, deeds, commands)

        self.push_screen(BarScreen(known, sources_of(self, runs), uses, text), chosen)

    def search_themes(self) -> None:
        """Let the user pick a theme; a notice then shows how to keep it."""
        self.action_bar("theme ")

    def action_jump(self) -> None:
        """Show a letter on every field and pane of the present screen; it goes there."""
        from .ui.finding.jump import JumpScreen, targets_on

        targets = targets_on(self.screen)
        if targets:
            self.push_screen(JumpScreen(targets), lambda widget: widget.focus() if widget else None)

    def action_own(self, name: str) -> None:
        """Run a command of the user."""
        from .ui.finding.own import run_own

        run_own(self, self.settings.commands[name])

    def _key_words(self) -> dict[str, str]:
        """What keys of the present screen do now, by the ids of their bindings, if it is not the usual."""
        from .ui.widgets.key_line import KeyLine

        return {id_: label for line in self.screen.query(KeyLine) for id_, label in line.words.items()}

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a notice. It may name what a run's record says, so it is cleaned here for all."""
        from .sanitize import printable

        message, title = printable(message), printable(title)
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal, which works over SSH; a notice shows the outcome."""
        self.copy_named(text, "")

    def copy_named(self, text: str, what: str) -> None:
        """Copy as `copy_to_clipboard` does; the notice names the text."""
        self._clipboard = text
        environ = {} if self.is_web else os.environ
        if environ.get("TMUX"):  # copying runs the tmux command, which may be slow
            self.run_worker(partial(self._copy, text, environ, what), thread=True, group="copy")
        else:
            self._copy(text, environ, what)

    def _copy(self, text: str, environ: Mapping[str, str], what: str) -> None:
        outcome = copy(text, environ, self._driver.write if self._driver is not None else None, what)
        self.notify(outcome, severity="warning" if outcome.startswith("not ") else "information")

    def write_terminal(self, sequence: str) -> None:
        """Send a sequence that paints nothing to the terminal; a page in a browser has none of ours."""
        if self._driver is not None and sequence and not self.is_web:
            self._driver.write(sequence)

    def call_person(self, kind: str, text: str) -> None:
        """Have the terminal tell of something, as ``[notify]`` says."""
        self.write_terminal(call_of(self.settings.notify, kind, text, os.environ))

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Filters that remove colours or non-ASCII characters where the terminal or the user needs that."""
        return line_filters(super().get_line_filters(), no_color=self.no_color, ascii=self.settings.ascii)

    def get_key_display(self, binding: Binding) -> str:
        """The text of a key in the footer, the palette and the help."""
        from .ui.keymap import key_text

        return key_text(binding, ascii=self.settings.ascii)

    def action_detach(self) -> None:
        """Leave. Runs go on."""
        self._leave(0)

    async def action_quit(self) -> None:
        """Leave, as `detach` does."""
        self._leave(0)

    def action_help(self) -> None:
        """Show or hide the help: what the screen shows, and the keys of the focused widget."""
        from .ui.finding.help import HelpScreen, help_of
        from .ui.manual import ManualScreen

        if isinstance(self.screen, (HelpScreen, ManualScreen)):
            self.screen.dismiss()
        else:
            self.push_screen(help_of(self.screen, self.get_key_display, self._key_words()))

    def action_redraw(self) -> None:
        """Paint everything again."""
        self.refresh(layout=True)

    def action_interrupt(self) -> None:
        """At the first ctrl+c show what leaves and what stops; at a second one within 2 s leave."""
        from .ui.widgets.key_line import keys_of

        now = asyncio.get_running_loop().time()
        if now - self._interrupted < 2.0:
            self._leave(0)
            return
        self._interrupted = now
        again, stop = keys_of(self, "app.interrupt", "ctrl+c"), keys_of(self, "run.stop", "x")
        self.notify(
            f"nothing was stopped · {again} again leaves, runs go on · {stop} stops a run", markup=False
        )

    def _leave(self, code: int) -> None:
        from .ui.run.screen import RunScreen

        runs = [s for s in self.screen_stack if isinstance(s, RunScreen)]
        if runs and runs[-1].live and (self._root / runs[-1].run.name).exists():  # no demo
            self.left_running = runs[-1].run.name
        elif runs and runs[-1].run == self._first and code == 0:
            code = runs[-1].exit_code
        if code in (HANGUP, TERMINATED):
            exit_anyway(code)
        self.exit(code, return_code=code)


def _has_address(mode: str) -> bool:
    """Whether the form has a field for the address of a mode's backend."""
    from launcher.spec.modes import Mode  # not needed for the usual first frame

    return bool(Mode(mode).traits.address)


def run_console(
    *,
    root: Path,
    workdir: Path,
    open_run: Path | None = None,
    draft: Draft | None = None,
    commands: Commands | None = None,
    farewell: Callable[[str], None] | None = None,
    look: Mapping[str, object] | None = None,
    page: tuple[int, int] | None = None,
) -> int:
    """Show the console until the user leaves it, and return the exit code.

    The form is filled from `draft`. `look` overrides the user's settings theme, mouse and ascii where it is
    not None. `farewell` is called with the id of the run that was open and goes on; without it, a line on
    stderr shows how to see the run again. `page` is for a console in a browser: its columns and rows.
    """
    settings = load(look)
    app = RankdeckApp(
        root=root,
        workdir=workdir,
        open_run=open_run,
        draft=draft,
        commands=commands,
        settings=settings,
        handle_signals=True,
        paint_first=True,
        survives=True,
    )
    with quiet_descriptors(page=page is not None):
        try:
            code = app.run(mouse=settings.mouse, size=page)
        finally:
            if page is None:
                app.terminal_title.restore(_write_terminal)
    if app.left_running is not None:
        (farewell or _say_how_to_return)(app.left_running)
    return app.return_code or code or 0


def _write_terminal(sequence: str) -> None:
    """Write to the terminal when Textual no longer does; one that has gone away is none to write to."""
    if (terminal := sys.__stderr__) is not None:
        with suppress(OSError, ValueError):
            terminal.write(sequence)
            terminal.flush()


def _say_how_to_return(run: str) -> None:
    say(f"run {run} goes on; see it again with: rankdeck attach {run}")
