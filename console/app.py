"""The Textual application: themes, the two screens, and the way in and out of the terminal."""

from __future__ import annotations

import console.pace  # noqa: F401  first, because Textual reads its settings when it is imported

# isort: split

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType

from console.commands import Commands, LauncherCommands
from console.screens.help import HelpScreen
from console.screens.launch import LaunchScreen
from console.screens.run import RunScreen
from console.terminal import CLIPBOARD_BYTES, clipboard_sequence, offer_to_tmux, quiet_descriptors
from console.theming import DEFAULT_THEME, FALLBACKS, load_themes

if TYPE_CHECKING:
    from textual.dom import DOMNode
    from textual.screen import Screen

HANGUP, TERMINATED = 129, 143
_EXIT_LIMIT_S = 3.0


class RankdeckApp(App[int]):
    """The console. It owns no run: leaving it, in whatever way, ends none."""

    TITLE = "rankdeck"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = True
    COMMAND_PALETTE_BINDING = "ctrl+p"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark,f1", "help", "Help", key_display="?", id="app.help"),
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
        theme: str | None = None,
        commands: Commands | None = None,
        handle_signals: bool = False,
    ) -> None:
        super().__init__(ansi_color=True if os.environ.get("NO_COLOR") else None)
        self._root, self._workdir, self._first = root, workdir, open_run
        self._commands = commands if commands is not None else LauncherCommands()
        self._handle_signals = handle_signals
        self._interrupted = 0.0
        self.left_running: str | None = None
        self._choose_theme(theme)

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables, for themes that do not define them."""
        return FALLBACKS

    def on_mount(self) -> None:
        """Open the launch screen, and the run that was asked for above it."""
        if self._handle_signals:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._leave, HANGUP)
            loop.add_signal_handler(signal.SIGTERM, self._leave, TERMINATED)
        self.push_screen(LaunchScreen(self._root, self._workdir, self._commands))
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
        size = f"{len(text.splitlines())} lines" if "\n" in text.strip() else "1 line"
        sequence = clipboard_sequence(text)
        if offer_to_tmux(text, os.environ):
            self.notify(f"copied {size} through tmux")
        elif sequence is None:
            self.notify(f"not copied: more than {CLIPBOARD_BYTES // 1000} kB", severity="warning")
        elif self._driver is not None:
            self._driver.write(sequence)
            self.notify(f"copied {size} through the terminal")

    def action_detach(self) -> None:
        """Leave. Runs go on."""
        self._leave(0)

    async def action_quit(self) -> None:
        """Leave, as `detach` does."""
        self._leave(0)

    def action_help(self) -> None:
        """Show the keys of what has the focus."""
        self.push_screen(HelpScreen(self.screen.active_bindings.values()))

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
        self.notify("nothing was stopped · ctrl+c again leaves, runs go on · x stops a run")

    def _choose_theme(self, name: str | None) -> None:
        problems: list[str] = []
        for theme in load_themes(problems=problems):
            self.register_theme(theme)
        if name is not None and name not in self.available_themes:
            problems.append(f"there is no theme {name!r}; `rankdeck themes` lists them")
            name = None
        self.theme = name or DEFAULT_THEME
        for problem in problems:
            self.notify(problem, severity="warning", markup=False, timeout=10)

    def _act(self, action: str, node: DOMNode) -> None:
        self.call_later(self.run_action, action, node)

    def _leave(self, code: int) -> None:
        runs = [s for s in self.screen_stack if isinstance(s, RunScreen)]
        if runs and runs[-1].live:
            self.left_running = runs[-1].run.name
        elif runs and runs[-1].run == self._first and code == 0:
            code = runs[-1].exit_code
        if code in (HANGUP, TERMINATED):
            _exit_anyway(code)
        self.exit(code, return_code=code)


def _exit_anyway(code: int) -> None:
    """Leave even if the terminal no longer takes what is written to it, which blocks Textual for ever."""
    timer = threading.Timer(_EXIT_LIMIT_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


def _say_how_to_return(run: str) -> None:
    sys.stderr.write(f"run {run} goes on; see it again with: rankdeck attach {run}\n")


def run_console(
    *,
    root: Path,
    workdir: Path,
    open_run: Path | None = None,
    theme: str | None = None,
    commands: Commands | None = None,
    mouse: bool = True,
    farewell: Callable[[str], None] | None = None,
) -> int:
    """Show the console until a person leaves it, and return the exit code.

    `farewell` is told the run that was open and goes on; without one, how to see it again is said on stderr.
    """
    app = RankdeckApp(
        root=root, workdir=workdir, open_run=open_run, theme=theme, commands=commands, handle_signals=True
    )
    with quiet_descriptors():
        code = app.run(mouse=mouse)
    if app.left_running is not None:
        (farewell or _say_how_to_return)(app.left_running)
    return app.return_code or code or 0
