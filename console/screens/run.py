"""The run screen: one run, live or long over, watched through its folder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType

from console.commands import Commands
from console.messages import FeedFailed, RankChosen, RunChanged, RunView
from console.screens.again import StartsAgain
from console.screens.confirm import ConfirmScreen
from console.screens.stacks import StacksScreen
from console.sources.drafts import command_text, draft_of
from console.sources.feed import RunFeed
from console.widgets.charts import Charts
from console.widgets.deck import Deck
from console.widgets.failed_pane import contained
from console.widgets.failure import failure_text
from console.widgets.headline import AlertLine, Headline, PhaseStrip
from console.widgets.identity import RunHeader, ViewSheet, gang
from console.widgets.key_line import KeyLine
from console.widgets.log_pane import LogPane
from console.widgets.log_view import LogView
from console.widgets.rank_detail import RankDetail
from console.widgets.rank_grid import RankGrid
from console.widgets.result_pane import ResultPane, no_result_yet
from launcher.errors import LauncherError
from launcher.runs.reader import read_spec

if TYPE_CHECKING:
    from textual.app import ComposeResult


class RunScreen(StartsAgain):
    """Phases, ranks, one rank in full, output and results of a run."""

    AUTO_FOCUS = "#lines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "app.detach", "Detach", id="run.detach"),
        Binding("x", "end('Stop')", "Stop", id="run.stop"),
        Binding("X", "end('Kill')", "Kill", show=False, id="run.kill"),
        Binding("R", "again", "Run again", id="run.again"),
        Binding("escape", "back", "Back", id="run.back"),
        Binding("r", "toggle_rank", "Rank's log", id="run.rank"),
        Binding(
            "right_square_bracket", "next_rank(1)", "Next rank", key_display="]", show=False, id="run.next"
        ),
        Binding(
            "left_square_bracket",
            "next_rank(-1)",
            "Previous rank",
            key_display="[",
            show=False,
            id="run.prev",
        ),
        Binding("T", "stacks", "Stacks", show=False, id="run.stacks"),
        Binding("z", "zoom", "Zoom", id="run.zoom"),
        Binding("1", "pane('ranks')", "Ranks", show=False, id="run.pane_1"),
        Binding("2", "pane('detail')", "Rank in full", show=False, id="run.pane_2"),
        Binding("3", "pane('logs')", "Logs", show=False, id="run.pane_3"),
        Binding("4", "pane('result')", "Result", show=False, id="run.pane_4"),
        Binding("5", "pane('charts')", "Charts and alerts", show=False, id="run.pane_5"),
        Binding("0", "reset", "Usual layout", show=False, id="run.reset"),
        Binding("y", "copy", "Copy", id="run.copy"),
        Binding("u", "copy_page", "Copy Spark's page", show=False, id="run.page"),
        Binding("slash", "search", "Search", key_display="/", show=False, id="run.search"),
    ]

    def __init__(self, run: Path, commands: Commands, *, rank: int | None = None) -> None:
        super().__init__()
        self.run = run
        self._rank = rank
        self._commands = commands
        self.view: RunView | None = None
        self._was_live = False
        self._failure_shown = -1
        self._feed = RunFeed(run, publish=self._publish, failed=self._tell)

    def compose(self) -> ComposeResult:
        """From what the run is, down to what it says."""
        yield RunHeader(id="header")
        yield PhaseStrip(id="phases")
        yield Headline(id="headline")
        yield AlertLine(id="alerts")
        yield Deck(id="deck")
        yield KeyLine("run.detach", "run.stop", "run.stacks", "run.again", "run.back", "run.copy", "run.rank")

    def on_mount(self) -> None:
        """Begin to watch."""
        with contained(self):
            self.query_one(LogPane).attach(self._feed.book)
        self.query_one(RankGrid).moved = self._show_detail
        self._feed.start()

    def on_unmount(self) -> None:
        """Stop watching; the run goes on."""
        self._feed.close()

    def _publish(self, view: RunView) -> None:
        self.post_message(RunChanged(view))

    def _tell(self, why: str) -> None:
        self.post_message(FeedFailed(why))

    @property
    def live(self) -> bool:
        """Whether the run can still change."""
        return self.view is None or self.view.live

    @property
    def exit_code(self) -> int:
        """The run's own, once it has ended."""
        return (self.view.state.exit_code or 0) if self.view is not None else 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a run that goes on can be stopped; only one that has ended is begun again."""
        if action in ("end", "again"):
            return self.live is (action != "again")
        return super().check_action(action, parameters)

    @on(RunChanged)
    def show(self, message: RunChanged) -> None:
        """Hand the newest view to every pane."""
        view = self.view = message.view
        if not view.live:
            self.refresh_bindings()
        self.query_one(KeyLine).reword(_key_words(view))
        grid = self.query_one(RankGrid)
        for show in (*(sheet.show for sheet in self.query(ViewSheet)), grid.show):
            with contained(self):
                show(view)
        if self._rank is not None and view.ranks:
            grid.move_to(self._rank)
            self._rank = None
        for show in (self.query_one(Charts).show, self.query_one(ResultPane).show):
            with contained(self):
                show(view)
        with contained(self):
            self.query_one(RankDetail).show(view, grid.cursor)
        with contained(self):
            self.query_one(LogPane).show(view.logs, view.size)
        if view.state.first_failure is not None and self._failure_shown < view.state.attempt:
            self._failure_shown = view.state.attempt
            self.query_one(RankGrid).move_to(view.state.first_failure.rank)
        for screen in self.app.screen_stack:
            if isinstance(screen, StacksScreen):
                screen.show(view)
        deck = self.query_one(Deck)
        deck.expect(self.query_one(RankGrid).lines_wanted)
        deck.fold_result(no_result_yet(view))
        if self._was_live and not view.live and view.results and view.state.first_failure is None:
            deck.offer("result")
        self._was_live = view.live

    @on(FeedFailed)
    def tell_failure(self, message: FeedFailed) -> None:
        """Say that the folder cannot be read, where its panes are."""
        self.query_one(LogPane).complain(message.why)

    @on(LogPane.Searched)
    def look_now(self) -> None:
        """Search at once, not at the next look."""
        self._feed.nudge()

    def _show_detail(self, rank: int) -> None:
        """The detail pane goes with the cursor, in the same frame."""
        if self.view is not None:
            self.query_one(RankDetail).show(self.view, rank)

    @on(RankChosen)
    def show_rank(self, message: RankChosen) -> None:
        """Show a rank's log, and the rank in full where there is room beside it."""
        self.query_one(LogPane).select(message.rank)
        self.action_pane("logs")

    def action_toggle_rank(self) -> None:
        """All ranks' output, or that of the rank under the cursor."""
        shown = self.query_one(LogView).rank
        self.query_one(LogPane).select(self.query_one(RankGrid).cursor if shown is None else None)

    def action_next_rank(self, step: int) -> None:
        """Another rank: in the grid, and in the log if that shows one."""
        grid = self.query_one(RankGrid)
        if self.view is None or not self.view.ranks:
            return
        grid.move_to((grid.cursor + step) % len(self.view.ranks))
        if self.query_one(LogView).rank is not None:
            self.query_one(LogPane).select(grid.cursor)

    def action_pane(self, name: str) -> None:
        """Show a pane and go to it."""
        self.query_one(Deck).show(name)
        self.query_one(Deck).focus_pane(name)

    def action_zoom(self) -> None:
        """The pane with the focus alone, or all again."""
        self.query_one(Deck).zoom()

    def action_reset(self) -> None:
        """The layout as it was at first."""
        self.query_one(Deck).reset()

    def action_search(self) -> None:
        """Search in the log, wherever the focus is."""
        self.action_pane("logs")
        self.query_one(LogPane).action_open_search()

    def action_back(self) -> None:
        """Leave this screen, or first what covers part of it."""
        if self.query_one(Deck).zoomed:
            self.action_zoom()
        else:
            self.dismiss()

    def action_copy(self) -> None:
        """Copy why the run failed, or the command that starts it."""
        if self.view is not None and self.view.state.first_failure is not None:
            self.app.copy_to_clipboard(failure_text(self.view))
        else:
            self._copy_command()

    @work(thread=True, group="copy")
    def _copy_command(self) -> None:
        """Beside the screen, for the target's source may be far away."""
        try:
            text = command_text(draft_of(read_spec(self.run)))
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.app.call_from_thread(self.app.copy_to_clipboard, text)

    def action_copy_page(self) -> None:
        """Copy the address of the application's own pages, or its id if it has none."""
        spark = self.view.state.spark if self.view is not None else None
        if spark is None:
            self.notify("there is no Spark application", markup=False)
            return
        self.app.copy_to_clipboard(spark.ui or spark.application)
        self.notify(f"copied {spark.ui or spark.application}", markup=False)

    def action_stacks(self) -> None:
        """Show what every rank is doing: now if the run goes on, else when it was asked last."""
        if self.view is not None:
            self.app.push_screen(StacksScreen(self.view))
            if self.view.live:
                self._take_stacks()

    @work(thread=True, group="stacks")
    def _take_stacks(self) -> None:
        try:
            self._commands.take_stacks(self.run)
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_again(self) -> None:
        """Show what would be started, and start it if a person says so."""
        self.ask_again(self.run)

    def action_end(self, verb: str) -> None:
        """Ask whether to stop the run, or to kill it."""
        if (view := self.view) is None:
            return
        force = verb == "Kill"
        what = "SIGKILL at once" if force else "SIGTERM, and SIGKILL to what is left after the grace period"
        lines = (f"{view.state.name or view.state.id} · {gang(view)}", view.state.target, what)
        question = ConfirmScreen(f"{verb} this run?", lines, verb=verb)
        self.app.push_screen(question, lambda yes: self._answered(yes, force=force))

    def _answered(self, yes: bool | None, *, force: bool) -> None:
        if yes:
            self._stop(force=force)

    @work(thread=True, group="stop")
    def _stop(self, *, force: bool) -> None:
        try:
            self._commands.stop(self.run, force=force)
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify("killing …" if force else "stopping …", markup=False)


def _key_words(view: RunView) -> dict[str, str]:
    """What keys do now: one leaves a run that has ended, and asks for stacks where they tell something."""
    leave = {} if view.live else {"run.detach": "Leave"}
    stands = view.state.stacks or (view.state.near is not None and view.state.near.limit == "progress")
    return {**leave, "run.stacks": "Stacks"} if stands else leave
