"""The grid of ranks: who runs where and how it is doing, with a cursor that picks one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from console.messages import Condition, RankChosen, RankHighlighted, RunView
from console.widgets.rank_rows import GLYPHS, TABLE_RANKS, compact_lines, compact_rows, table_rows
from console.widgets.sheet import Row, ScrollingSheet

if TYPE_CHECKING:
    from textual import events

_PAGE = 8


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
        Binding("enter", "choose", "Rank's log", id="ranks.choose"),
        Binding("w", "worst", "Worst rank", show=False, id="ranks.worst"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None
        self.cursor = 0

    def show(self, view: RunView) -> None:
        """Show another moment of the run."""
        self.view = view
        self.fixed = 1 if self.is_table else 0
        self.refresh_rows()
        self.entitle(*self._titles(view))

    @property
    def is_table(self) -> bool:
        """Whether every rank has a line of its own."""
        return self.view is None or len(self.view.ranks) <= TABLE_RANKS

    def rows(self, width: int) -> Sequence[Row]:
        """The ranks, or what the gang waits for."""
        if self.view is None or not self.view.ranks:
            return [((" no rank has a place yet", "muted"),)]
        if self.is_table:
            return table_rows(self.view.ranks, width, cursor=self.cursor, devices=self.view.has_devices)
        return compact_rows(self.view.ranks, width, cursor=self.cursor)

    def move_to(self, rank: int) -> None:
        """Put the cursor on a rank."""
        if self.view is None or not self.view.ranks:
            return
        rank = min(max(rank, 0), len(self.view.ranks) - 1)
        if rank != self.cursor:
            self.cursor = rank
            self.post_message(RankHighlighted(rank))
        self.refresh_rows()
        self.reveal(self._line_of(rank))

    def action_move(self, lines: int) -> None:
        """Go up or down."""
        if self.is_table:
            self.move_to(self.cursor + lines)
            return
        here, column = self._place()
        layout = self._layout()
        there = layout[min(max(here + lines, 0), len(layout) - 1)]
        self.move_to(there[min(column, len(there) - 1)])

    def action_sidestep(self, cells: int) -> None:
        """Go left or right, where ranks stand side by side."""
        if not self.is_table:
            self.move_to(self.cursor + cells)

    def action_page(self, pages: int) -> None:
        """Go up or down by several lines."""
        for _ in range(_PAGE):
            self.action_move(pages)

    def action_first(self) -> None:
        """Go to rank 0."""
        self.move_to(0)

    def action_last(self) -> None:
        """Go to the last rank."""
        self.move_to(len(self.view.ranks) - 1 if self.view else 0)

    def action_worst(self) -> None:
        """Go to the rank that is worst off: the first failure, else the one furthest behind."""
        if self.view and self.view.ranks:
            failed = self.view.state.first_failure
            order = list(Condition)
            worst = max(self.view.ranks, key=lambda v: (order.index(v.condition), -(v.rank.step or 0)))
            self.move_to(failed.rank if failed else worst.rank.rank)

    def action_choose(self) -> None:
        """Ask for this rank's log."""
        if self.view and self.view.ranks:
            self.post_message(RankChosen(self.cursor))

    def on_click(self, event: events.Click) -> None:
        """Pick the rank that was clicked; a second click opens it."""
        line = self.row_at(event.y - self.gutter.top)
        if self.is_table:
            rank = line - 1
        else:
            layout = self._layout()
            if line >= len(layout):
                return
            rank = layout[line][0] + event.x - self.gutter.left - self._label_width(line)
        if self.view and 0 <= rank < len(self.view.ranks):
            self.move_to(rank)
            if event.chain == 2:
                self.action_choose()

    def _layout(self) -> list[list[int]]:
        ranks = self.view.ranks if self.view else ()
        lines = compact_lines(ranks, self.scrollable_content_region.width)
        return [[v.rank.rank for v in members] for _, members in lines]

    def _label_width(self, line: int) -> int:
        ranks = self.view.ranks if self.view else ()
        label = compact_lines(ranks, self.scrollable_content_region.width)[line][0]
        return 2 + max(len(label), 6)

    def _place(self) -> tuple[int, int]:
        for number, members in enumerate(self._layout()):
            if self.cursor in members:
                return number, members.index(self.cursor)
        return 0, 0

    def _line_of(self, rank: int) -> int:
        if self.is_table:
            return rank + 1
        return next((n for n, members in enumerate(self._layout()) if rank in members), 0)

    def _titles(self, view: RunView) -> tuple[str, str]:
        title = "1 Ranks" if view.has_devices or not view.ranks else "1 Ranks · no GPU, showing CPU"
        tally = Counter(v.condition for v in view.ranks)
        return title, " ".join(f"{GLYPHS[c]} {n} {c}" for c, n in sorted(tally.items(), key=_order))


def _order(item: tuple[Condition, int]) -> int:
    return list(Condition).index(item[0])
