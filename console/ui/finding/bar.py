"""The command bar: everything that can be opened or done, found by a few letters of its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, ClassVar

from rich.cells import cell_len
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.worker import get_current_worker

from ...data.finding.entry import KINDS, BarEntry, Kind, Wanted, wanted
from ...data.finding.matching import Catalogue, marked
from ...data.finding.usage import UseRecord
from ..widgets.failed_pane import contained
from ..widgets.fields import Field
from ..widgets.key_line import keys_of
from ..widgets.lists import CursorSheet
from ..widgets.rows import MadeRows, Row, Sheet, Span, clip, safe, width_of

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

Source = Callable[[], Iterable[list[BarEntry]]]
"""Reads entries, a few at a time; called in a thread."""

_MERGED_S, _MERGED_LATER_S = 0.05, 0.4
"""How long entries that come later wait for others, so that the list is not sorted and drawn for each."""
_KIND_WIDTH = 8
_HINT = "a few letters of anything; a kind first narrows: run llama, rank 3"
_LEAST_ABOUT = 12


class BarList(CursorSheet[BarEntry]):
    """The entries that match, a line each; only the visible ones are drawn."""

    def __init__(self) -> None:
        super().__init__(id="found")
        self.words: Sequence[str] = ()

    def show(self, entries: Sequence[BarEntry], words: Sequence[str], *, stay: bool) -> None:
        """Show these, with the letters of `words` marked; with `stay`, the cursor stays on its entry."""
        here = self.chosen if stay else None
        self.items, self.words = entries, words
        self.cursor = entries.index(here) if here is not None and here in entries else 0
        self.refresh_rows()
        self.reveal(self.cursor)

    @property
    def shows_cursor(self) -> bool:
        """Always, because the field above has the focus."""
        return True

    def empty_row(self) -> Row:
        """The text if nothing matches."""
        return ((" nothing matches", "muted"),)

    def rows(self, width: int) -> Sequence[Row]:
        """A row for each entry, made when it is visible."""
        if not self.length:
            return [self.empty_row()]
        return MadeRows(self.length, lambda number: self._padded(number, width))

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """The kind, where it differs from that of the line above; the name; what it does; the key."""
        each = self.items[index]
        same = index > 0 and self.items[index - 1].kind is each.kind
        in_name, in_about = marked(each, self.words)
        key: Row = ((f" {each.key} ", f"bold{ground}"),) if each.key else ()
        left: Row = (
            (f" {'' if same else each.kind.value:<{_KIND_WIDTH}}", f"muted{ground}"),
            *_marked(each.name, in_name, "", ground),
        )
        room = width - width_of(key)
        if each.about and room - width_of(left) > _LEAST_ABOUT:
            left = (*left, ("  ", ground), *_marked(each.about, in_about, "muted", ground))
        left = clip(safe(left), room)
        return (*left, (" " * max(room - width_of(left), 0), ground), *key)

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked entry: a bar is opened to choose one."""
        event.prevent_default()
        index = self.row_at(event.y - self.gutter.top)
        if 0 <= index < self.length:
            self.cursor = index
            self.action_choose()


def _marked(text: str, at: Collection[int], style: str, ground: str) -> Iterator[Span]:
    """A text with the letters at the places `at` marked."""
    for hit, letters in groupby(enumerate(text), lambda pair: pair[0] in at):
        mark = "bold underline" if hit else style
        yield "".join(letter for _, letter in letters), f"{mark}{ground}"


class Kinds(Sheet):
    """The kinds that there are, with how many of each; a click narrows to one."""

    class KindChosen(Message):
        """A kind was clicked; None for all."""

        def __init__(self, kind: Kind | None) -> None:
            super().__init__()
            self.kind = kind

    def __init__(self) -> None:
        super().__init__(id="kinds")
        self._shown: tuple[tuple[Kind | None, str], ...] = ()
        self._chosen: Kind | None = None

    def show(self, counts: Sequence[tuple[Kind, int]], chosen: Kind | None) -> None:
        """Show these kinds, and which one is chosen."""
        total = sum(count for _, count in counts)
        self._shown = (
            (None, f"all {total:,}"),
            *((kind, f"{kind.value} {count:,}") for kind, count in counts),
        )
        self._chosen = chosen
        self.refresh_rows()

    def rows(self, width: int) -> list[Row]:
        """One row; the chosen kind comes first if there is no room for all."""
        words = self._fitting(width)
        return [tuple((f" {text} ", "bold reverse" if k is self._chosen else "muted") for k, text in words)]

    def _fitting(self, width: int) -> list[tuple[Kind | None, str]]:
        """The kinds from the first one on, or around the chosen one."""
        words = list(self._shown)
        while len(words) > 1 and sum(cell_len(text) + 2 for _, text in words) > width:
            words.pop(-1 if words[-1][0] is not self._chosen else 0)
        return words

    def on_click(self, event: events.Click) -> None:
        """Narrow to the clicked kind."""
        right = 0
        for kind, text in self._fitting(self.size.width):
            right += cell_len(text) + 2
            if event.x < right:
                self.post_message(self.KindChosen(kind))
                return


