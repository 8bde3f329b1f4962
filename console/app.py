"""The Textual application: themes, the two screens, and the way in and out of the terminal."""

from __future__ import annotations

import console.pace  # noqa: F401  first, because Textual reads its settings when it is imported

# isort: split

import asyncio
import os
import signal
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType

from console.commands import Commands, LauncherCommands
from console.frugal import frugal
from console.keymap import key_text, known_bindings, usable
from console.listing import printable
from console.plain import line_filters, wants_no_color
from console.screens.help import HelpScreen
from console.screens.launch import LaunchScreen
from console.screens.run import RunScreen
from console.settings import ConsoleSettings, form_draft
from console.sources.drafts import Draft
from console.terminal import copy, exit_anyway
from console.theming import FALLBACKS, choose_theme, load_themes
from console.widgets.hints import keys_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.filter import LineFilter
    from textual.screen import Screen

HANGUP, TERMINATED = 129, 143
_TOLD = 400


class RankdeckApp(App[int]):
    """The console. It owns no run: leaving it, in whatever way, ends none."""

    TITLE = "rankdeck"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, priority=True, id="app.palette"),
        Binding("colon", "command_palette", "Palette", show=False, key_display=":", id="app.command"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend"),
        Binding("ctrl+l", "redraw", "Redraw", show=False, id="app.redraw"),
        Binding("ctrl+c", "interrupt", "Detach", show=False, priority=True, id="app.interrupt"),
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
    ) -> None:
        no_color = wants_no_color(os.environ)
        super().__init__(ansi_color=no_color or None)
        self.no_color, self.settings = no_color, settings or ConsoleSettings()
        self.log_times = self.settings.timestamps
        self._root, self._workdir, self._first = root, workdir, open_run
        self._draft = draft or form_draft(self.settings, workdir)
        self._commands = commands if commands is not None else LauncherCommands()
        self._handle_signals = handle_signals
        self._interrupted = 0.0
        self.own_keys: dict[str, str] = {}
        self.left_running: str | None = None
        self._settle(theme or self.settings.theme)

    def get_driver_class(self) -> type[Driver]:
        """The platform's, which writes as little as it can."""
        return frugal(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables, for themes that do not define them."""
        return FALLBACKS

    def on_mount(self) -> None:
        """Open the launch screen, and the run that was asked for above it."""
        if self._handle_signals:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._leave, HANGUP)
            loop.add_signal_handler(signal.SIGTERM, self._leave, TERMINATED)
        self.push_screen(LaunchScreen(self._root, self._workdir, self._commands, self._draft))
        if self._first is not None:
            self.open_run(self._first)

    def open_run(self, run: Path) -> None:
        """Show a run."""
        self.push_screen(RunScreen(run, self._commands))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: Textual's own, and every binding of the screen by its description."""
        yield from super().get_system_commands(screen)
        for node, binding, enabled, _ in screen.active_bindings.values():
            if enabled and binding.description and not binding.system:
                run = partial(self._act, binding.action, node)
                yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", run)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal, which works over SSH; say what was done, or why not."""
        self._clipboard = text
        done = copy(text, os.environ, self._driver.write if self._driver is not None else None)
        self.notify(done, severity="warning" if done.startswith("not ") else "information")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Nothing reaches the terminal that it cannot show, or that is not wanted."""
        return line_filters(super().get_line_filters(), no_color=self.no_color, ascii=self.settings.ascii)

    def get_key_display(self, binding: Binding) -> str:
        """A key as footer, palette and help show it."""
        return key_text(binding, ascii=self.settings.ascii)

    def action_detach(self) -> None:
        """Leave. Runs go on."""
        self._leave(0)

    async def action_quit(self) -> None:
        """Leave, as `detach` does."""
        self._leave(0)

    def action_help(self) -> None:
        """Show the keys of what has the focus."""
        self.push_screen(HelpScreen(self.screen.active_bindings.values(), self.get_key_display))

    def action_redraw(self) -> None:
        """Paint everything again."""
        self.refresh(layout=True)

    def action_interrupt(self) -> None:
        """The first ctrl+c explains, a second soon after leaves."""
        now = asyncio.get_running_loop().time()
        if now - self._interrupted < 2.0:
            self._leave(0)
            return
        self._interrupted = now
        again, stop = keys_of(self, "app.interrupt", "ctrl+c"), keys_of(self, "run.stop", "x")
        self.notify(
            f"nothing was stopped · {again} again leaves, runs go on · {stop} stops a run", markup=False
        )

    def _settle(self, theme: str) -> None:
        problems = list(self.settings.problems)
        for each in load_themes(problems=problems):
            self.register_theme(each)
        self.theme = choose_theme(theme, self.available_themes, problems)
        if self.settings.keys:
            self.own_keys = usable(self.settings.keys, known_bindings(type(self)), problems)
            self.set_keymap(self.own_keys)
        for problem in problems:
            self.notify(printable(problem)[:_TOLD], severity="warning", markup=False, timeout=10)

    def _act(self, action: str, node: DOMNode) -> None:
        self.call_later(self.run_action, action, node)

    def _leave(self, code: int) -> None:
        runs = [s for s in self.screen_stack if isinstance(s, RunScreen)]
        if runs and runs[-1].live:
            self.left_running = runs[-1].run.name
        elif runs and runs[-1].run == self._first and code == 0:
            code = runs[-1].exit_code
        if code in (HANGUP, TERMINATED):
            exit_anyway(code)
        self.exit(code, return_code=code)
