"""The panes of the run screen and which of them fit: as many as the terminal has room for, or one alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.containers import Container, Horizontal, Vertical

from ..logs.pane import LogPane
from ..logs.view import LogView
from .charts import Charts
from .devices.pane import DevicesPane
from .rank_detail import RankDetail
from .rank_filter import RankFilter
from .rank_grid import RankGrid
from .result import ResultPane

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult
    from textual.geometry import Size

PANES = ("ranks", "detail", "logs", "result", "charts", "devices")
_UPPER = frozenset({"ranks", "detail", "charts", "devices"})


class Deck(Vertical):
    """The panes about ranks above, output and result below; as many as fit, or one alone."""

    DEFAULT_CSS = """
    Deck { height: 1fr; }
    Deck > * { height: 1fr; width: 1fr; }
    Deck #ranks { width: 3fr; height: 1fr; }
    Deck #detail, Deck #charts, Deck #devices { width: 2fr; height: 1fr; }
    Deck #logs, Deck #result { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.upper, self.lower = "ranks", "logs"
        self.zoomed: str | None = None
        self._beside = "detail"
        self._lines = 0
        self._folded = True

    def compose(self) -> ComposeResult:
        """The panes about ranks above, output and result below."""
        with Horizontal(id="upper"):
            ranks = RankGrid(id="ranks", classes="pane")
            yield RankFilter(ranks)
            yield ranks
            yield RankDetail(id="detail", classes="pane")
            yield Charts(id="charts", classes="pane")
            yield (devices := DevicesPane(id="devices", classes="pane"))
            devices.display = (
                False  # until it is chosen: it would draw a view that comes before the first layout
            )
        with Container(id="lower"):
            yield LogPane(id="logs", classes="pane")
            yield ResultPane(id="result", classes="pane")

    def on_mount(self) -> None:
        """Choose the panes."""
        self._place()

    def on_resize(self, _: events.Resize) -> None:
        """Choose the panes that fit."""
        self._place()

    def fold_result(self, folded: bool) -> None:
        """Give the result only the room of its border, or its usual share."""
        if folded != self._folded:
            self._folded = folded
            self._place()

    def expect(self, lines: int) -> None:
        """Make room for this many lines of ranks."""
        if lines != self._lines:
            self._lines = lines
            self._place()

    def put_beside(self, name: str) -> None:
        """Choose the pane beside the ranks where two fit, for a person who has chosen none."""
        if name != self._beside:
            self._beside = name
            self._place()

    def show(self, name: str) -> None:
        """Put a pane on the screen."""
        if name in _UPPER:
            self.upper = name
        else:
            self.lower = name
        if self.zoomed is not None:
            self.zoomed = name
        self._place()

    def offer(self, name: str) -> None:
        """Put a pane on the screen, unless one is zoomed."""
        if self.zoomed is None:
            self.show(name)

    def focus_pane(self, name: str) -> None:
        """Go to a pane."""
        (self.query_one(LogView) if name == "logs" else self.query_one(f"#{name}")).focus()

    def zoom(self) -> None:
        """Show the focused pane alone, or all panes again."""
        self.zoomed = None if self.zoomed else self.focused_pane or "logs"
        self._place()

    def reset(self) -> None:
        """Restore the initial layout."""
        self.upper, self.lower, self.zoomed = "ranks", "logs", None
        self._place()

    @property
    def focused_pane(self) -> str | None:
        """The pane with the focus."""
        focused = self.screen.focused
        nodes = focused.ancestors_with_self if focused is not None else ()
        return next((name for name in PANES if self.query_one(f"#{name}") in nodes), None)

    def _place(self) -> None:
        if not self.size:
            return
        plan = arrange(
            self.app.size,
            self.size.height,
            lines=self._lines,
            upper=self.upper,
            beside=self._beside,
            lower=self.lower,
            zoomed=self.zoomed,
            folded=self._folded and self.lower != "result",
        )
        self._apply(plan)

    def _apply(self, plan: Arrangement) -> None:
        focused = self.focused_pane
        for name in PANES:
            self.query_one(f"#{name}").display = name in plan.panes
        upper, lower = self.query_one("#upper"), self.query_one("#lower")
        upper.display, lower.display = plan.has_upper, plan.has_lower
        upper.styles.height = plan.upper_height or "1fr"
        self.query_one("#result").styles.height = plan.result_height or "1fr"
        if focused is not None and focused not in plan.panes:
            self.focus_pane(plan.panes[-1])


WIDE, WIDEST, TALL = 110, 160, 34
_LEAST_LOG = 8
_DETAIL_ROWS, _CHART_ROWS = 12, 18


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The panes on the screen. A height of None means the remaining room."""

    panes: tuple[str, ...]
    upper_height: int | None = None
    result_height: int | None = None

    @property
    def has_upper(self) -> bool:
        """Whether a pane about ranks is shown."""
        return not _UPPER.isdisjoint(self.panes)

    @property
    def has_lower(self) -> bool:
        """Whether the output or the result is shown."""
        return "logs" in self.panes or "result" in self.panes


def arrange(
    terminal: Size,
    room: int,
    *,
    lines: int,
    upper: str,
    lower: str,
    zoomed: str | None,
    beside: str = "charts",
    folded: bool = False,
) -> Arrangement:
    """The panes for `room` lines of a terminal.

    `lines` is the height that shows all ranks. `upper` and `lower` name the pane to show where only one
    fits, `beside` that beside the ranks where two fit. `folded` means that there is no result yet: its pane,
    if shown below the output, is only a border.
    """
    if zoomed is not None:
        return Arrangement((zoomed,))
    tall = terminal.height >= TALL
    above = _above(terminal.width, upper, beside, tall=tall)
    below = ("logs", "result") if tall else (lower,)
    full_height = room if upper == "devices" else lines + 2
    if len(above) > 1:
        full_height = max(full_height, (_CHART_ROWS if len(above) > 2 else _DETAIL_ROWS) + 2)
    upper_height = max(min(full_height, room - _LEAST_LOG, room * 3 // 5), 4)
    result_height = (2 if folded else min(max(room // 5, 5), 12)) if len(below) > 1 else None
    return Arrangement((*above, *below), upper_height, result_height)


def _above(width: int, upper: str, beside: str, *, tall: bool) -> tuple[str, ...]:
    """The panes about ranks, side by side."""
    if upper == "devices":
        return ("ranks", "devices") if width >= WIDEST and tall else ("devices",)
    if width >= WIDEST and tall:
        return ("ranks", "detail", "devices" if beside == "detail" else "charts")
    if width >= WIDE:
        return ("ranks", beside if upper == "ranks" else upper)
    return (upper,)
