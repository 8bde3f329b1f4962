"""The log pane: the lines, a field for a search, filter, place or file, a title, and ways to save lines."""

from __future__ import annotations

import os
import shlex
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from ... import formatting as fig
from ...data.logs.book import LogState, Rows, copy_rows, new_file
from ...data.logs.search import Level, Search, parse_destination
from ..external import run_in_terminal
from ..widgets.fields import Field
from ..widgets.key_line import keys_of
from ..widgets.rows import Titled
from .paint import Times
from .view import Book, FilteredLines, LogView

if TYPE_CHECKING:
    from textual.app import ComposeResult

TOO_SLOW = "that expression takes too long on some lines, and was given up: try a simpler one"

_LEVELS = {Level.ALL: "", Level.WARNING: " · warnings and errors", Level.ERROR: " · errors"}
_LONGEST = 20


def filter_title(text: str, level: Level, passed: Search, share: float | None) -> str:
    """The filter, and how many lines passed it; `share` of all lines have been checked."""
    what = f" · &{fig.shorten(text, _LONGEST)}" if text else ""
    return f"{_LEVELS[level]}{what} · {fig.count(len(passed.found))} kept{_so_far(passed, share, 'filtered')}"


def search_title(text: str, search: Search, current: int | None, share: float | None) -> str:
    """The search, the number of the shown match, and their count; `share` of all lines are searched."""
    at = search.ordinal(current) if current is not None else None
    found = f"{at or fig.UNKNOWN}/{len(search.found)}{_so_far(search, share, 'searched')}"
    return f" · /{fig.shorten(text, _LONGEST)} {found}"


def _so_far(search: Search, share: float | None, done: str) -> str:
    if search.slow:
        return f" (given up at {fig.percent((share or 0.0) * 100)})"
    return "" if share is not None and share >= 1.0 else f" ({fig.percent((share or 0.0) * 100)} {done})"


