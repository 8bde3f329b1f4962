"""The panes of a run, and which of them are on the screen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.containers import Container, Horizontal, Vertical

from console.widgets.arrangement import Arrangement, arrange
from console.widgets.charts import Charts
from console.widgets.log_pane import LogPane
from console.widgets.log_view import LogView
from console.widgets.rank_detail import RankDetail
from console.widgets.rank_grid import RankGrid
from console.widgets.result_pane import ResultPane

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

PANES = ("ranks", "detail", "logs", "result", "charts")


class Deck(Vertical):
    """Panes about ranks above, output and result below; as many as there is room for, or one alone."""

    DEFAULT_CSS = """
    Deck { height: 1fr; }
    Deck > * { height: 1fr; width: 1fr; }
    Deck #ranks { width: 3fr; height: 1fr; }
    Deck #detail, Deck #charts { width: 2fr; height: 1fr; }
    Deck #logs, Deck #result { height: 1fr; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.upper, self.lower = "ranks", "logs"
        self.zoomed: str | None = None
        self._lines = 0
        self._folded = True

    def compose(self) -> ComposeResult:
        """About ranks above, what they said below."""
        with Horizontal(id="upper"):
            yield RankGrid(id="ranks", classes="pane")
            yield RankDetail(id="detail", classes="pane")
            yield Charts(id="charts", classes="pane")
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
        """Give the result no more room than its title needs, or as much as it deserves."""
        if folded != self._folded:
            self._folded = folded
            self._place()

    def expect(self, lines: int) -> None:
        """Make room for this many lines of ranks."""
        if lines != self._lines:
            self._lines = lines
            self._place()

    def show(self, name: str) -> None:
        """Put a pane on the screen."""
        if name in ("ranks", "detail", "charts"):
            self.upper = name
        else:
            self.lower = name
        if self.zoomed is not None:
            self.zoomed = name
        self._place()

    def offer(self, name: str) -> None:
        """Put a pane on the screen, unless a person looks at one alone."""
        if self.zoomed is None:
            self.show(name)

    def focus_pane(self, name: str) -> None:
        """Go to a pane."""
        (self.query_one(LogView) if name == "logs" else self.query_one(f"#{name}")).focus()

    def zoom(self) -> None:
        """Show the pane with the focus alone, or all again."""
        self.zoomed = None if self.zoomed else self.focused_pane or "logs"
        self._place()

    def reset(self) -> None:
        """Show what was shown at first."""
        self.upper, self.lower, self.zoomed = "ranks", "logs", None
        self._place()

    @property
    def focused_pane(self) -> str | None:
        """The pane with the focus."""
        at = self.screen.focused
        held = at.ancestors_with_self if at is not None else ()
        return next((name for name in PANES if self.query_one(f"#{name}") in held), None)

    def _place(self) -> None:
        if not self.size:
            return
        plan = arrange(
            self.app.size,
            self.size.height,
            lines=self._lines,
            upper=self.upper,
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
