"""The pane of devices: bars and histories of use and memory of every rank, as large as there is room for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.color import Color

from ....data.run.metrics import CPU, TABLE, Metric, Source
from ....data.run.model import RankView, RunView
from ....data.run.usage import use_texts
from ...widgets.rows import MadeRows, Row, clip
from ..messages import RankChosen
from ..rank_cells import unplaced_row
from ..view_sheet import ScrollingViewSheet
from .blocks import beside, block_rows
from .heat import HEATS, LABEL, STEPS, Shown, legend_row, map_row, shown_of
from .layout import DeviceLook, DeviceRow, Plan, plan_of, usual_look
from .lines import chosen_row, gang_row, host_row, rank_line

if TYPE_CHECKING:
    from textual import events

_PAGE = 8
_GAMMA = 1.6  # the steps near full use differ more: they are what trainings show


class DevicesPane(ScrollingViewSheet):
    """Blocks for a few ranks, a line each for more, a map of ranks and time for many. Hidden, it rests."""

    TOPIC = "devices"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Next rank", show=False, id="devices.down"),
        Binding("k,up", "move(-1)", "Previous rank", show=False, id="devices.up"),
        Binding("l,right", "sidestep(1)", "Right", show=False, id="devices.right"),
        Binding("h,left", "sidestep(-1)", "Left", show=False, id="devices.left"),
        Binding("ctrl+d,pagedown,space", "page(1)", "Page down", show=False, id="devices.page_down"),
        Binding("ctrl+u,pageup,b", "page(-1)", "Page up", show=False, id="devices.page_up"),
        Binding("g,home", "first", "First rank", show=False, id="devices.first"),
        Binding("G,end", "last", "Last rank", show=False, id="devices.last"),
        Binding("enter", "choose", "Rank's log", show=False, id="devices.choose"),
        Binding("m", "metric", "Figure", id="devices.metric"),
        Binding("v", "look", "Blocks, lines, map", show=False, id="devices.look"),
        Binding("s", "sort", "Worst first", show=False, id="devices.sort"),
    ]

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.cursor = 0
        self.moved: Callable[[int], None] = lambda _: None
        self.worst_first = False
        self._metric: Metric | None = None
        self._look: DeviceLook | None = None
        self._plan = Plan(DeviceLook.LINES)
        self._planned: object = None
        self._top = 0.0
        self._shown = Shown(TABLE.first(devices=True), 100.0)
        self._blocks: dict[int, tuple[object, RankView, object, list[Row]]] = {}
        self._made: dict[tuple[int, ...], tuple[object, list[RankView], Row]] = {}
        self._gang: tuple[RunView | None, int, Row] = (None, 0, ())

    def show(self, view: RunView) -> None:
        """Show a newer view of the run; a hidden pane only keeps it."""
        if self.display:
            super().show(view)
            self._entitle(view)
        else:
            self.view = view

    def on_show(self) -> None:
        """Draw what arrived while the pane was hidden."""
        self.refresh_rows()
        if self.view is not None:
            self._entitle(self.view)
            self._reveal()

    def on_resize(self, event: events.Resize) -> None:
        """Lay the ranks out for the new size, and keep the cursor visible."""
        super().on_resize(event)
        self._reveal()

    def point_at(self, rank: int) -> None:
        """Put the cursor on a rank."""
        if rank != self.cursor:
            self.cursor = rank
            if self.display and self.view is not None:
                self.refresh_rows()
                self._reveal()

    @property
    def metric(self) -> Metric:
        """The figure of graphs and of the map: the one that a person chose, else that of work."""
        return self._metric or self._first

    @property
    def _first(self) -> Metric:
        return TABLE.first(devices=self._has_devices)

    @property
    def look(self) -> DeviceLook:
        """How ranks are shown."""
        return self._plan.look

    @property
    def _has_devices(self) -> bool:
        return self.view is None or self.view.has_devices

    @property
    def _ascii(self) -> bool:
        return bool(getattr(getattr(self.app, "settings", None), "ascii", False))

    @property
    def _plain(self) -> bool:
        """Whether steps of the map are drawn as heights, because there are no colours or no glyphs."""
        if self.app.no_color or self._ascii:
            return True
        return len({self.color_of(word) for word in HEATS}) < STEPS

    def color_of(self, word: str) -> Color:
        """The colour of a style word; those of the map lie between two colours of the theme."""
        if word not in HEATS:
            return super().color_of(word)
        low, high = (Color.parse(self.app.theme_variables[name]) for name in ("bar-track", "rank-done"))
        return low.blend(high, (HEATS.index(word) / (STEPS - 1)) ** _GAMMA)

    # --- rows ----------------------------------------------------------------------------------------

    def rows(self, width: int) -> Sequence[Row]:
        """A row of all ranks, then those of the plan, which are made when they become visible."""
        view = self.view
        if view is None or not self.display:
            return [()]
        if not view.ranks:
            return [unplaced_row(view)]
        self._lay_plan(view, width)
        self._top = shown_of(CPU, view.ranks).top if CPU in (self.metric, self._first) else 0.0
        head = self._head(view, width)
        self.fixed = len(head)
        plan, plain = self._plan, self._plan.look is DeviceLook.MAP and self._plain

        def make(number: int) -> Row:
            if number < len(head):
                return head[number]
            return self._row(view, plan.places[number - len(head)], width, plain)

        return MadeRows(len(head) + len(plan.places), make)

    def _head(self, view: RunView, width: int) -> list[Row]:
        """The rows that do not scroll."""
        if self._gang[0] is not view or self._gang[1] != width:
            self._gang = view, width, gang_row(view, width, top=self._top)
        rows = [self._gang[2]]
        if self._plan.look is DeviceLook.MAP:
            self._shown = shown_of(self.metric, view.ranks)
            chosen = view.ranks[min(self.cursor, len(view.ranks) - 1)]
            columns, samples = max(width - LABEL, 1), len(chosen.past)
            legend = legend_row(self._shown, columns, samples, plain=self._plain)
            rows += [chosen_row(view, chosen, width, top=self._top), clip(legend, width)]
        return rows

    def _row(self, view: RunView, at: DeviceRow, width: int, plain: bool) -> Row:
        """A row; that of ranks of which nothing has changed is taken over: a key changes two."""
        members = [view.ranks[rank] for rank in at.ranks]
        if at.head:
            return clip(host_row(view, members, width), width)
        if self._plan.look is DeviceLook.BLOCKS:
            room = width // self._plan.per
            return clip(beside([self._block(view, each, room) for each in members], at.line, room), width)
        here = self.cursor if self.cursor in at.ranks else None
        inputs = (here, width, self.metric, self._shown, self._top, plain, self._plan.look)
        made = self._made.get(at.ranks)
        if (
            made is None
            or made[0] != inputs
            or any(a is not b for a, b in zip(made[1], members, strict=True))
        ):
            made = inputs, members, clip(self._rank_row(view, members, width, here, plain), width)
            self._made[at.ranks] = made
        return made[2]

    def _rank_row(
        self, view: RunView, members: Sequence[RankView], width: int, here: int | None, plain: bool
    ) -> Row:
        if self._plan.look is DeviceLook.MAP:
            return map_row(members, self._shown, max(width - LABEL, 1), here=here, plain=plain)
        is_here, ascii_ = here is not None, self._ascii
        return rank_line(view, members[0], width, self.metric, here=is_here, top=self._top, ascii_=ascii_)

    def _block(self, view: RunView, each: RankView, width: int) -> list[Row]:
        """A rank's block, made once for all its rows."""
        here, height, top = each.rank.rank == self.cursor, self._plan.height, self._top
        inputs = (here, width, height, top, self.metric)
        made = self._blocks.get(each.rank.rank)
        if made is None or made[0] != inputs or made[1] is not each or made[2] is not view.usage:
            rows = block_rows(view, each, width, height, self.metric, here=here, top=top)
            made = self._blocks[each.rank.rank] = (inputs, each, view.usage, rows)
        return made[3]

    def _lay_plan(self, view: RunView, width: int) -> None:
        """DeviceRow the ranks, if anything that places depend on has changed."""
        hosts = self._groups(view)
        height = self.scrollable_content_region.height
        room = max(height - 1, 1)
        look = self._look or usual_look(len(view.ranks), hosts, width, room)
        halves = not self._plain
        order = tuple(each.rank.rank for each in hosts[0]) if self.worst_first else ()
        placed = view.state.attempt, tuple((agent, len(each)) for agent, each in view.by_agent.items())
        planned = (look, width, height, halves, order, placed)
        if planned != self._planned:
            self._planned = planned
            self._made.clear()
            self._blocks.clear()
            heads = not self.worst_first and not (
                look is DeviceLook.LINES and len(hosts) == len(view.ranks) > 1
            )
            below = room - 2 if look is DeviceLook.MAP else room
            self._plan = plan_of(look, hosts, width, below, halves=halves, heads=heads)

    def _groups(self, view: RunView) -> Sequence[Sequence[RankView]]:
        """The ranks of each host; or all of them together, those first that do least."""
        if not self.worst_first:
            return list(view.by_agent.values())
        step = (self.metric.top or 1.0) / STEPS
        return [sorted(view.ranks, key=lambda each: self._rank_key(each, step))]

    def _rank_key(self, each: RankView, step: float) -> tuple[int, int]:
        return -int(self.metric.badness(each.figure(self.metric)) // step), each.rank.rank

    def _entitle(self, view: RunView) -> None:
        order = " · worst first" if self.worst_first else ""
        noun = "Devices" if view.has_devices else "Devices · no GPU"
        when = "" if view.live else ", means and peaks"
        self.entitle(f"6 {noun} · {self.metric.title}{when}{order}", " · ".join(use_texts(view.use)))

    # --- keys ----------------------------------------------------------------------------------------

    def action_move(self, rows: int) -> None:
        """Go up or down by a row of ranks."""
        self._go(rows * self._plan.per)

    def action_sidestep(self, ranks: int) -> None:
        """Go to a neighbour, where several ranks share a row."""
        if self._plan.per > 1:
            self._go(ranks)

    def action_page(self, pages: int) -> None:
        """Go up or down by several rows."""
        self._go(pages * _PAGE * self._plan.per)

    def action_first(self) -> None:
        """Go to the first rank."""
        self._go(-len(self._order()))

    def action_last(self) -> None:
        """Go to the last rank."""
        self._go(len(self._order()))

    def action_choose(self) -> None:
        """Request the log of the rank under the cursor."""
        if self.view is not None and self.view.ranks:
            self.post_message(RankChosen(self.cursor))

    def action_metric(self) -> None:
        """Show another figure in graphs and in the map."""
        charted = [m for m in TABLE.choices(devices=self._has_devices) if m.source is not Source.STEPS]
        at = charted.index(self.metric) if self.metric in charted else -1
        self._metric = charted[(at + 1) % len(charted)]
        self._again()

    def action_look(self) -> None:
        """Show blocks, lines or the map."""
        self._look = self._plan.look.next
        self._again()

    def action_sort(self) -> None:
        """Put the ranks first that do least, or sort by number again."""
        self.worst_first = not self.worst_first
        self._again()

    def on_click(self, event: events.Click) -> None:
        """Move the cursor to the clicked rank; a second click requests its log."""
        number = self.row_at(event.y - self.gutter.top) - self.fixed
        if not 0 <= number < len(self._plan.places):
            return
        at = self._plan.places[number]
        column = 0
        if self._plan.look is DeviceLook.BLOCKS and not at.head:
            width = max(self.scrollable_content_region.width // self._plan.per, 1)
            column = min((event.x - self.gutter.left) // width, len(at.ranks) - 1)
        self._point(at.ranks[max(column, 0)])
        if event.chain == 2:
            self.action_choose()

    def _again(self) -> None:
        self.refresh_rows()
        if self.view is not None:
            self._entitle(self.view)
            self._reveal()

    def _order(self) -> Sequence[int]:
        """The ranks as they are placed."""
        return [rank for at in self._plan.places if not at.head and not at.line for rank in at.ranks]

    def _go(self, steps: int) -> None:
        order = self._order()
        if order:
            at = order.index(self.cursor) if self.cursor in order else 0
            self._point(order[min(max(at + steps, 0), len(order) - 1)])

    def _point(self, rank: int) -> None:
        self.point_at(rank)
        self.moved(rank)

    def _reveal(self) -> None:
        """Scroll to the rank under the cursor, and to its host's line if that is directly above."""
        if self.view is not None and self.display and self._plan.places:
            row = self._plan.row_of(self.cursor)
            self.reveal(self.fixed + row + self._plan.height - 1)
            if row and self._plan.places[row - 1].head:
                self.reveal(self.fixed + row - 1)
            self.reveal(self.fixed + row)
