"""What one does with a form besides launching it: find a target, check, keep, copy."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType

from console.screens.place import Place
from console.sources.drafts import Draft, Misfit, command_text
from console.widgets.command_line import CommandLine
from console.widgets.launch_form import LaunchForm
from console.widgets.recent_runs import RecentRuns


class FormActs(Place):
    """A screen with a launch form and its command."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+f", "find", "Find", id="launch.find", priority=True),
        Binding("ctrl+t,m", "more", "More options", id="launch.more"),
        Binding("p,f5", "preflight", "Preflight", show=True, id="launch.preflight"),
        Binding("s", "save", "Save as preset", show=False, id="launch.save"),
        Binding("o", "presets", "Presets", show=False, id="launch.presets"),
        Binding("y,ctrl+y", "copy", "Copy command", show=False, id="launch.copy"),
        Binding("slash", "find", "Find", show=False, key_display="/", id="launch.search"),
    ]

    _workdir: Path
    _refused: tuple[Draft, Misfit] | None = None

    @property
    def draft(self) -> Draft:
        """What is filled in."""
        return self.query_one(LaunchForm).draft

    def fill(self, draft: Draft) -> None:
        """Fill the form, and go to it."""
        self.query_one(LaunchForm).fill(draft)
        self.action_form()

    def detect(self) -> None:
        """Look again what this machine has."""
        raise NotImplementedError

    def action_launch(self) -> None:
        """Start what is filled in."""
        raise NotImplementedError

    def judge(self, misfit: Misfit | None, doubt: str = "") -> None:
        """Say what is wrong, beside the field that it concerns and below the command.

        What a preflight or a launch found stands until something is filled in otherwise.
        """
        refused = self._refused[1] if self._refused and self._refused[0] == self.draft else None
        misfit = refused or misfit
        # a form that was not begun yet is not wrong
        begun = bool(refused or self.draft.target or (misfit and misfit.field != "target"))
        self.query_one(CommandLine).judge(str(misfit) if misfit else None, doubt, begun=begun)
        form = self.query_one(LaunchForm)
        if misfit and begun:
            form.judge(misfit.field, str(misfit))
        else:
            form.judge("", None)

    def refuse(self, misfit: Misfit) -> None:
        """Say what keeps it from being started, and go there."""
        self._refused = (self.draft, misfit)
        self.judge(misfit)
        self.query_one(LaunchForm).go_to(misfit.field)

    @on(LaunchForm.FindWanted)
    def action_find(self) -> None:
        """Pick a script or function."""
        from console.screens.picker import PickerScreen

        runs = self.query_one(RecentRuns).runs
        self.app.push_screen(PickerScreen(self._workdir, runs), self._picked)

    async def _picked(self, target: str | None) -> None:
        if target:
            form = self.query_one(LaunchForm)
            form.pick(target)
            await self.learn()
            form.go_on()

    async def learn(self) -> None:
        """Read the target that is filled in, and offer what it takes."""
        raise NotImplementedError

    def action_more(self) -> None:
        """Unfold the other options, or fold them."""
        self.query_one(LaunchForm).toggle_more()

    def action_preflight(self) -> None:
        """Check all that can be checked before a start, and show the plan."""
        from console.screens.preflight import PreflightScreen

        self.app.push_screen(PreflightScreen(self.draft), self._preflighted)

    def _preflighted(self, said: Misfit | str | None) -> None:
        from console.screens.preflight import LAUNCH

        self.detect()
        if said == LAUNCH:
            self.action_launch()
        elif isinstance(said, Misfit):
            self.refuse(said)

    def action_save(self) -> None:
        """Keep what is filled in under a name."""
        from console.screens.presets import SaveScreen

        self.app.push_screen(SaveScreen(self.draft))

    def action_presets(self) -> None:
        """Fill the form from a preset."""
        from console.screens.presets import PresetsScreen

        self.app.push_screen(PresetsScreen(self._workdir), lambda draft: self.fill(draft) if draft else None)

    def action_form(self) -> None:
        """Go to the form."""
        self.query_one("#target").focus()

    def action_copy(self) -> None:
        """Copy the command."""
        self.app.copy_to_clipboard(command_text(self.draft))