class LogOutput(Titled, Vertical):
    """Saves lines to a file or opens them in a pager; in a thread, one at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "save", "Save to a file", show=False, id="log.save"),
        Binding("p", "page", "Open in $PAGER", show=False, id="log.pager"),
    ]

    class Copied(Message):
        """The share that has been written. With `ended`, which describes the outcome, the writing is over."""

        def __init__(self, share: float, ended: str = "", *, page: Path | None = None) -> None:
            super().__init__()
            self.share, self.ended, self.page = share, ended, page

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.copied: float | None = None
        self._cancelled = threading.Event()

    def on_unmount(self) -> None:
        """Cancel the writing."""
        self._cancelled.set()

    def retitle(self) -> None:
        """Update the title to what is shown."""
        raise NotImplementedError

    def stop_copying(self) -> None:
        """Cancel the writing."""
        self._cancelled.set()

    def save_rows(self, rows: Rows, rank: int | None, path: Path, *, times: bool, replace: bool) -> None:
        """Write rows to a file."""
        if self._begin_copy():
            self._save(rows, rank, path, times=times, replace=replace)

    def page_rows(self, rows: Rows, rank: int | None, *, times: bool) -> None:
        """Write rows to a temporary file, and open it in the pager."""
        if self._begin_copy():
            self._save(rows, rank, None, times=times, replace=True)

    def open_pager(self, path: str) -> None:
        """Suspend the console and run the pager until it ends."""
        command = [*shlex.split(os.environ.get("PAGER") or "less"), path]
        if problem := run_in_terminal(self.app, command):
            self.notify(problem, severity="warning", markup=False)

    def _begin_copy(self) -> bool:
        if self.copied is not None:
            self.notify("still writing; escape gives up", severity="warning", markup=False)
            return False
        self.copied, self._cancelled = 0.0, threading.Event()
        self.retitle()
        return True

    @work(thread=True, group="copy")
    def _save(self, rows: Rows, rank: int | None, path: Path | None, *, times: bool, replace: bool) -> None:
        try:
            where = path or _temporary()
            with new_file(where, replace=replace) as file:
                count = copy_rows(
                    rows, rank, file, stop=self._cancelled, progress=self._progressed, times=times
                )
        except OSError as error:
            self.post_message(self.Copied(1.0, f"not saved: {error.strerror or error}"))
            return
        ended = "given up; nothing was saved" if count is None else f"saved {_lines(count)} to {where}"
        posted = self.post_message(self.Copied(1.0, ended, page=None if path or count is None else where))
        if count is None or not (path or posted):
            where.unlink(missing_ok=True)

    def _progressed(self, share: float) -> None:
        if int(share * 100) != int((self.copied or 0.0) * 100):
            self.post_message(self.Copied(share))

    @on(Copied)
    def _show_copied(self, message: Copied) -> None:
        self.copied = None if message.ended else message.share
        if message.page is not None:
            self.open_pager(str(message.page))
            message.page.unlink(missing_ok=True)
        elif message.ended:
            self.notify(message.ended, markup=False)
        self.retitle()


def _lines(count: int) -> str:
    return f"{fig.number(count, 'line')}"


def _temporary() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="rankdeck-", suffix=".log")
    os.close(descriptor)
    return Path(name)


_HINTS = {
    "search": "regular expression",
    "filter": "show only lines that match · ! in front: that do not",
    "place": "line 1200, time 12:04:38, or 50%",
    "file": "file to save to",
}


class LogPane(LogOutput):
    """The output of all ranks or of one, with filter, search and follow."""

    TOPIC = "output"
    DEFAULT_CSS = """
    LogPane > Field { display: none; }
    LogPane.-searching > Field { display: block; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "open_search", "Search", key_display="/", id="log.search"),
        Binding("n", "next_match", "Next match", show=False, id="log.next"),
        Binding("N", "previous_match", "Previous match", show=False, id="log.previous"),
        Binding("ampersand", "ask('filter')", "Filter", key_display="&", id="log.filter"),
        Binding("v", "level", "Level: warnings, errors", show=False, id="log.level"),
        Binding("colon", "ask('place')", "Go to line or time", key_display=":", show=False, id="log.place"),
        Binding("f", "toggle_follow", "Follow", id="log.follow"),
        Binding("escape", "end_search", "End search or filter", show=False, id="log.end_search"),
    ]

    class Searched(Message):
        """A search or a filter has begun: the feed should run it now, without waiting for its next poll."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.state = LogState()
        self._book: Book | None = None
        self._filtered: FilteredLines | None = None
        self._level = Level.ALL
        self._search: Search | None = None
        self._texts = dict.fromkeys(_HINTS, "")
        self._prompt = "search"
        self._warned = ""
        self._jump = 0
        self._complaint = ""

    def compose(self) -> ComposeResult:
        """The lines, and the field below them."""
        yield LogView(moved=self.retitle, id="lines")
        yield Field(id="search")

    @property
    def lines(self) -> LogView:
        """The lines."""
        return self.query_one(LogView)

    def attach(self, source: Book) -> None:
        """Show the lines of a source, with the filter and the search that are on."""
        again, self._book = self._book is not None, source
        if not again:
            self.lines.lines = source
        elif self._filtered is not None:
            self._apply_filter()
        else:
            self.lines.show(source)
            self.lines.highlight(self._search)

    def show(self, state: LogState, ranks: int) -> None:
        """Show the lines that have arrived."""
        if state.given_up > self.state.given_up:
            self._warn(TOO_SLOW)
        if state.settled > self.state.settled:
            self.lines.redraw()
        self.state, self._complaint = state, ""
        self.lines.among(ranks)
        self.lines.update()
        if self._jump and self._search is not None and (self._search.found or state.searched == 1.0):
            # the last match is known only when all is searched: until then go to the first
            self._leap(self._jump if state.searched == 1.0 else 1)
        self.retitle()
        self.recovered()

    def select(self, rank: int | None) -> None:
        """Show the lines of one rank, or of all."""
        if self._filtered is not None:
            self.lines.rank = rank
            self._apply_filter()
        else:
            self.lines.select(rank)
            if text := self._texts["search"]:
                self._begin_search(text)
        self.retitle()

    def retitle(self) -> None:
        """Update the title and the subtitle to what is shown."""
        view = self.lines
        who = "all ranks" if view.rank is None else f"rank {view.rank}"
        total = view.lines.total(view.rank) if view.lines else 0
        lines = f"{fig.number(total, 'line')}{' so far' * self.state.behind}"
        new = f" · {fig.count(view.unseen)} new" if view.unseen else ""
        paused = f"paused{new} · {keys_of(self, 'log.end', 'G')} follows"
        ways = [*["wrap"] * view.wrap, *[view.times.value] * (view.times is not Times.NONE)]
        if self.copied is not None:
            ways.append(f"writing {fig.percent(self.copied * 100)}")
        self.entitle(
            f"3 Logs · {who} · {lines}{self._filter_title()}{self._search_title()}",
            self._complaint or " · ".join(["follow" if view.follow else paused, *ways]),
        )

    def complain(self, why: str) -> None:
        """Show why no new lines arrive, until some do."""
        self._complaint = why
        self.retitle()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Escape ends a search, filter or writing; if there is none, the screen handles it."""
        if action == "end_search":
            return self._search is not None or self._filtered is not None or self.copied is not None
        return super().check_action(action, parameters)

    def action_open_search(self) -> None:
        """Open the field for a search."""
        self.action_ask("search")

    def action_ask(self, what: str) -> None:
        """Open the field for a search, a filter, a place or a file; `what` is a key of `_HINTS`."""
        self._prompt, self._warned = what, ""
        self.add_class("-searching")
        field = self.query_one(Field)
        field.placeholder, field.value = _HINTS[what], self._texts[what]
        field.focus()

    def action_end_search(self) -> None:
        """Cancel the writing, else end the search, else the filter."""
        if self.copied is not None:
            self.stop_copying()
        elif self._search is not None:
            self._begin_search("")
        else:
            self._level = Level.ALL
            self.filter_by("")

    def action_next_match(self) -> None:
        """Go to the next match."""
        self._step(1)

    def action_previous_match(self) -> None:
        """Go to the previous match."""
        self._step(-1)

    def action_toggle_follow(self) -> None:
        """Follow, or stop following."""
        self.lines.action_toggle_follow()

    def action_level(self) -> None:
        """Show all lines, or only warnings and errors, or only errors."""
        self._level = self._level.after
        self._apply_filter()

    def action_save(self) -> None:
        """Open the field for a file, to save the lines that pass the filter."""
        if self._book is not None:
            rank = self.lines.rank
            which = "all" if rank is None else f"rank{rank}"
            suffix = "-filtered" if self._filtered is not None else ""
            self._texts["file"] = f"{self._book.name}-{which}{suffix}.log"
            self.action_ask("file")

    def action_page(self) -> None:
        """Open the raw output of one rank in the pager, or the merged or filtered lines."""
        view = self.lines
        if self._book is None or view.lines is None:
            return
        raw = self._book.raw_file(view.rank) if view.rank is not None and self._filtered is None else None
        if raw is not None:
            self.open_pager(raw)
        else:
            self.page_rows(view.lines, view.rank, times=view.times is not Times.NONE)

    @on(Field.Submitted, "#search")
    def _submitted(self, event: Field.Submitted) -> None:
        event.stop()
        actions = {
            "search": self._begin_search,
            "filter": self.filter_by,
            "place": self._go,
            "file": self._write,
        }
        actions[self._prompt](event.value)

    def on_key(self, event: events.Key) -> None:
        """On escape, leave the field; if it is for a search, end the search."""
        if event.key == "escape" and self.query_one(Field).has_focus:
            event.stop()
            if self._prompt == "search":
                self._begin_search("")
            self._leave_field()

    def _leave_field(self) -> None:
        self.remove_class("-searching")
        self.lines.focus()

    def _warn(self, text: object) -> None:
        self.notify(str(text), severity="warning", markup=False)

    def filter_by(self, text: str) -> None:
        """Show only lines that match, or with a leading ``!`` those that do not; an empty text shows all."""
        self._leave_field()
        before, self._texts["filter"] = self._texts["filter"], text
        if not self._apply_filter():
            self._texts["filter"] = before

    def _apply_filter(self) -> bool:
        """Show the lines that pass the filter; return whether it could be applied."""
        view = self.lines
        if self._book is None:
            return False
        try:
            filtered = self._book.filtered(self._texts["filter"], self._level, view.rank)
        except ValueError as error:
            self._warn(error)
            return False
        place = self._place_in_all() if filtered is None else None
        self._filtered = filtered
        view.show(filtered or self._book, place)
        if text := self._texts["search"]:
            self._begin_search(text, jump=0)
        self.retitle()
        self.post_message(self.Searched())
        return True

    def _place_in_all(self) -> int | None:
        """The number among all rows of the row at which the filtered view stands; None at the end."""
        view, rows = self.lines, self._filtered.passed.found if self._filtered is not None else ()
        at = view.current if view.current is not None else view.top
        return rows[at] if not view.follow and at < len(rows) else None

    def _filter_title(self) -> str:
        if self._filtered is None:
            return ""
        return filter_title(self._texts["filter"], self._level, self._filtered.passed, self.state.filtered)

    def _begin_search(self, text: str, jump: int = -1) -> None:
        self._leave_field()
        if self.lines.lines is None:
            return
        try:
            self._search = self.lines.lines.search(text, self.lines.rank)
        except ValueError as error:
            self._warn(error)
            return
        self._texts["search"], self._jump = text, jump if text else 0
        passed = self._filtered.passed if self._filtered is not None else None
        self.lines.highlight(self._search or passed)
        self.post_message(self.Searched())

    def _step(self, direction: int) -> None:
        if self._search is None:
            self.action_open_search()
        else:
            self._leap(direction)

    def _leap(self, direction: int) -> None:
        self._jump = 0
        if not self.lines.step(direction):
            self._warn(f"nothing matches {self._texts['search']!r}")

    def _search_title(self) -> str:
        if self._search is None:
            return ""
        return search_title(self._texts["search"], self._search, self.lines.current, self.state.searched)

    def _go(self, text: str) -> None:
        self._leave_field()
        try:
            self.lines.seek(parse_destination(text))
        except ValueError as error:
            self._warn(error)

    def _write(self, text: str) -> None:
        path = Path(text).expanduser()
        if not text or self.lines.lines is None:
            self._leave_field()
        elif path.exists() and self._warned != text:
            self._warned = text
            self._warn(f"{path} exists: enter again replaces it, escape leaves it")
        else:
            self._leave_field()
            view, lines = self.lines, self.lines.lines
            times = view.times is not Times.NONE
            self.save_rows(lines, view.rank, path, times=times, replace=self._warned == text)
