"""The history screen: all past and live runs, to find, open, compare, start again, export and delete them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from launcher.errors import LauncherError
from launcher.runs.catalog import read_private, remove_run
from launcher.runs.reader import read_spec
from launcher.runs.status import Status

from ... import formatting as fig
from ...data.filtering import help_line
from ...data.history.columns import ORDERS, run_column
from ...data.history.comparison import MOST_RUNS
from ...data.history.query import fields, parse_run_filter
from ...data.history.run_list import Listing, RunListPoller, RunQuery, RunRecord, RunRecordPoller
from ...data.history.series import Series, SeriesPoller
from ...data.launch.draft import command_text, draft_of, require_editable
from ...settings import current_defaults
from ..dialogs import ConfirmScreen
from ..navigation import Site, edit
from ..rerun import StartsAgain
from ..run.screen import RunScreen
from ..widgets.failed_pane import contained
from ..widgets.fields import FilterField
from ..widgets.key_line import KeyLine, keys_of
from ..widgets.lists import Sorted
from .compare import ComparisonScreen
from .panes import RunCard, RunsList

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NAMED = 8


_KEYS = (
    "list.choose",
    "history.open",
    "history.filter",
    "history.compare",
    "history.again",
    "history.edit",
    "history.delete",
    "history.copy",
    "history.sort",
)
_HELP = help_line(fields(0.0))


class HistoryScreen(StartsAgain):
    """Every run, newest first."""

    TOPIC = "history"
    AUTO_FOCUS = "#runs"
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
        Binding("enter", "open", "Open", id="history.open"),
        Binding("escape", "back", "Back", id="history.back"),
        Binding("slash", "filter", "Filter", key_display="/", id="history.filter"),
        Binding("s,o", "sort", "Sort", id="history.sort"),
        Binding("S,O", "reverse", "Reverse the order", show=False, id="history.reverse"),
        Binding("c", "compare", "Compare", id="history.compare"),
        Binding("1", "pane('#runs')", "Runs", show=False, id="history.pane_1"),
        Binding("2", "pane('#card')", "Run in full", show=False, id="history.pane_2"),
        Binding("q", "app.detach", "Quit", show=False, id="history.quit"),
    ]

    class RecordRead(Message):
        """The record of a run was read from its folder."""

        def __init__(self, record: RunRecord) -> None:
            super().__init__()
            self.record = record

    class SeriesRead(Message):
        """The curves of more runs were read. It replaces an older one."""

        def __init__(self, series: Mapping[str, Series]) -> None:
            super().__init__()
            self.series = series

        def can_replace(self, message: Message) -> bool:
            """Only the newest value needs to be shown: it has all curves."""
            return isinstance(message, type(self))

    class RunsListed(Message):
        """A new list of runs. It replaces an older one that is not yet shown."""

        def __init__(self, listing: Listing) -> None:
            super().__init__()
            self.listing = listing

        def can_replace(self, message: Message) -> bool:
            """Only the newest list needs to be shown."""
            return isinstance(message, type(self))

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        self._question = RunQuery()
        self._listing: Listing | None = None
        self._past = RunListPoller(site.root, self._publish)
        self._records = RunRecordPoller(site.root, self._publish_record)
        self._series = SeriesPoller(site.root, self._publish_series)
        self._pollers = (self._past.poller, self._records.poller, self._series.poller)

    def compose(self) -> ComposeResult:
        """The list, and below it one run in full."""
        yield Static(" history", id="banner", markup=False)
        yield FilterField(placeholder=_HELP)
        yield RunsList(id="runs")
        yield RunCard(id="card")
        yield KeyLine(*_KEYS)

    def on_mount(self) -> None:
        """Start the pollers."""
        with contained(self):
            self.watch(self.query_one(RunsList), "here", self._show_card)
            self.query_one(RunsList).wants = self._series.ask
        with contained(self):
            self.query_one(RunsList).show((), empty="reading …")
        with contained(self):
            self._entitle()
        for poller in self._pollers:
            poller.start()

    def on_unmount(self) -> None:
        """Stop the pollers."""
        for poller in self._pollers:
            poller.close()

    def on_screen_suspend(self) -> None:
        """Pause the pollers while another screen is shown."""
        for poller in self._pollers:
            poller.rest()

    def on_screen_resume(self) -> None:
        """Resume the pollers."""
        for poller in self._pollers:
            poller.resume()

    def _publish(self, listing: Listing) -> None:
        self.post_message(self.RunsListed(listing))

    def _publish_record(self, record: RunRecord) -> None:
        self.post_message(self.RecordRead(record))

    def _publish_series(self, series: Mapping[str, Series]) -> None:
        self.post_message(self.SeriesRead(series))

    @on(SeriesRead)
    def _show_series(self, message: SeriesRead) -> None:
        self.query_one(RunsList).add_series(message.series)

    @on(RunsListed)
    def _show(self, message: RunsListed) -> None:
        listing = self._listing = message.listing
        empty = listing.problem or (self._no_match_text() if listing.total else self._no_runs_text())
        with contained(self):
            self.query_one(RunsList).show(listing.runs, empty=empty, differences=listing.differences)
        self._entitle()

    def _show_card(self, run: Status | None) -> None:
        near = [other.id for other in self.query_one(RunsList).around()]
        record = self._records.ask("" if run is None else run.id, near)
        self.query_one(RunCard).show(run, record)

    @on(RecordRead)
    def _show_record(self, message: RecordRead) -> None:
        self.query_one(RunCard).add_record(message.record)

    def _entitle(self, problem: str = "") -> None:
        listing, question = self._listing or Listing(), self._question
        count = f"{fig.number(listing.total, 'run')}"
        shown = f" · {len(listing.runs):,} shown" if question.filter.text else ""
        runs = self.query_one(RunsList)
        column = run_column(question.order)
        runs.sorted_by = Sorted(column.name, rises=column.rising is not question.reverse)
        runs.refresh_rows()
        order = f"sorted by {column.name} {runs.sorted_by.arrow}"
        below = problem or (f"filter: {question.filter.text}" if question.filter.text else "")
        runs.entitle(f"1 Runs · {count}{shown} · {order}", below)

    def _no_runs_text(self) -> str:
        launch = keys_of(self, "go.launch", "f4")
        return f"no run yet: {launch} goes to the form, `rankdeck run TARGET` starts one from a shell"

    def _no_match_text(self) -> str:
        change, back = keys_of(self, "history.filter", "/"), keys_of(self, "history.back", "esc")
        return f"no run matches: {change} changes the filter, {back} removes it"

    # --- finding -------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Open the field for the filter."""
        self.query_one(FilterField).open()

    @on(FilterField.Changed)
    def _narrow(self, message: FilterField.Changed) -> None:
        try:
            self._ask(replace(self._question, filter=parse_run_filter(message.value, time.time())))
        except LauncherError as error:
            self._entitle(str(error))

    @on(FilterField.Submitted)
    def _narrowed(self) -> None:
        self.action_pane("#runs")

    def action_sort(self) -> None:
        """Sort by the next column."""
        order = self._question.order
        at = ORDERS.index(order) if order in ORDERS else -1
        self._ask(replace(self._question, order=ORDERS[(at + 1) % len(ORDERS)], reverse=False))

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._ask(replace(self._question, reverse=not self._question.reverse))

    @on(RunsList.SortAsked)
    def _sort_by(self, message: RunsList.SortAsked) -> None:
        if message.name == self._question.order:
            self.action_reverse()
        elif message.name:
            self._ask(replace(self._question, order=message.name, reverse=False))

    def _ask(self, question: RunQuery) -> None:
        self._question = question
        self._past.ask(question)
        self._entitle()

    def action_pane(self, pane: str) -> None:
        """Go to a pane."""
        self.query_one(pane).focus()

    def action_back(self) -> None:
        """Remove the filter, else the marks, else leave."""
        runs = self.query_one(RunsList)
        if self.query_one(FilterField).close():
            runs.focus()
        elif runs.marked:
            runs.unmark()
        else:
            self.dismiss()

    # --- acting on runs ------------------------------------------------------------------------------

    def chosen(self) -> Status | None:
        """The run under the cursor."""
        return self.query_one(RunsList).chosen

    def picked(self) -> list[Status]:
        """The marked runs, or the one under the cursor."""
        runs, here = self.query_one(RunsList), self.chosen()
        marked = [run for run in runs.items if run.id in runs.marked]
        return marked or ([] if here is None else [here])

    def reread(self) -> None:
        """Read the list again, after folders were deleted."""
        self._past.reread()

    def text(self) -> str:
        """The card of the run under the cursor."""
        return self.query_one(RunCard).text

    def shown(self) -> Sequence[Status]:
        """The listed runs, in their order."""
        return self.query_one(RunsList).items

    @on(RunsList.Chosen, "#runs")
    def action_open(self) -> None:
        """Open the run under the cursor."""
        if (run := self.chosen()) is not None:
            self.app.push_screen(RunScreen(self.folder(run), self.site.commands))

    def action_compare(self) -> None:
        """Compare the marked runs, or a marked one with the one under the cursor; else mark this one."""
        runs, here = self.query_one(RunsList), self.chosen()
        if here is None:
            return
        some = list(runs.marked)
        if len(some) < 2 and here.id not in some:
            some.append(here.id)
        if len(some) > MOST_RUNS:
            back = keys_of(self, "history.back", "esc")
            self.report(f"at most {MOST_RUNS} runs are compared: {back} removes the marks", error=True)
        elif len(some) > 1:
            self.app.clear_notifications()  # the hint below would cover the comparison
            self.app.push_screen(ComparisonScreen([self.site.root / run for run in some]))
        else:
            runs.marked.setdefault(here.id)
            runs.refresh_rows()
            compare = keys_of(self, "history.compare", "c")
            self.report(f"marked · {compare} on another run compares the two")

    def folder(self, run: Status) -> Path:
        """The folder of a run."""
        return self.site.root / run.id

    def report(self, text: str, *, error: bool = False) -> None:
        """Notify the user of a text, which may come from a run."""
        self.notify(text, severity="error" if error else "information", markup=False)

    def action_edit(self) -> None:
        """Fill in the launch form from the run."""
        if (run := self.chosen()) is not None:
            self._edit(self.folder(run))

    @work(thread=True, group="edit")
    def _edit(self, folder: Path) -> None:
        """In a thread, because the target's source may be on a slow file system."""
        try:
            spec = read_spec(folder)
            require_editable(spec)
        except LauncherError as error:
            self.app.call_from_thread(self.report, str(error), error=True)
        else:
            draft = draft_of(spec, self.site.workdir, read_private(folder))
            self.app.call_from_thread(edit, self.app, draft)

    def action_copy(self) -> None:
        """Copy the text of the run's card, with the reason for its end and its traceback."""
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
            text = command_text(draft_of(read_spec(folder)), current_defaults())
        except LauncherError as error:
            self.app.call_from_thread(self.report, str(error), error=True)
        else:
            self.app.call_from_thread(self.app.copy_to_clipboard, text)

    def action_again(self) -> None:
        """Show what the run under the cursor was, and start it again if a person confirms."""
        if (run := self.chosen()) is not None:
            self.ask_again(self.folder(run))

    def action_stop(self) -> None:
        """Ask whether to stop the live runs among those picked."""
        live = [run for run in self.picked() if not run.state.final]
        if not live:
            self.report("this run has ended")
            return
        self._ask_first("Stop", live, "leave running", self._stop)

    @work(thread=True, group="stop")
    def _stop(self, runs: Sequence[Status]) -> None:
        self._do("stopping", runs, lambda run: self.site.commands.stop(self.folder(run), force=False))

    def action_delete(self) -> None:
        """Ask whether to delete the ended runs among those picked, with their folders."""
        ended = [run for run in self.picked() if run.state.final]
        if not ended:
            self.report(f"this run is still running: {keys_of(self, 'history.stop', 'x')} stops it")
            return
        self._ask_first("Delete", ended, "keep", self._delete)

    @work(thread=True, group="delete")
    def _delete(self, runs: Sequence[Status]) -> None:
        self._do("deleted", runs, lambda run: remove_run(self.folder(run)))
        self.app.call_from_thread(self.reread)

    def action_export(self) -> None:
        """Write the run to a file in the folder in which the console was started."""
        if (run := self.chosen()) is not None:
            self.report("exporting …")
            self._export(self.folder(run))

    @work(thread=True, group="export")
    def _export(self, folder: Path) -> None:
        from ...export.archive import export

        try:
            out = export(folder, self.site.workdir, results=False, logs=True, force=False)
        except LauncherError as error:
            self.app.call_from_thread(self.report, str(error), error=True)
        else:
            self.app.call_from_thread(self.report, f"written, without pickles: {out}")

    def action_write_list(self) -> None:
        """Write the listed runs to a CSV file in the same folder."""
        if runs := self.shown():
            self._write_list(runs)

    @work(thread=True, group="export")
    def _write_list(self, runs: Sequence[Status]) -> None:
        from ...export.runs_csv import write_runs

        try:
            out = write_runs(runs, self.site.workdir, time.time())
        except LauncherError as error:
            self.app.call_from_thread(self.report, str(error), error=True)
        else:
            count = f"{fig.number(len(runs), 'run')}"
            self.app.call_from_thread(self.report, f"written, {count}: {out}")

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
            self.query_one(RunsList).unmark()

    def _do(self, done: str, runs: Sequence[Status], act: Callable[[Status], None]) -> None:
        """Apply `act` to each run, from a thread, and notify the user of the outcome."""
        problems = []
        for run in runs:
            try:
                act(run)
            except LauncherError as error:
                problems.append(str(error))
        if len(problems) < len(runs):
            count = len(runs) - len(problems)
            self.app.call_from_thread(self.report, f"{done} {fig.number(count, 'run')}")
        for problem in problems[:3]:
            self.app.call_from_thread(self.report, problem, error=True)
