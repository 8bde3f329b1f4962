"""The run screen: one run, live or ended, read from its folder."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, cast

from textual import on, work
from textual.binding import Binding, BindingType

from launcher.errors import LauncherError
from launcher.runs.reader import read_spec

from ...attention import TerminalTitle
from ...commands import Commands
from ...data.code.source import Spot
from ...data.launch.draft import command_text, draft_of
from ...data.ranks.listing import RankLister, RankQuery
from ...data.run.feed import RunFeed
from ...data.run.model import RunView
from ...data.run.notices import NewNotices, title_of
from ...data.run.trackers import pages
from ...settings import current_defaults
from ..curves.screen import CurvesScreen
from ..curves.sheet import CurveSheet
from ..dialogs import ConfirmScreen
from ..logs.pane import LogPane
from ..logs.view import LogView
from ..travel.screen import TRAVEL_BINDINGS, TRAVEL_KEYS, TravelScreen
from ..travel.timeline import Timeline
from ..widgets.failed_pane import contained
from ..widgets.key_line import KeyLine
from .code_at_hand import copy_named, edit
from .deck import Deck
from .devices.pane import DevicesPane
from .failure import failure_text
from .frames import FrameSheet
from .header import AlertLine, Headline, PhaseStrip, RunHeader, gang
from .messages import FeedFailed, RankChosen, RunChanged
from .rank_detail import RankDetail
from .rank_grid import RankGrid
from .result import failing_spot, no_result_yet
from .stacks import StacksScreen
from .view_sheet import ViewSheet

if TYPE_CHECKING:
    from textual.app import ComposeResult


class _Calls(Protocol):
    """What this screen needs of the app to reach the terminal."""

    @property
    def terminal_title(self) -> TerminalTitle: ...

    def write_terminal(self, sequence: str) -> None: ...

    def call_person(self, kind: str, text: str) -> None: ...


class RunScreen(TravelScreen):
    """Phases, ranks, one rank in full, output and results of a run."""

    AUTO_FOCUS = "#lines"
    TOPIC = "runs"
    BINDINGS: ClassVar[list[BindingType]] = [
        *TRAVEL_BINDINGS,
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
        Binding("c", "curves", "Curves", id="run.curves"),
        Binding("T", "stacks", "Stacks", show=False, id="run.stacks"),
        Binding("z", "zoom", "Zoom", id="run.zoom"),
        Binding("1", "pane('ranks')", "Ranks", show=False, id="run.pane_1"),
        Binding("2", "pane('detail')", "Rank in full", show=False, id="run.pane_2"),
        Binding("3", "pane('logs')", "Logs", show=False, id="run.pane_3"),
        Binding("4", "pane('result')", "Result", show=False, id="run.pane_4"),
        Binding("5", "pane('charts')", "Curves and alerts", show=False, id="run.pane_5"),
        Binding("6", "pane('devices')", "Devices", show=False, id="run.pane_6"),
        Binding("0", "reset", "Usual layout", show=False, id="run.reset"),
        Binding("y", "copy", "Copy", id="run.copy"),
        Binding("e", "edit", "Open the code in the editor", show=False, id="run.edit"),
        Binding("u", "copy_page", "Copy the run's page", show=False, id="run.page"),
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
        self._notices = NewNotices()
        self._lister = RankLister()
        self._feed = RunFeed(run, publish=self._publish, failed=self._publish_failure)

    def compose(self) -> ComposeResult:
        """The run and its state at the top, its panes below."""
        yield RunHeader(id="header")
        yield Timeline(id="timeline")
        yield PhaseStrip(id="phases")
        yield Headline(id="headline")
        yield AlertLine(id="alerts")
        yield Deck(id="deck")
        keys = ("detach", "stop", "stacks", "edit", "again", "back", "copy", "rank", "travel")
        yield KeyLine(*TRAVEL_KEYS, *(f"run.{key}" for key in keys))

    def on_mount(self) -> None:
        """Begin to watch."""
        with contained(self):
            self.query_one(LogPane).attach(self._feed.book)
        grid = self.query_one(RankGrid)
        grid.moved, grid.asks = self._show_detail, self._list_ranks
        self.query_one(DevicesPane).moved = grid.move_to
        self._feed.poller.start()

    def _list_ranks(self, query: RankQuery) -> None:
        """Have the ranks listed in the feed's thread: those of a large gang take long to sort."""
        self._feed.list_ranks(partial(self._lister.arrange, query=query))
        self.list_past(partial(RankLister().arrange, query=query))

    def on_unmount(self) -> None:
        """Stop watching; the run goes on."""
        self._feed.close()
        if not any(isinstance(screen, RunScreen) for screen in self.app.screen_stack if screen is not self):
            app = cast("_Calls", self.app)
            app.terminal_title.restore(app.write_terminal)

    def _publish(self, view: RunView) -> None:
        self.post_message(RunChanged(view))

    def _publish_failure(self, why: str) -> None:
        self.post_message(FeedFailed(why))

    @property
    def live(self) -> bool:
        """Whether the run can still change."""
        return self.now is None or self.now.live

    @property
    def exit_code(self) -> int:
        """The run's exit code; 0 while it has none."""
        return (self.now.state.exit_code or 0) if self.now is not None else 0

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a live run can be stopped; only an ended run can be started again."""
        if action in ("end", "again"):
            return self.live is (action != "again")
        return super().check_action(action, parameters)

    @on(RunChanged)
    def show(self, message: RunChanged) -> None:
        """Show the newest view, unless an earlier moment is shown."""
        last = self.now
        self.note_now(message.view)
        if last is None or replace(message.view, logs=last.logs) != last:
            self._tell(message.view)
        if not self.travelling:
            self.show_view(message.view)

    def show_view(self, view: RunView) -> None:
        """Show a view in every pane; in the log alone, if nothing else differs."""
        last = self.view
        self.view = view
        with contained(self):
            self.query_one(LogPane).show(view.logs, view.size)
        if last is None or replace(view, logs=last.logs) != last:
            self._show_all(view)

    def reword_keys(self, view: RunView) -> None:
        """Name in the key line what keys do now."""
        self.query_one(KeyLine).reword({**_key_words(self.now or view), **self.travel_words()})

    def _tell(self, view: RunView) -> None:
        """Tell the terminal what a person who looks elsewhere should know."""
        app = cast("_Calls", self.app)
        app.terminal_title.show(title_of(view), app.write_terminal)
        for notice in self._notices.of(view):
            app.call_person(notice.kind, notice.text)

    def _show_all(self, view: RunView) -> None:
        if not view.live:
            self.refresh_bindings()
        self.reword_keys(view)
        grid = self.query_one(RankGrid)
        for show in (*(sheet.show for sheet in self.query(ViewSheet)), grid.show):
            with contained(self):
                show(view)
        if self._rank is not None and view.ranks:
            with contained(self):
                grid.move_to(self._rank)
            self._rank = None
        with contained(self):
            self.query_one(RankDetail).show(view, grid.cursor)
        if view.state.first_failure is not None and self._failure_shown < view.state.attempt:
            self._failure_shown = view.state.attempt
            with contained(self):
                grid.move_to(view.state.first_failure.rank)
        for screen in self.app.screen_stack:
            with contained(self):
                if isinstance(screen, StacksScreen):
                    screen.show(view)
                elif isinstance(screen, CurvesScreen):
                    screen.show(view.curves)
        deck = self.query_one(Deck)
        deck.expect(self.query_one(RankGrid).lines_wanted)
        deck.put_beside("charts" if view.curves.names else "detail")
        deck.fold_result(no_result_yet(view))
        if self._was_live and not view.live and view.results and view.state.first_failure is None:
            deck.offer("result")
        self._was_live = view.live

    @on(FeedFailed)
    def show_failure(self, message: FeedFailed) -> None:
        """Show in the log pane that the folder cannot be read."""
        self.query_one(LogPane).complain(message.why)

    @on(LogPane.Searched)
    def poll_now(self) -> None:
        """Search at once, not at the next poll."""
        self._feed.poller.nudge()

    def _show_detail(self, rank: int) -> None:
        """Show the rank under the cursor in the detail pane, in the same frame as the cursor."""
        if self.view is not None:
            with contained(self):
                self.query_one(RankDetail).show(self.view, rank)
            self.query_one(DevicesPane).point_at(rank)

    @on(RankChosen)
    def show_rank(self, message: RankChosen) -> None:
        """Show a rank's log."""
        self.query_one(LogPane).select(message.rank)
        self.action_pane("logs")

    def go_to_rank(self, rank: int) -> None:
        """Go to a rank in the grid, and in the log if it shows a single rank."""
        grid = self.query_one(RankGrid)
        grid.move_to(rank)
        if self.query_one(LogView).rank is not None:
            self.query_one(LogPane).select(grid.cursor)
        self.action_pane("ranks")

    def action_toggle_rank(self) -> None:
        """Switch between all ranks' output and that of the rank under the cursor."""
        shown = self.query_one(LogView).rank
        self.query_one(LogPane).select(self.query_one(RankGrid).cursor if shown is None else None)

    def action_next_rank(self, step: int) -> None:
        """Go to another rank in the grid, and in the log if it shows a single rank."""
        grid = self.query_one(RankGrid)
        if self.view is None or not self.view.ranks:
            return
        grid.move_to(grid.beside(step))
        if self.query_one(LogView).rank is not None:
            self.query_one(LogPane).select(grid.cursor)

    def action_pane(self, name: str) -> None:
        """Show a pane and go to it."""
        self.query_one(Deck).show(name)
        self.query_one(Deck).focus_pane(name)

    def action_zoom(self) -> None:
        """Show the focused pane alone, or all panes again."""
        self.query_one(Deck).zoom()

    def action_reset(self) -> None:
        """Restore the initial layout."""
        self.query_one(Deck).reset()

    def action_search(self) -> None:
        """Search in the log, wherever the focus is."""
        self.action_pane("logs")
        self.query_one(LogPane).action_open_search()

    def action_back(self) -> None:
        """End the zoom, else leave this screen."""
        if self.query_one(Deck).zoomed:
            self.action_zoom()
        else:
            self.dismiss()

    def action_copy(self) -> None:
        """Copy why the run failed, or the command that starts it."""
        if self.view is not None and self.view.state.first_failure is not None:
            copy_named(self.app, failure_text(self.view), "the failure")
        else:
            self._copy_command()

    @work(thread=True, group="copy")
    def _copy_command(self) -> None:
        """In a thread, because the target's source may be on a slow file system."""
        try:
            text = command_text(draft_of(read_spec(self.run)), current_defaults())
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.app.call_from_thread(self.app.copy_to_clipboard, text)

    def action_copy_page(self) -> None:
        """Copy the address of the run's page in Spark or a tracker; pressed again, that of the next one."""
        found = pages(self.view.state) if self.view is not None else []
        if not found:
            self.notify("neither Spark nor a tracker has a page of this run", markup=False)
            return
        last = self.app.clipboard
        page = found[(found.index(last) + 1) % len(found)] if last in found else found[0]
        self.app.copy_to_clipboard(page)
        self.notify(f"copied {page}", markup=False)

    @on(CurveSheet.Opened)
    def show_curves(self, message: CurveSheet.Opened) -> None:
        """Show a metric's curve in full."""
        self._open_curves(message.metric)

    def action_curves(self) -> None:
        """Show the curves in full."""
        self._open_curves(None)

    def _open_curves(self, metric: str | None) -> None:
        if (view := self.view) is not None:
            label = view.state.name or view.state.id
            self.app.push_screen(CurvesScreen(self.run, label, view.curves, metric))

    def action_stacks(self) -> None:
        """Show what every rank is doing: now if the run is live, else when stacks were taken last."""
        if self.view is not None:
            self.app.push_screen(StacksScreen(self.view, self.run))
            if self.live and not self.travelling:
                self._take_stacks()

    @work(thread=True, group="stacks")
    def _take_stacks(self) -> None:
        try:
            self._commands.take_stacks(self.run)
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)

    def action_edit(self) -> None:
        """Open the selected frame, else the line that the log names, else where the first failure was."""
        edit(self, self.run, self._spot())

    def _spot(self) -> Spot | None:
        focused = self.focused
        if isinstance(focused, FrameSheet) and focused.spot is not None:
            return focused.spot
        if isinstance(focused, LogView) and (found := focused.spot) is not None:
            return found
        failing = failing_spot(self.view) if self.view is not None else None
        return Spot(*failing) if failing is not None else None

    def action_again(self) -> None:
        """Show what would be started, and start it if a person confirms."""
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
    """What keys do now, where it differs: leave an ended run; take stacks of a run without progress."""
    leave = {} if view.live else {"run.detach": "Leave"}
    stalled = view.state.last_stacks or (view.state.near is not None and view.state.near.limit == "progress")
    stacks = {"run.stacks": "Stacks"} if stalled else {}
    return {**leave, **stacks, **({"run.edit": "Edit"} if failing_spot(view) is not None else {})}
