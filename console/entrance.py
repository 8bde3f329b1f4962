"""How the console begins: with a frame that needs little, then with the screens, which need nearly all.

Most of the time until a form can be filled in goes into importing it. Its outline is shown meanwhile, and
what is typed meanwhile is kept for it.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from console.commands import Commands, LauncherCommands
from console.containment import Contained
from console.plain import wants_no_color
from console.screens.outline import Outline
from console.settings import ConsoleSettings, form_draft
from console.theming import choose_theme, first_theme, load_themes
from console.type_ahead import TypeAhead, is_typed

if TYPE_CHECKING:
    from textual.events import Event
    from textual.screen import Screen
    from textual.widget import AwaitMount

    from console.sources.drafts import Draft

_TOLD = 400
_AT_ONCE = frozenset({"ctrl+c", "ctrl+q"})
_NEXT = ("run", "history", "cluster", "help", "picker", "presets", "preflight")


class Entrance(Contained):
    """An app that opens the launch screen, and the run `first` above it.

    With `waits`, which is for a real terminal, it paints before it imports them.
    """

    def __init__(
        self,
        root: Path,
        workdir: Path,
        first: Path | None = None,
        draft: Draft | None = None,
        commands: Commands | None = None,
        settings: ConsoleSettings | None = None,
        *,
        waits: bool = False,
    ) -> None:
        no_color = wants_no_color(os.environ)
        super().__init__(ansi_color=no_color or None)
        self.no_color, self.settings = no_color, settings or ConsoleSettings()
        self.own_keys: dict[str, str] = {}
        self._root, self._workdir, self._first, self._draft = root, workdir, first, draft
        self._commands = commands if commands is not None else LauncherCommands()
        self._ahead = TypeAhead(self, _AT_ONCE) if waits else None
        self._entering = self._themes_taken = False

    def get_default_screen(self) -> Screen[None]:
        """What is painted first, and lies below all others."""
        mode = self._draft.mode if self._draft else self.settings.form.get("mode", "local")
        return Outline(None if self._first else self._workdir, spark=mode != "local")

    def settle(self, theme: str) -> None:
        """Take the theme, so that the first frame has its colours; only that one is read if possible."""
        problems = list(self.settings.problems)
        if (alone := first_theme(theme)) is not None:
            self.register_theme(alone)
            self.theme = alone.name
        else:
            self._take_themes(problems)
            self.theme = choose_theme(theme, self.available_themes, problems)
        self._tell(problems)

    async def on_event(self, event: Event) -> None:
        """Handle an event, or keep what is typed before that can have its effect."""
        if is_typed(event) and not self.screen_stack:  # we have left: it is nobody's any more
            return
        if self._ahead is None or not self._ahead.keeps(event):
            await super().on_event(event)

    def on_mount(self) -> None:
        """Open the screens at once, unless that waits for a frame."""
        if self._ahead is None:
            self._open()

    def post_display_hook(self) -> None:
        """After the first frame, prepare the second; Textual would paint the first four times else."""
        if self._ahead is not None and not self._entering:
            self._entering = True
            still = ExitStack()
            still.enter_context(self.batch_update())
            self.run_worker(self._enter(self._ahead, still))

    async def _enter(self, ahead: TypeAhead, still: ExitStack) -> None:
        """Open the screens over what was painted, type what was typed, and import what may be wanted next."""
        with still:
            await asyncio.to_thread(self._import)
            for opened in self._open():
                await opened
        ahead.begin()
        await asyncio.to_thread(self._import_next)

    def _import(self) -> None:
        """Import what is opened, beside the loop, which hears what is typed."""
        if self.settings.keys:
            from console.keymap import known_bindings

            known_bindings(type(self))
        import_module("console.screens.launch")

    def _import_next(self) -> None:
        """Import what a person may go to, so that the first way there is as quick as the second."""
        for name in _NEXT:
            import_module(f"console.screens.{name}")

    def _open(self) -> list[AwaitMount]:
        from console.screens.launch import LaunchScreen

        problems: list[str] = []
        self._take_themes(problems)
        self._take_keys(problems)
        self._tell(problems)
        draft = self._draft or form_draft(self.settings, self._workdir)
        opened = [self.push_screen(LaunchScreen(self._root, self._workdir, self._commands, draft))]
        return opened if self._first is None else [*opened, self.open_run(self._first)]

    def open_run(self, run: Path) -> AwaitMount:
        """Show a run."""
        from console.screens.run import RunScreen

        return self.push_screen(RunScreen(run, self._commands))

    def _take_themes(self, problems: list[str]) -> None:
        """All of them, for the palette; those that are known already are not read again."""
        if not self._themes_taken:
            self._themes_taken = True
            for each in load_themes(problems=problems):
                self.register_theme(each)

    def _take_keys(self, problems: list[str]) -> None:
        """A person's own keys; to know what they can be for, every screen is imported."""
        if self.settings.keys:
            from console.keymap import known_bindings, usable

            self.own_keys = usable(self.settings.keys, known_bindings(type(self)), problems)
            self.set_keymap(self.own_keys)

    def _tell(self, problems: list[str]) -> None:
        for problem in problems:
            from console.sources.cleaning import printable

            self.notify(printable(problem)[:_TOLD], severity="warning", markup=False, timeout=10)
