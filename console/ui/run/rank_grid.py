"""The grid of ranks: where each runs and its condition, with a cursor."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from ...data.run.health import Condition
from ...data.run.metrics import TABLE, Metric
from ...data.run.model import RankView, RunView
from ..widgets.rows import Row, ScrollingSheet
from .messages import RankChosen
from .rank_cells import GLYPHS, TABLE_RANKS, CompactRows, compact_lines, unplaced_row
from .rank_table import HostLine, Line, RankTable, table_lines

if TYPE_CHECKING:
    from textual import events

_PAGE, _A_LINE = 8, 32


class RankGrid(ScrollingSheet):
    """Every rank of a run. Up to 64 as a table, more as cells."""

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
        Binding("s", "sort", "Worst first", show=False, id="ranks.sort"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None
        self.cursor = 0
        self.moved: Callable[[int], None] = lambda _: None
        self.worst_first = False
        self._metric: Metric | None = None
        self._table, self._cells = RankTable(), CompactRows()
        self._order: list[RankView] = []
        self._listed: list[Line] = []
        self._lines: list[tuple[str, list[RankView]]] | None = None
        self._starts = [0]  # the position in the order of each line's first rank

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        self.view = view
        self.fixed = 1 if self.is_table else 0
        self._arrange()

    @property
    def metric(self) -> Metric:
        """The metric that is charted: the one that a person chose, else the first one for these ranks."""
        return self._metric or TABLE.first(devices=self._devices)

    @property
    def _devices(self) -> bool:
        return self.view is None or self.view.has_devices

    def _arrange(self) -> None:
        if self.view is None:
            return
        self._lines = None
        self._order = list(self.view.ranks)
        if self.worst_first:
            self._order.sort(key=self._badness)
        self._listed = table_lines(self._order, by_host=not self.worst_first) if self.is_table else []
        self.refresh_rows()
        self.entitle(*self._titles(self.view))

    def _badness(self, view: RankView) -> tuple[int, int, int]:
        """The sort key for "worst first"; in coarse steps, so that small changes of a figure move no rank."""
        step = self.metric.top / 8
        return (
            -_SEVERITY[view.condition],
            -int(self.metric.badness(view.figure(self.metric)) // step),
            view.rank.rank,
        )

    @property
    def is_table(self) -> bool:
        """Whether every rank has a line of its own."""
        return self.view is None or len(self.view.ranks) <= TABLE_RANKS

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
        metric, hosts = self.metric, self.view.state.hosts if self.view.live else {}
        if self.is_table:
            return self._table.rows(
                self._listed,
                width,
                cursor=self.cursor,
                devices=self.view.has_devices,
                metric=metric,
                hosts=hosts,
                predicts=self.view.state.prediction is not None,
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
        """Put the cursor on a rank."""
        if self.view is None or not self.view.ranks:
            return
        rank = min(max(rank, 0), len(self.view.ranks) - 1)
        if rank != self.cursor:
            self.cursor = rank
            self.moved(rank)
        self.refresh_rows()
        if self.is_table:
            self.entitle(*self._titles(self.view))
        self._reveal(rank)

    def _reveal(self, rank: int) -> None:
        """Scroll to a rank, and to its host's line if that is directly above."""
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
        self._arrange()

    def action_sort(self) -> None:
        """Sort the worst ranks first, or by their numbers again; the cursor stays on its rank."""
        self.worst_first = not self.worst_first
        self._arrange()
        self._reveal(self.cursor)

    def action_worst(self) -> None:
        """Go to the first failure, else to the rank in the worst condition that is furthest behind."""
        if self.view and self.view.ranks:
            failed = self.view.state.first_failure
            worst = max(self.view.ranks, key=lambda v: (_SEVERITY[v.condition], -(v.rank.step or 0)))
            self.move_to(failed.rank if failed else worst.rank.rank)

    def action_choose(self) -> None:
        """Request the log of the rank under the cursor."""
        if self.view and self.view.ranks:
            self.post_message(RankChosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked rank; a second click requests its log."""
        rank = self._rank_at(event.x - self.gutter.left, self.row_at(event.y - self.gutter.top))
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
        if not self.worst_first:
            return rank
        return next((n for n, view in enumerate(self._order) if view.rank.rank == rank), 0)

    def _compact(self) -> list[tuple[str, list[RankView]]]:
        if self._lines is None:
            width = self.scrollable_content_region.width
            self._lines = compact_lines(self._order, width, by_host=not self.worst_first)
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
        order = " · worst first" if self.worst_first else self._at_host(view)
        if not view.live and view.has_devices:
            shown += ", means and peaks"
        title = f"1 Ranks · {shown}{order}" if view.ranks else "1 Ranks"
        tally = sorted(view.conditions.items(), key=_order)
        return title, " ".join(f"{GLYPHS[c]} {n} {c}" for c, n in tally)

    def _at_host(self, view: RunView) -> str:
        """The host of the rank under the cursor where no column shows it: its line may be out of sight."""
        if not self._listed or not isinstance(self._listed[0], HostLine) or self.cursor >= len(view.ranks):
            return ""
        return f" · on {view.ranks[self.cursor].rank.host}"


_SEVERITY = {condition: number for number, condition in enumerate(Condition)}


def _order(item: tuple[Condition, int]) -> int:
    return _SEVERITY[item[0]]
