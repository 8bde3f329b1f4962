"""The log pane: the lines, a search field when one is wanted, and a title that says what is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from console.messages import LogView as LogState
from console.messages import Search
from console.widgets import figures as fig
from console.widgets.field import Field
from console.widgets.log_view import Lines, LogView
from console.widgets.titled import Titled

if TYPE_CHECKING:
    from textual.app import ComposeResult


class LogPane(Titled, Vertical):
    """Output of all ranks or of one, with search and follow."""

    DEFAULT_CSS = """
    LogPane > Field { display: none; }
    LogPane.-searching > Field { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "open_search", "Search", key_display="/", id="log.search"),
        Binding("n", "next_match", "Next match", show=False, id="log.next"),
        Binding("N", "previous_match", "Previous match", show=False, id="log.previous"),
        Binding("f", "toggle_follow", "Follow", id="log.follow"),
        Binding("escape", "end_search", "End search", show=False, id="log.end_search"),
    ]

    class Searched(Message):
        """A search has begun: whoever feeds the lines should look for it now."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.state = LogState()
        self._search: Search | None = None
        self._text = ""
        self._jump = 0
        self._complaint = ""

    def compose(self) -> ComposeResult:
        """The lines above the search field."""
        yield LogView(id="lines")
        yield Field(placeholder="regular expression", id="search")

    @property
    def lines(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def attach(self, source: Lines) -> None:
        """Show the lines of a source."""
        self.lines.lines = source

    def show(self, state: LogState, ranks: int) -> None:
        """Take in what has arrived."""
        self.state, self._complaint = state, ""
        self.lines.among(ranks)
        self.lines.update()
        if self._jump and self._search is not None and (self._search.found or self._searched_all):
            self._leap()
        self.retitle()

    def select(self, rank: int | None) -> None:
        """Show the lines of one rank, or of all."""
        self.lines.select(rank)
        if self._text:
            self._begin(self._text)
        self.retitle()

    @on(LogView.Moved)
    def retitle(self) -> None:
        """Say what is shown, and how."""
        view = self.lines
        who = "all ranks" if view.rank is None else f"rank {view.rank}"
        total = view.lines.count(view.rank) if view.lines else 0
        lines = f"{fig.count(total)} line{'s' * (total != 1)}"
        new = f" · {fig.count(view.unseen)} new" if view.unseen else ""
        self.entitle(
            f"3 Logs · {who} · {lines}{self._search_title()}",
            self._complaint or ("follow" if view.follow else f"paused{new} · G follows"),
        )

    def complain(self, why: str) -> None:
        """Say why nothing new comes; until something does."""
        self._complaint = why
        self.retitle()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Escape ends a search only if there is one; otherwise it is the screen's."""
        return self._search is not None or action != "end_search"

    def action_open_search(self) -> None:
        """Ask what to look for."""
        self.add_class("-searching")
        field = self.query_one(Field)
        field.value = self._text
        field.focus()

    def action_end_search(self) -> None:
        """Forget the search."""
        self._begin("")

    def action_next_match(self) -> None:
        """Go to the next match."""
        self._step(1)

    def action_previous_match(self) -> None:
        """Go to the match before."""
        self._step(-1)

    def action_toggle_follow(self) -> None:
        """Follow, or stop following."""
        self.lines.action_toggle_follow()

    @on(Field.Submitted, "#search")
    def _submitted(self, event: Field.Submitted) -> None:
        event.stop()
        self._begin(event.value)

    def on_key(self, event: events.Key) -> None:
        """Leave the search field with escape."""
        if event.key == "escape" and self.query_one(Field).has_focus:
            event.stop()
            self._begin("")

    def _begin(self, text: str) -> None:
        self.remove_class("-searching")
        self.lines.focus()
        if self.lines.lines is None:
            return
        try:
            self._search = self.lines.lines.search(text, self.lines.rank)
        except ValueError as error:
            self.notify(str(error), severity="warning", markup=False)
            return
        self._text, self._jump = text, -1 if text else 0
        self.lines.highlight(self._search)
        self.post_message(self.Searched())

    def _step(self, direction: int) -> None:
        if self._search is None:
            self.action_open_search()
        elif not self.lines.step(direction):
            self.notify(f"nothing matches {self._text!r}", severity="warning", markup=False)

    def _leap(self) -> None:
        direction, self._jump = self._jump, 0
        if not self.lines.step(direction):
            self.notify(f"nothing matches {self._text!r}", severity="warning", markup=False)

    @property
    def _searched_all(self) -> bool:
        return self.state.searched is not None and self.state.searched >= 1.0

    def _search_title(self) -> str:
        if self._search is None:
            return ""
        found = len(self._search.found)
        at = self._search.ordinal(self.lines.current) if self.lines.current is not None else None
        share = "" if self._searched_all else f" ({fig.percent((self.state.searched or 0) * 100)} searched)"
        return f" · /{fig.shorten(self._text, 20)} {at or fig.UNKNOWN}/{found}{share}"
