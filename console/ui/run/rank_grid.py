"""The grid of ranks: where each runs and its condition, with a cursor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from launcher.errors import SpecError

from ...data.filtering import Filter
from ...data.ranks.columns import (
    CHART,
    RANK,
    RankColumn,
    chosen_columns,
    column_of,
    metric_column,
    severity,
    usual_columns,
)
from ...data.ranks.filter import parse_rank_filter
from ...data.ranks.listing import WORST, RankLister, RankQuery, worst_column
from ...data.run.health import Condition
from ...data.run.metrics import TABLE, Metric
from ...data.run.model import RankListing, RankView, RunView
from ...formatting import count, shorten
from ...sanitize import printable
from ..widgets.key_line import keys_of
from ..widgets.lists import NUMBERED, Sorted
from ..widgets.rows import Row, ScrollingSheet
from .messages import RankChosen
from .rank_cells import GLYPHS, TABLE_RANKS, CompactRows, compact_lines, unplaced_row
from .rank_table import HostLine, Line, RankTable, table_lines

if TYPE_CHECKING:
    from textual import events

_PAGE, _A_LINE, _FILTER = 8, 32, 60


class RankGrid(ScrollingSheet):
    """The ranks of a run that pass a filter, in the order of a column. Up to 64 as a table, more as cells."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Next rank", show=False, id="ranks.down"),
        Binding("k,up", "move(-1)", "Previous rank", show=False, id="ranks.up"),
        Binding("l,right", "sidestep(1)", "Right", show=False, id="ranks.right"),
        Binding("h,left", "sidestep(-1)", "Left", show=False, id="ranks.left"),
        Binding("ctrl+d,pagedown,space", "page(1)", "Page down", show=False, id="ranks.page_down"),
        Binding("ctrl+u,pageup,b", "page(-1)", "Page up", show=False, id="ranks.page_up"),
        Binding("g,home", "first", "First rank", show=False, id="ranks.first"),
        Binding("G,end", "last", "Last rank", show=False, id="ranks.last"),
        Binding("enter", "choose", "Rank's log", show=False, id="ranks.choose"),
        Binding("w", "worst", "Worst rank", show=False, id="ranks.worst"),
        Binding("m", "metric", "Metric", id="ranks.metric"),
        Binding("s", "worst_first", "Worst first", show=False, id="ranks.sort"),
        Binding("o", "sort", "Sort", id="ranks.order"),
        Binding("O", "reverse", "Reverse the order", show=False, id="ranks.reverse"),
        Binding("f", "filter", "Filter", id="ranks.filter"),
        Binding("escape", "clear", "All ranks", show=False, id="ranks.clear"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None
        self.cursor = 0
        self.moved: Callable[[int], None] = lambda _: None
        self.asks: Callable[[RankQuery], None] = lambda _: None
        self.opens_filter: Callable[[], None] = lambda: None
        self.cleared: Callable[[], object] = lambda: None
        self.asked = RankQuery()
        self._typed, self._problem = "", ""
        self._typing = False
        self._names: frozenset[str] = frozenset()
        self._lister, self._listing = RankLister(), RankListing(self.asked)
        self._metric: Metric | None = None
        self._table, self._cells = RankTable(), CompactRows()
        self._listed: list[Line] = []
        self._lines: list[tuple[str, list[RankView]]] | None = None
        self._starts = [0]  # the position in the order of each line's first rank

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        self.view = view
        if self._typed and view.reported != self._names:
            self._parse(view.reported)
        self._arrange()

    @property
    def metric(self) -> Metric:
        """The metric that is charted: the one that a person chose, else the first one for these ranks."""
        return self._metric or TABLE.first(devices=self._devices)

    @property
    def _devices(self) -> bool:
        return self.view is None or self.view.has_devices

    @property
    def worst_first(self) -> bool:
        """Whether the worst ranks come first."""
        return self.asked.column is not None and self.asked.column.name == WORST

    def _ask(self, query: RankQuery) -> None:
        """List the ranks like this, now and in the views to come."""
        self.asked = query
        self.asks(query)
        self._arrange()
        self._reveal(self.cursor)

    def _arrange(self) -> None:
        view, before = self.view, self._listing
        if view is None:
            return
        made = view.listing
        if made is None or made.query is not self.asked:  # the feed has yet to hear of it
            made = self._lister.arrange(view.ranks, query=self.asked, now=view.now, live=view.live)
        self._listing, self._lines = made, None
        self._listed = table_lines(self._order, by_host=self.asked.by_number) if self.is_table else []
        self.fixed = 1 if self._listed else 0
        here = made.place(self.cursor)
        moved = here is not None and here != before.place(self.cursor)
        if here is None and self._order:
            self._go(before.place(self.cursor) or 0)
        self.refresh_rows()
        if moved:
            self._reveal(self.cursor)
        self.entitle(*self._titles(view))

    @property
    def _order(self) -> Sequence[RankView]:
        return self._listing.ranks

    @property
    def is_table(self) -> bool:
        """Whether every rank has a line of its own."""
        return self.view is None or len(self._order) <= TABLE_RANKS

    @property
    def lines_wanted(self) -> int:
        """How many lines show all ranks; for many ranks, enough lines to navigate."""
        if (view := self.view) is None:
            return 1
        # a gang that is restarted has the same size
        ranks = len(view.ranks) or (view.size if view.state.attempt else 0)
        return max(ranks // _A_LINE, _PAGE) if ranks > TABLE_RANKS else 1 + max(ranks, len(self._listed))

    def rows(self, width: int) -> Sequence[Row]:
        """The ranks as table or cells; a note before they have places."""
        if self.view is None or not self.view.ranks:
            return [unplaced_row(self.view)]
        if not self._order:
            change, back = keys_of(self, "ranks.filter", "f"), keys_of(self, "ranks.clear", "esc")
            return [((f" no rank matches: {change} changes the filter, {back} removes it", "muted"),)]
        metric, hosts = self.metric, self.view.state.hosts if self.view.live else {}
        if self.is_table:
            return self._table.rows(
                self._listed,
                width,
                cursor=self.cursor,
                devices=self.view.has_devices,
                metric=metric,
                hosts=hosts,
                predicts=self._predicts,
                chosen=self._chosen,
                sorted_by=self._sorted_by,
            )
        return self._cells.rows(
            self._compact(), width, cursor=self._place(self.cursor), metric=metric, hosts=hosts
        )

    def on_resize(self, event: events.Resize) -> None:
        """Lay the ranks out for the new width, and keep the cursor visible."""
        self._lines = None
        super().on_resize(event)
        if self.view is not None and self.view.ranks:
            self._reveal(self.cursor)

    def move_to(self, rank: int) -> None:
        """Put the cursor on a rank; on the next one that is listed, if that one is not."""
        if self.view is None or not self._order:
            return
        rank = self._listed_rank(min(max(rank, 0), len(self.view.ranks) - 1), 1)
        if rank != self.cursor:
            self.cursor = rank
            self.moved(rank)
        self.refresh_rows()
        if self.is_table:
            self.entitle(*self._titles(self.view))
        self._reveal(rank)

    def beside(self, step: int) -> int:
        """The listed rank with the next number after the cursor's, or the one before it, in a circle."""
        return self._listed_rank(self.cursor + step, step)

    def _listed_rank(self, rank: int, step: int) -> int:
        """This rank, or the next one in the direction of `step` that is listed."""
        total = len(self.view.ranks) if self.view is not None else 0
        around = (number % total for number in range(rank, rank + total * step, step))
        return next((number for number in around if self._listing.place(number) is not None), self.cursor)

    def _reveal(self, rank: int) -> None:
        """Scroll to a rank, and to its host's line if that is directly above."""
        if not self._order:
            return
        line = self._line_of(rank)
        if self.is_table and line > 1 and isinstance(self._listed[line - 2], HostLine):
            self.reveal(line - 1)
        self.reveal(line)

    def action_move(self, lines: int) -> None:
        """Go up or down."""
        if self.is_table:
            self._go(self._position(self.cursor) + lines)
            return
        here, column = self._place(self.cursor)
        layout = self._compact()
        if layout:
            _, there = layout[min(max(here + lines, 0), len(layout) - 1)]
            self.move_to(there[min(column, len(there) - 1)].rank.rank)

    def action_sidestep(self, cells: int) -> None:
        """Go left or right, if ranks are shown as cells."""
        if not self.is_table:
            self._go(self._position(self.cursor) + cells)

    def action_page(self, pages: int) -> None:
        """Go up or down by several lines."""
        self.action_move(_PAGE * pages)

    def action_first(self) -> None:
        """Go to the first rank."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the last rank."""
        self._go(len(self._order) - 1)

    def action_metric(self) -> None:
        """Chart the next metric."""
        self._metric = TABLE.after(self.metric, devices=self._devices)
        if self.worst_first:
            self._ask(replace(self.asked, column=worst_column(self.metric)))
        else:
            self._arrange()

    # --- order and filter ----------------------------------------------------------------------------

    def action_worst_first(self) -> None:
        """Sort the worst ranks first, or by their numbers again; the cursor stays on its rank."""
        self._sort(None if self.worst_first else worst_column(self.metric))

    def action_sort(self) -> None:
        """Sort by the next column; after the last one, by number."""
        columns = self._sortable()
        names = [column.name for column in columns]
        now = self.asked.column
        at = -1 if now is None else names.index(now.name) if now.name in names else len(names)
        self._sort(columns[at + 1] if at + 1 < len(columns) else None)

    def action_reverse(self) -> None:
        """Reverse the order."""
        self._ask(replace(self.asked, reverse=not self.asked.reverse))

    def sort_by(self, name: str) -> None:
        """Sort by a column; if that is so already, in the other direction."""
        column = None if name == RANK else metric_column(self.metric) if name == CHART else column_of(name)
        here = self.asked.column
        if (here is None) is (column is None) and (
            here is None or column is None or here.name == column.name
        ):
            self.action_reverse()
        else:
            self._sort(column)

    def _sort(self, column: RankColumn | None) -> None:
        self._ask(replace(self.asked, column=column, reverse=False))

    def _sortable(self) -> list[RankColumn]:
        """The columns that are shown; for cells, those that a table would have."""
        if self.is_table and self._table.names:
            names: Sequence[str] = self._table.names
        elif self._chosen:
            names = [column.name for column in chosen_columns(self._chosen, devices=self._devices)]
        else:
            usual = usual_columns(
                devices=self._devices, charted=self.metric, hosts=True, predicts=self._predicts
            )
            names = [column.name for column in usual]
        charted = metric_column(self.metric)
        columns = [charted if name == CHART else column_of(name) for name in names]
        # the charted metric mostly has a column of its own, too
        return list({column.name: column for column in columns}.values())

    @property
    def _sorted_by(self) -> Sorted:
        column, query = self.asked.column, self.asked
        if column is None:
            return Sorted(RANK, rises=False) if query.reverse else NUMBERED
        return Sorted(column.name, rises=query.rises)

    @property
    def _chosen(self) -> Sequence[str]:
        """The columns of the settings; empty for the usual ones."""
        columns: Mapping[str, Sequence[str]] = getattr(self.app, "columns", {})
        return columns.get("ranks", ())

    @property
    def _predicts(self) -> bool:
        return self.view is not None and self.view.state.prediction is not None

    def action_filter(self) -> None:
        """Open the line in which the filter is typed."""
        self.opens_filter()

    def action_clear(self) -> None:
        """List all ranks."""
        self.cleared()
        self.narrow("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only a filter can be cleared."""
        return bool(self._typed) if action == "clear" else super().check_action(action, parameters)

    def narrow(self, text: str) -> str:
        """List the ranks that pass a filter; return what is wrong with it, and then list those as before."""
        if text.strip() == self._typed:
            return self._problem
        self._typed = text.strip()
        self._parse(self.view.reported if self.view is not None else frozenset())
        if self.view is not None:
            self.entitle(*self._titles(self.view))
        return self._problem

    def typing(self, typing: bool) -> None:
        """Note whether the filter is typed: what is wrong with it is then told beside it."""
        self._typing = typing
        if self.view is not None:
            self.entitle(*self._titles(self.view))

    def _parse(self, reported: frozenset[str]) -> None:
        self._names = reported
        try:
            wanted, self._problem = parse_rank_filter(self._typed, reported), ""
        except SpecError as error:
            self._problem = str(error)
        else:
            if wanted.tests or self.asked.filter.tests:
                self._ask(replace(self.asked, filter=wanted if wanted.tests else Filter()))

    def action_worst(self) -> None:
        """Go to the first failure, else to the rank in the worst condition that is furthest behind."""
        if self.view and self.view.ranks:
            failed = self.view.state.first_failure
            listed = failed is not None and self._listing.place(failed.rank) is not None
            worst = max(self._order, key=lambda v: (severity(v), -(v.rank.step or 0)), default=None)
            if failed is not None and listed:
                self.move_to(failed.rank)
            elif worst is not None:
                self.move_to(worst.rank.rank)

    def action_choose(self) -> None:
        """Request the log of the rank under the cursor."""
        if self._order:
            self.post_message(RankChosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked rank; a second click requests its log. A head is sorted by."""
        x, y = event.x - self.gutter.left, event.y - self.gutter.top
        if self.fixed and y == 0:
            self.sort_by(self._table.column_at(x))
            return
        rank = self._rank_at(x, self.row_at(y))
        if rank is not None:
            self.move_to(rank)
            if event.chain == 2:
                self.action_choose()

    def _rank_at(self, x: int, line: int) -> int | None:
        """The rank at a cell of a line; on a host's line, its first rank."""
        if self.is_table:
            at = self._listed[line - 1] if 0 < line <= len(self._listed) else None
            member = at.members[0] if isinstance(at, HostLine) else at
            return None if member is None else member.rank.rank
        lines = self._compact()
        label, members = lines[line] if line < len(lines) else ("", [])
        number = x - 2 - max(len(label), 6)
        return members[number].rank.rank if 0 <= number < len(members) else None

    def _go(self, position: int) -> None:
        """Put the cursor on the rank at a position of the order, or at the nearest one."""
        if self._order:
            self.move_to(self._order[min(max(position, 0), len(self._order) - 1)].rank.rank)

    def _position(self, rank: int) -> int:
        return self._listing.place(rank) or 0

    def _compact(self) -> list[tuple[str, list[RankView]]]:
        if self._lines is None:
            width = self.scrollable_content_region.width
            self._lines = compact_lines(self._order, width, by_host=self.asked.by_number)
            self._starts = [0, *accumulate(len(members) for _, members in self._lines)]
        return self._lines

    def _place(self, rank: int) -> tuple[int, int]:
        """The line and column of a rank's cell."""
        self._compact()
        position = self._position(rank)
        line = bisect_right(self._starts, position) - 1
        return line, position - self._starts[line]

    def _line_of(self, rank: int) -> int:
        if self.is_table:
            places = enumerate(self._listed, 1)
            return next((n for n, at in places if isinstance(at, RankView) and at.rank.rank == rank), 0)
        return self._place(rank)[0]

    def _titles(self, view: RunView) -> tuple[str, str]:
        shown = self.metric.title if view.has_devices else f"no GPU, showing {self.metric.title}"
        if not view.live and view.has_devices:
            shown += ", means and peaks"
        some = f" · {count(len(self._order))} of {count(len(view.ranks))}" if self.asked.filter.tests else ""
        title = f"1 Ranks{some} · {shown}{self._order_text(view)}" if view.ranks else "1 Ranks"
        if self._problem and not self._typing:
            return title, printable(f"✗ {self._problem}").replace("\n", " ")
        tally = sorted(view.conditions.items(), key=_order)
        wanted = [shorten(f"filter: {printable(self._typed)} ·", _FILTER)] if self._typed else []
        return title, " ".join([*wanted, *(f"{GLYPHS[c]} {n} {c}" for c, n in tally)])

    def _order_text(self, view: RunView) -> str:
        """By what the ranks are sorted; in their own order, the cursor's host."""
        if self.worst_first:
            return " · worst first" if not self.asked.reverse else " · best first"
        by = self._sorted_by
        return f" · by {by.name} {by.arrow}" if by.name else self._at_host(view)

    def _at_host(self, view: RunView) -> str:
        """The host of the rank under the cursor where no column shows it: its line may be out of sight."""
        if not self._listed or not isinstance(self._listed[0], HostLine) or self.cursor >= len(view.ranks):
            return ""
        return f" · on {view.ranks[self.cursor].rank.host}"


_CONDITIONS = list(Condition)


def _order(item: tuple[Condition, int]) -> int:
    return _CONDITIONS.index(item[0])
