"""What can be done to runs of the past from a list of them: start again, edit, stop, delete, export, copy."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import work
from textual.binding import Binding, BindingType

from console.screens.again import StartsAgain
from console.screens.confirm import ConfirmScreen
from console.screens.place import Site, edit
from console.sources.drafts import command_text, draft_of, require_editable
from console.widgets.hints import keys_of
from launcher.errors import LauncherError
from launcher.runs.asked import read_private
from launcher.runs.catalog import remove_run
from launcher.runs.reader import read_spec
from launcher.runs.status import Status

_NAMED = 8


class RunActs(StartsAgain):
    """A screen with a list of runs. Subclasses say which runs are meant."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "again", "Run again", id="history.again"),
        Binding("e", "edit", "Edit", id="history.edit"),
        Binding("x", "stop", "Stop", show=False, id="history.stop"),
        Binding("d", "delete", "Delete", id="history.delete"),
        Binding("w", "export", "Export to a file", show=False, id="history.export"),
        Binding("W", "write_list", "Write the list as CSV", show=False, id="history.write_list"),
        Binding("y", "copy", "Copy", id="history.copy"),
        Binding("Y", "copy_command", "Copy command", show=False, id="history.copy_command"),
        Binding("i", "copy_id", "Copy id", show=False, id="history.copy_id"),
        Binding("p", "copy_path", "Copy the folder's path", show=False, id="history.copy_path"),
    ]

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site

    def chosen(self) -> Status | None:
        """The run under the cursor."""
        raise NotImplementedError

    def picked(self) -> list[Status]:
        """The runs that are marked, or the one under the cursor."""
        raise NotImplementedError

    def shown(self) -> Sequence[Status]:
        """The runs that are listed, in their order."""
        raise NotImplementedError

    def text(self) -> str:
        """All that is shown of the run under the cursor; empty without one."""
        raise NotImplementedError

    def done(self) -> None:
        """Something was begun with the picked runs."""

    def changed(self) -> None:
        """The folder of runs is not what it was."""

    def folder(self, run: Status) -> Path:
        """Where a run lies."""
        return self.site.root / run.id

    def tell(self, text: str, *, error: bool = False) -> None:
        """Say something; texts may be a run's."""
        self.notify(text, severity="error" if error else "information", markup=False)

    def action_edit(self) -> None:
        """Fill the launch form from the run."""
        if (run := self.chosen()) is not None:
            self._edit(self.folder(run))

    @work(thread=True, group="edit")
    def _edit(self, folder: Path) -> None:
        """Beside the screen, for the target's source may be far away."""
        try:
            spec = read_spec(folder)
            require_editable(spec)
        except LauncherError as error:
            self.app.call_from_thread(self.tell, str(error), error=True)
        else:
            draft = draft_of(spec, self.site.workdir, read_private(folder))
            self.app.call_from_thread(edit, self.app, draft)

    def action_copy(self) -> None:
        """Copy what is shown of the run: why it ended, with its traceback."""
        if text := self.text():
            self.app.copy_to_clipboard(text)

    def action_copy_path(self) -> None:
        """Copy the path of the run's folder."""
        if (run := self.chosen()) is not None:
            self.app.copy_to_clipboard(os.fspath(self.folder(run)))

    def action_copy_id(self) -> None:
        """Copy the run's id."""
        if (run := self.chosen()) is not None:
            self.app.copy_to_clipboard(run.id)

    def action_copy_command(self) -> None:
        """Copy the command that starts the same run."""
        if (run := self.chosen()) is not None:
            self._copy_command(self.folder(run))

    @work(thread=True, group="copy")
    def _copy_command(self, folder: Path) -> None:
        try:
            text = command_text(draft_of(read_spec(folder)))
        except LauncherError as error:
            self.app.call_from_thread(self.tell, str(error), error=True)
        else:
            self.app.call_from_thread(self.app.copy_to_clipboard, text)

    def action_again(self) -> None:
        """Show what the run under the cursor was, and start it if a person says so."""
        if (run := self.chosen()) is not None:
            self.ask_again(self.folder(run))

    def action_stop(self) -> None:
        """Ask whether to stop the runs that go on."""
        live = [run for run in self.picked() if not run.state.final]
        if not live:
            self.tell("this run has ended")
            return
        self._ask_first("Stop", live, "leave running", self._stop)

    @work(thread=True, group="stop")
    def _stop(self, runs: Sequence[Status]) -> None:
        self._do("stopping", runs, lambda run: self.site.commands.stop(self.folder(run), force=False))

    def action_delete(self) -> None:
        """Ask whether to delete runs that have ended, with all that they left."""
        ended = [run for run in self.picked() if run.state.final]
        if not ended:
            self.tell(f"this run goes on: {keys_of(self, 'history.stop', 'x')} stops it")
            return
        self._ask_first("Delete", ended, "keep", self._delete)

    @work(thread=True, group="delete")
    def _delete(self, runs: Sequence[Status]) -> None:
        self._do("deleted", runs, lambda run: remove_run(self.folder(run)))
        self.app.call_from_thread(self.changed)

    def action_export(self) -> None:
        """Write the run to one file, in the folder in which the console was started."""
        if (run := self.chosen()) is not None:
            self.tell("exporting …")
            self._export(self.folder(run))

    @work(thread=True, group="export")
    def _export(self, folder: Path) -> None:
        from console.exporting import export

        try:
            out = export(folder, self.site.workdir, results=False, logs=True, force=False)
        except LauncherError as error:
            self.app.call_from_thread(self.tell, str(error), error=True)
        else:
            self.app.call_from_thread(self.tell, f"written, without pickles: {out}")

    def action_write_list(self) -> None:
        """Write the runs that are listed to a file for spreadsheets, beside what is exported."""
        if runs := self.shown():
            self._write_list(runs)

    @work(thread=True, group="export")
    def _write_list(self, runs: Sequence[Status]) -> None:
        from console.runs_file import write_runs

        try:
            out = write_runs(runs, self.site.workdir, time.time())
        except LauncherError as error:
            self.app.call_from_thread(self.tell, str(error), error=True)
        else:
            count = f"{len(runs):,} run{'s' * (len(runs) != 1)}"
            self.app.call_from_thread(self.tell, f"written, {count}: {out}")

    def _ask_first(
        self, verb: str, runs: Sequence[Status], otherwise: str, act: Callable[[Sequence[Status]], object]
    ) -> None:
        count = "this run" if len(runs) == 1 else f"{len(runs)} runs"
        them = "it" if len(runs) == 1 else "them"
        lines = [f"{run.id}  {run.name[:40]}  {run.state}" for run in runs[:_NAMED]]
        lines += [f"and {len(runs) - _NAMED} more"] if len(runs) > _NAMED else []
        question = ConfirmScreen(f"{verb} {count}?", lines, verb=verb, otherwise=f"{otherwise} {them}")
        self.app.push_screen(question, partial(self._answered, act, runs))

    def _answered(
        self, act: Callable[[Sequence[Status]], object], runs: Sequence[Status], yes: bool | None
    ) -> None:
        if yes:
            act(runs)
            self.done()

    def _do(self, done: str, runs: Sequence[Status], act: Callable[[Status], None]) -> None:
        """Do something to each run, in a thread, and say how that went."""
        problems = []
        for run in runs:
            try:
                act(run)
            except LauncherError as error:
                problems.append(str(error))
        if len(problems) < len(runs):
            count = len(runs) - len(problems)
            self.app.call_from_thread(self.tell, f"{done} {count} run{'s' * (count != 1)}")
        for problem in problems[:3]:
            self.app.call_from_thread(self.tell, problem, error=True)
