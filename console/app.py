"""The Textual application: themes, the two screens, and the way in and out of the terminal."""

from __future__ import annotations

import console.pace  # noqa: F401  first, because Textual reads its settings when it is imported

# isort: split

import asyncio
import os
import signal
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.theme import ThemeProvider

from console.commands import Commands
from console.entrance import Entrance
from console.frugal import frugal
from console.plain import line_filters
from console.settings import ConsoleSettings
from console.terminal import copy, exit_anyway
from console.theming import FALLBACKS
from console.widgets.hints import keys_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from textual.dom import DOMNode
    from textual.driver import Driver
    from textual.filter import LineFilter
    from textual.screen import Screen

    from console.sources.drafts import Draft

HANGUP, TERMINATED = 129, 143


class Themes(ThemeProvider):
    """The themes, for the palette. One that is picked there holds until the console is left."""

    @property
    def commands(self) -> list[tuple[str, Callable[[], None]]]:
        """Each by its name."""
        return [(name, partial(self._pick, name, take)) for name, take in super().commands]

    def _pick(self, name: str, take: Callable[[], None]) -> None:
        take()
        self.app.notify(f'theme = "{name}" in [console] of config.toml keeps it', markup=False)


class RankdeckApp(Entrance):
    """The console. It owns no run: leaving it, in whatever way, ends none."""

    TITLE = "rankdeck"
    CSS_PATH = "console.tcss"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Help", key_display="?", id="app.help"),
        Binding("f1", "help", "Help", priority=True, id="app.help_anywhere"),
        Binding("ctrl+p", "command_palette", "Palette", show=False, priority=True, id="app.palette"),
        Binding("colon", "command_palette", "Palette", show=False, key_display=":", id="app.command"),
        Binding("ctrl+z", "suspend_process", "Suspend", show=False, id="app.suspend"),
        Binding("ctrl+l", "redraw", "Redraw", show=False, id="app.redraw"),
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
        self.survives = survives
        super().__init__(root, workdir, open_run, draft, commands, settings, waits=paint_first)
        self.log_times = self.settings.timestamps
        self._handle_signals = handle_signals
        self._interrupted = 0.0
        self.left_running: str | None = None
        self.settle(theme or self.settings.theme)

    def get_driver_class(self) -> type[Driver]:
        """The platform's, which writes as little as it can."""
        return frugal(super().get_driver_class())

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Our variables, for themes that do not define them."""
        return FALLBACKS

    def on_mount(self) -> None:
        """Listen to signals, for who closes the terminal leaves too; and to threads that fail."""
        self.hear_threads()
        if self._handle_signals:
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGHUP, self._leave, HANGUP)
            loop.add_signal_handler(signal.SIGTERM, self._leave, TERMINATED)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """What the palette offers: Textual's own, and every binding of the screen by its description."""
        yield from super().get_system_commands(screen)
        for node, binding, enabled, _ in screen.active_bindings.values():
            if enabled and binding.description and not binding.system:
                run = partial(self._act, binding.action, node)
                yield SystemCommand(binding.description, f"key {self.get_key_display(binding)}", run)

    def search_themes(self) -> None:
        """Let a person pick a theme, and say how to keep it."""
        self.push_screen(CommandPalette(providers=[Themes], placeholder="Search for themes…"))

    def copy_to_clipboard(self, text: str) -> None:
        """Copy through the terminal, which works over SSH; say what was done, or why not."""
        self._clipboard = text
        around = {} if self.is_web else os.environ
        if around.get("TMUX"):  # which is asked by its own command, and may be slow to answer
            self.run_worker(partial(self._copy, text, around), thread=True, group="copy")
        else:
            self._copy(text, around)

    def _copy(self, text: str, around: Mapping[str, str]) -> None:
        done = copy(text, around, self._driver.write if self._driver is not None else None)
        self.notify(done, severity="warning" if done.startswith("not ") else "information")

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Nothing reaches the terminal that it cannot show, or that is not wanted."""
        return line_filters(super().get_line_filters(), no_color=self.no_color, ascii=self.settings.ascii)

    def get_key_display(self, binding: Binding) -> str:
        """A key as footer, palette and help show it."""
        from console.keymap import key_text

        return key_text(binding, ascii=self.settings.ascii)

    def action_detach(self) -> None:
        """Leave. Runs go on."""
        self._leave(0)

    async def action_quit(self) -> None:
        """Leave, as `detach` does."""
        self._leave(0)

    def action_help(self) -> None:
        """Show the keys of what has the focus, or show them no more."""
        from console.screens.help import HelpScreen
        from console.widgets.key_line import KeyLine

        if isinstance(self.screen, HelpScreen):
            self.screen.dismiss()
            return
        words = {id_: what for line in self.screen.query(KeyLine) for id_, what in line.words.items()}
        self.push_screen(HelpScreen(self.screen.active_bindings.values(), self.get_key_display, words))

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

    def _act(self, action: str, node: DOMNode) -> None:
        self.call_later(self.run_action, action, node)

    def _leave(self, code: int) -> None:
        from console.screens.run import RunScreen

        runs = [s for s in self.screen_stack if isinstance(s, RunScreen)]
        if runs and runs[-1].live:
            self.left_running = runs[-1].run.name
        elif runs and runs[-1].run == self._first and code == 0:
            code = runs[-1].exit_code
        if code in (HANGUP, TERMINATED):
            exit_anyway(code)
        self.exit(code, return_code=code)