class BarScreen(ModalScreen[BarEntry]):
    """Closes with the chosen entry, or with nothing.

    Args:
        entries: what is known without reading: the actions of the screen below.
        sources: what is read in threads, and merged as it comes.
        uses: what was used before.
        text: what is typed already.
    """

    TOPIC = "console"
    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Close", id="bar.close"),
        Binding("down,ctrl+n", "move(1)", "Next", show=False, id="bar.next"),
        Binding("up,ctrl+p", "move(-1)", "Previous", show=False, priority=True, id="bar.previous"),
        Binding("pagedown", "move(8)", "Page down", show=False, id="bar.page_down"),
        Binding("pageup", "move(-8)", "Page up", show=False, id="bar.page_up"),
        Binding("tab", "turn(1)", "Next kind", show=False, priority=True, id="bar.kind"),
        Binding("shift+tab", "turn(-1)", "Previous kind", show=False, priority=True, id="bar.kind_back"),
    ]

    class EntriesRead(Message):
        """A source has more entries; with `done`, all sources have given theirs."""

        def __init__(self, entries: list[BarEntry], *, done: bool = False) -> None:
            super().__init__()
            self.entries, self.done = entries, done

    def __init__(
        self, entries: Sequence[BarEntry], sources: Sequence[Source], uses: UseRecord, text: str = ""
    ) -> None:
        super().__init__()
        self._text = text
        self._catalogue = Catalogue()
        self._catalogue.add(entries)
        self._sources, self._uses = sources, uses
        self._reading = len(sources)
        self._moved = self._waiting = self._left = False
        self._merge_s = _MERGED_S

    def compose(self) -> ComposeResult:
        """The field, the kinds, and the entries."""
        with Vertical(id="bar", classes=self._placed()):
            yield Field(self._text, placeholder=_HINT, select_on_focus=False)
            yield Kinds()
            yield BarList()

    def on_mount(self) -> None:
        """Show what is known; when that is drawn, begin to read the rest."""
        self.query_one("#bar").border_title = "Go to, open, do"
        self.query_one("#bar").border_subtitle = self._hint()
        self._show()
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        self._read_uses()
        for number in range(len(self._sources)):
            self._read(number)

    def on_resize(self) -> None:
        """Use the whole of a small terminal."""
        self.query_one("#bar").set_class(bool(self._placed()), "-small")

    def _placed(self) -> str:
        return "-small" if self.app.size.width < 72 or self.app.size.height < 20 else ""

    def _hint(self) -> str:
        kind, close = keys_of(self, "bar.kind", "tab"), keys_of(self, "bar.close", "esc")
        return f"enter chooses · {kind} next kind · {close} closes"

    @work(thread=True, group="bar")
    def _read_uses(self) -> None:
        if not self._uses.is_read:
            self._uses.read()
            self.post_message(self.EntriesRead([]))

    @work(thread=True, group="bar")
    def _read(self, number: int) -> None:
        """Read a source, by its number: Textual writes out the arguments, and these may hold many ranks."""
        worker = get_current_worker()
        for batch in self._sources[number]():
            if worker.is_cancelled:
                return
            if batch:
                self.post_message(self.EntriesRead(batch))
        self.post_message(self.EntriesRead([], done=True))

    @on(EntriesRead)
    def _merge(self, message: EntriesRead) -> None:
        self._catalogue.add(message.entries)
        self._reading -= message.done
        if not self._waiting:
            self._waiting = True
            self.set_timer(self._merge_s, self._merged)
            self._merge_s = _MERGED_LATER_S if message.entries else self._merge_s

    def _merged(self) -> None:
        self._waiting = False
        self._show(stay=self._moved)

    @property
    def complete(self) -> bool:
        """Whether all sources are read, and shown."""
        return self._reading == 0 and not self._waiting

    @property
    def wanted(self) -> Wanted:
        """What is typed."""
        return wanted(self.query_one(Field).value)

    def _show(self, *, stay: bool = False) -> None:
        query = self.wanted
        found = self._catalogue.narrowed(query, self._uses.weights())
        with contained(self):
            self.query_one(BarList).show(found, query.words, stay=stay)
        counts = [(kind, self._catalogue.count(kind)) for kind in KINDS]
        with contained(self):  # else the sources would not be read
            self.query_one(Kinds).show([pair for pair in counts if pair[1]], query.kind)

    @on(Field.Changed)
    def _narrow(self) -> None:
        self._moved = False
        self._show()

    @on(Field.Submitted)
    def _submitted(self) -> None:
        self.query_one(BarList).action_choose()

    @on(BarList.Chosen)
    def _chosen(self, message: BarList.Chosen) -> None:
        self._leave(self.query_one(BarList).items[message.index])

    def action_leave(self) -> None:
        """Open nothing."""
        self._leave()

    def _leave(self, entry: BarEntry | None = None) -> None:
        """Close once: a second enter or click meanwhile would close the screen below."""
        if not self._left:
            self._left = True
            self.dismiss(entry)

    @on(Kinds.KindChosen)
    def _picked(self, message: Kinds.KindChosen) -> None:
        self._take(message.kind)

    def action_move(self, entries: int) -> None:
        """Move the cursor of the list."""
        self._moved = True
        self.query_one(BarList).action_move(entries)

    def action_turn(self, by: int) -> None:
        """Narrow to the next kind that there is; before the first and after the last come all."""
        kinds = [None, *(kind for kind in KINDS if self._catalogue.count(kind))]
        self._take(kinds[(kinds.index(self.wanted.kind) + by) % len(kinds)])

    def _take(self, kind: Kind | None) -> None:
        """Narrow to a kind; the words stay."""
        field = self.query_one(Field)
        words = " ".join(self.wanted.words)
        field.value = words if kind is None else f"{kind.value} {words}"
        field.cursor_position = len(field.value)
