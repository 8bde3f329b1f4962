"""The history screen: every run there has been, found, opened, compared, started again, cleared away."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Static

from console.screens.comparison import ComparisonScreen
from console.screens.place import Site
from console.screens.run import RunScreen
from console.screens.run_acts import RunActs
from console.sources.past_runs import Listing, PastRuns, Question
from console.sources.records import Record, Records
from console.sources.wanted import ORDERS, parse
from console.widgets.failed_pane import contained
from console.widgets.filter_field import FilterField
from console.widgets.hints import keys_of
from console.widgets.key_line import KeyLine
from console.widgets.run_card import RunCard
from console.widgets.runs_list import RunsList
from launcher.errors import LauncherError
from launcher.runs.status import Status

if TYPE_CHECKING:
    from textual.app import ComposeResult

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
_HELP = "words, state:failed, state:live, name:, target:, user:, mode:, since:2d; ! before one inverts it"


class HistoryScreen(RunActs):
    """Every run, newest first."""

    AUTO_FOCUS = "#runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "Open", id="history.open"),
        Binding("escape", "back", "Back", id="history.back"),
        Binding("slash", "filter", "Filter", key_display="/", id="history.filter"),
        Binding("s", "sort", "Sort", id="history.sort"),
        Binding("S", "reverse", "Reverse the order", show=False, id="history.reverse"),
        Binding("c", "compare", "Compare", id="history.compare"),
        Binding("1", "pane('#runs')", "Runs", show=False, id="history.pane_1"),
        Binding("2", "pane('#card')", "Run in full", show=False, id="history.pane_2"),
        Binding("q", "app.detach", "Quit", show=False, id="history.quit"),
    ]

    class Read(Message):
        """What the folder of a run tells."""

        def __init__(self, record: Record) -> None:
            super().__init__()
            self.record = record

    class Listed(Message):
        """The runs there are. A newer list replaces one not yet shown."""

        def __init__(self, listing: Listing) -> None:
            super().__init__()
            self.listing = listing

        def can_replace(self, message: Message) -> bool:
            """Only the newest is worth showing."""
            return isinstance(message, type(self))

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._question = Question()
        self._listing: Listing | None = None
        self._past = PastRuns(site.root, self._publish)
        self._records = Records(site.root, self._publish_record)
        self._watches = (self._past.watch, self._records.watch)

    def compose(self) -> ComposeResult:
        """The list, and one run in full below it."""
        yield Static(" history", id="banner", markup=False)
        yield FilterField(placeholder=_HELP)
        yield RunsList(id="runs")
        yield RunCard(id="card")
        yield KeyLine(*_KEYS)

    def on_mount(self) -> None:
        """Begin to look."""
        with contained(self):
            self.watch(self.query_one(RunsList), "here", self._show_card)
        self.query_one(RunsList).show((), empty="reading …")
        self._entitle()
        for watch in self._watches:
            watch.start()

    def on_unmount(self) -> None:
        """Look no more."""
        for watch in self._watches:
            watch.close()

    def on_screen_suspend(self) -> None:
        """Rest while another screen is shown."""
        for watch in self._watches:
            watch.rest()

    def on_screen_resume(self) -> None:
        """Runs may have come and gone meanwhile."""
        for watch in self._watches:
            watch.resume()

    def _publish(self, listing: Listing) -> None:
        self.post_message(self.Listed(listing))

    def _publish_record(self, record: Record) -> None:
        self.post_message(self.Read(record))

    @on(Listed)
    def _show(self, message: Listed) -> None:
        listing = self._listing = message.listing
        empty = listing.problem or (self._no_such() if listing.total else self._none_yet())
        self.query_one(RunsList).show(listing.runs, empty=empty)
        self._entitle()

    def _show_card(self, run: Status | None) -> None:
        near = [other.id for other in self.query_one(RunsList).around()]
        record = self._records.ask("" if run is None else run.id, near)
        self.query_one(RunCard).show(run, record)

    @on(Read)
    def _show_record(self, message: Read) -> None:
        self.query_one(RunCard).tell(message.record)

    def _entitle(self, problem: str = "") -> None:
        listing, question = self._listing or Listing(), self._question
        count = f"{listing.total:,} run{'s' * (listing.total != 1)}"
        shown = f" · {len(listing.runs):,} shown" if question.wanted.text else ""
        order = f"sorted by {question.order}{', reversed' * question.reverse}"
        below = problem or (f"filter: {question.wanted.text}" if question.wanted.text else "")
        self.query_one(RunsList).entitle(f"1 Runs · {count}{shown} · {order}", below)

    def _none_yet(self) -> str:
        launch = keys_of(self, "go.launch", "f4")
        return f"no run yet: {launch} goes to the form, `rankdeck run TARGET` starts one from a shell"

    def _no_such(self) -> str:
        change, back = keys_of(self, "history.filter", "/"), keys_of(self, "history.back", "esc")
        return f"no run is like that: {change} changes the filter, {back} takes it away"

    # --- finding -------------------------------------------------------------------------------------

    def action_filter(self) -> None:
        """Type what is to be shown."""
        self.query_one(FilterField).open()

    @on(FilterField.Changed)
    def _narrow(self, message: FilterField.Changed) -> None:
        try:
            self._ask(replace(self._question, wanted=parse(message.value, time.time())))
        except LauncherError as error:
            self._entitle(str(error))

    @on(FilterField.Submitted)
    def _narrowed(self) -> None:
        self.action_pane("#runs")

    def action_sort(self) -> None:
        """Sort by something else."""
        names = list(ORDERS)
        following = names[(names.index(self._question.order) + 1) % len(names)]
        self._ask(replace(self._question, order=following, reverse=False))

    def action_reverse(self) -> None:
        """The other way round."""
        self._ask(replace(self._question, reverse=not self._question.reverse))

    def _ask(self, question: Question) -> None:
        self._question = question
        self._past.ask(question)
        self._entitle()

    def action_pane(self, pane: str) -> None:
        """Go to a pane."""
        self.query_one(pane).focus()

    def action_back(self) -> None:
        """Take away the filter, then the marks; then leave."""
        runs = self.query_one(RunsList)
        if self.query_one(FilterField).close():
            runs.focus()
        elif runs.marked:
            runs.unmark()
        else:
            self.dismiss()

    # --- what acts are about -------------------------------------------------------------------------

    def chosen(self) -> Status | None:
        """The run under the cursor."""
        return self.query_one(RunsList).chosen

    def picked(self) -> list[Status]:
        """The marked runs, or the one under the cursor."""
        runs, here = self.query_one(RunsList), self.chosen()
        marked = [run for run in runs.runs if run.id in runs.marked]
        return marked or ([] if here is None else [here])

    def done(self) -> None:
        """Marks have served."""
        self.query_one(RunsList).unmark()

    def changed(self) -> None:
        """Folders have gone."""
        self._past.reread()

    def text(self) -> str:
        """The card of the run under the cursor."""
        return self.query_one(RunCard).text

    def shown(self) -> Sequence[Status]:
        """The runs that are listed, in their order."""
        return self.query_one(RunsList).runs

    @on(RunsList.Chosen, "#runs")
    def action_open(self) -> None:
        """Open the run under the cursor, live or as it was."""
        if (run := self.chosen()) is not None:
            self.app.push_screen(RunScreen(self.folder(run), self.site.commands))

    def action_compare(self) -> None:
        """Compare the marked run with this one, or the two that are marked; else mark this one."""
        runs, here = self.query_one(RunsList), self.chosen()
        if here is None:
            return
        pair = list(runs.marked)
        if len(pair) < 2 and here.id not in pair:
            pair.append(here.id)
        if len(pair) == 2:
            left, right = (self.site.root / run for run in pair)
            self.app.clear_notifications()  # what said how to get there would cover it
            self.app.push_screen(ComparisonScreen(left, right))
        elif len(pair) > 2:
            back = keys_of(self, "history.back", "esc")
            self.tell(f"two runs are compared, and more are marked: {back} takes the marks away", error=True)
        else:
            runs.marked.setdefault(here.id)
            runs.refresh_rows()
            compare = keys_of(self, "history.compare", "c")
            self.tell(f"marked · {compare} on another run compares the two")
