"""The panes of the history screen: the list of runs, and one run in full."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.reactive import Reactive

from launcher.diagnosis.failing_code import traceback_text
from launcher.diagnosis.stacks import stacks_block
from launcher.diagnosis.wording import cause_lines
from launcher.display.artifacts import total_line
from launcher.runs.status import Status
from launcher.state.events import LimitNear
from launcher.state.run_state import RunState

from ... import formatting as fig
from ...data.history.arguments import Differences
from ...data.history.columns import ARGS, CURVE, STATE, RunColumn, run_columns, text_line
from ...data.history.query import took_text
from ...data.run.model import PHASE_GLYPHS
from ...data.run.narration import record_line, xid_lines
from ...data.run.usage import use_texts
from ...sanitize import printable
from ..launch.panes import outcome
from ..run.failure import circumstances, place
from ..widgets.lists import NUMBERED, Column, LongList, Sorted, fitting, marked_head
from ..widgets.rows import Row, ScrollingSheet, clip, wrapped_rows

if TYPE_CHECKING:
    from textual import events

    from ...data.history.run_list import RunRecord
    from ...data.history.series import Series, Wanted

_IMPORTANT = 80
_LEAD, _LEAST, _NARROW, _SOME_ARGS = 13, 20, 64, 18


def _fitted(columns: Sequence[RunColumn], width: int, wanted: int) -> list[Column[Status]]:
    """The columns that fit beside the state and some words of the reason.

    Arguments get the `wanted` width, or as much of it as leaves the most important others.
    """
    room = width - _LEAD - (max(_LEAST, width // 4) if width >= _NARROW else _LEAST // 2)
    known = [Column(c.title, c.width, c.text, c.keep, c.style, c.left, c.name) for c in columns]
    must = {c.name for c in fitting(known, room) if c.name == ARGS or c.keep >= _IMPORTANT}
    for args in (wanted, _SOME_ARGS, 0):
        shown = fitting([replace(c, width=max(c.width, args)) if c.name == ARGS else c for c in known], room)
        if args == 0 or must <= {column.name for column in shown}:
            break
    left = room - sum(column.width + 1 for column in shown)
    return [
        replace(c, width=max(min(c.width + left, wanted), c.width)) if c.name == ARGS else c for c in shown
    ]


class RunsList(LongList[Status]):
    """The runs, with a cursor, and with marks for actions on several runs at once."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", id="history.mark"),
    ]

    class SortAsked(Message):
        """The head of a column was clicked; an empty name is that of the reasons."""

        def __init__(self, name: str) -> None:
            super().__init__()
            self.name = name

    # a watched attribute and no message, so that the card is painted in the same frame as the cursor
    here: Reactive[Status | None] = Reactive(None, repaint=False)
    """The run under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.marked: dict[str, None] = {}
        self.empty = ""
        self.sorted_by: Sorted = NUMBERED
        self.wants: Callable[[Sequence[Wanted]], None] = lambda _: None
        self._differences = Differences()
        self.series: Mapping[str, Series] = {}
        self._fitting: tuple[object, list[Column[Status]]] = None, []

    def show(self, runs: Sequence[Status], *, empty: str, differences: Differences | None = None) -> None:
        """Show these runs, with the cursor on the same run; `empty` is the text if there is none."""
        here = self.chosen
        self.items, self.empty = tuple(runs), empty
        self._differences = differences or Differences()
        at = next((i for i, run in enumerate(runs) if here is not None and run.id == here.id), None)
        before = self.cursor
        self.cursor = min(self.cursor, max(len(runs) - 1, 0)) if at is None else at
        self.refresh_rows()
        if self.cursor != before:  # else the person may have scrolled elsewhere
            self.reveal(self.cursor + self.fixed)
        self.here = self.chosen

    def add_series(self, series: Mapping[str, Series]) -> None:
        """Draw the curves of these runs."""
        self.series = series
        self.refresh_rows()

    def refresh_rows(self) -> None:
        """Make the rows again, and ask for the curves of those that are visible."""
        super().refresh_rows()
        self._want()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Ask for the curves of the rows that have become visible."""
        super().watch_scroll_y(old_value, new_value)
        self._want()

    def _want(self) -> None:
        if any(column.name == CURVE for column in self._columns(self.scrollable_content_region.width)):
            top = self.scroll_offset.y
            self.wants([(run.id, run.state.final) for run in self.items[top : top + self.size.height]])

    def _columns(self, width: int) -> list[Column[Status]]:
        wanted = self._differences.width
        if self._fitting[0] != (width, wanted):
            chosen: Mapping[str, Sequence[str]] = getattr(self.app, "columns", {})
            names = chosen.get("history", ())
            known = [c for c in run_columns(names) if names or c.name != ARGS or wanted]
            self._fitting = (width, wanted), _fitted(known, width, wanted)
        return self._fitting[1]

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose head was clicked."""
        if event.y - self.gutter.top == 0:
            event.prevent_default()
            self.post_message(self.SortAsked(self._column_at(event.x - self.gutter.left)))

    def _column_at(self, x: int) -> str:
        at = _LEAD
        for column in self._columns(self.scrollable_content_region.width):
            if at <= x <= at + column.width:
                return column.name
            at += column.width + 1
        return STATE if x < _LEAD else ""

    @property
    def shows_cursor(self) -> bool:
        """Always, because the card below the list is about that run."""
        return True

    def action_move(self, items: int) -> None:
        """Move the cursor, and update `here`."""
        super().action_move(items)
        self.here = self.chosen

    def around(self) -> list[Status]:
        """The runs directly below and above the cursor."""
        return [self.items[i] for i in (self.cursor + 1, self.cursor - 1) if 0 <= i < len(self.items)]

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor, and move to the next."""
        if (run := self.chosen) is not None:
            self.toggle(run.id)
            self.action_move(1)

    def toggle(self, run: str) -> None:
        """Set or remove a mark."""
        if run in self.marked:
            del self.marked[run]
        else:
            self.marked[run] = None
        self.refresh_rows()

    def unmark(self) -> None:
        """Remove all marks."""
        self.marked.clear()
        self.refresh_rows()

    def head_row(self, width: int) -> Row:
        """The titles of the columns."""
        heads = [(f"   {'state':<{_LEAD - 4}}", STATE)]
        heads += [(f" {column.head}", column.name) for column in self._columns(width)]
        by = self.sorted_by
        cells = [(marked_head(head, by, name), "" if name == by.name else "muted") for head, name in heads]
        return clip((*cells, (" why, or the last figures", "muted")), width)

    def empty_row(self) -> Row:
        """The text `empty`."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """A run, clipped to the width."""
        run = self.items[index]
        glyph, style = PHASE_GLYPHS[run.state]
        mark = "*" if run.id in self.marked else " "
        row: Row = (
            (mark, f"bold{ground}"),
            (f"{glyph} {run.state:<{_LEAD - 3}}", style + ground),
            *((f"{self._cell(column, run)} ", column.style + ground) for column in self._columns(width)),
            *((text, style + ground) for text, style in _reached(run)),
        )
        return clip(row, width)

    def _cell(self, column: Column[Status], run: Status) -> str:
        if column.name == ARGS:
            return column.aligned(text_line(self._differences.text(run)))
        if column.name == CURVE:
            return fig.curve(self.series.get(run.id, ()), column.width, low=True)
        return column.text(run)


def _reached(run: Status) -> Row:
    """Why a run ended, or its last figures: the state is in a column of its own."""
    first, *more = outcome(run)
    if first[0] != run.state:
        return (first, *more)
    return tuple(
        (text.removeprefix(" · ") if at == 0 else text, style) for at, (text, style) in enumerate(more)
    )


_WHY, _LABEL = 2000, 9
_UNWRAPPED = 1 << 20
_LIMITS = {"time": "in all", "start": "of waiting for slots", "progress": "without progress"}


class RunCard(ScrollingSheet):
    """The run under the cursor. The scroll bar is always shown, so that all runs have the same width."""

    DEFAULT_CSS = "RunCard { overflow-y: scroll; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.run: Status | None = None
        self.record: RunRecord | None = None

    def show(self, run: Status | None, record: RunRecord | None = None) -> None:
        """Show another run, or none; with its record, if that was read."""
        if run is None or self.run is None or run.id != self.run.id:
            self.record = record
            self.scroll_home(animate=False, immediate=True)
        self.run = run
        self.entitle("2 Run" if run is None else f"2 {run.id}")
        self.refresh_rows()

    def add_record(self, record: RunRecord) -> None:
        """Show a record, if it is of the shown run."""
        if self.run is not None and record.state.id == self.run.id:
            self.record = record
            self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The card's rows; none without a run."""
        if self.run is None:
            return ()
        return [clip(row, width) for row in card_rows(self.run, self.record, width)]

    @property
    def text(self) -> str:
        """The whole card as text, for the clipboard; empty without a run."""
        return "" if self.run is None else card_text(self.run, self.record)


def card_text(run: Status, record: RunRecord | None) -> str:
    """The card as plain text."""
    lines = ("".join(text for text, _ in row) for row in card_rows(run, record, _UNWRAPPED))
    return "\n".join([run.id, *(line.removeprefix(" ").rstrip() for line in lines), ""])


def card_rows(run: Status, record: RunRecord | None, width: int) -> Iterator[Row]:
    """The card's rows: how the run ended, what it was, and then traceback and stacks."""
    glyph, style = PHASE_GLYPHS[run.state]
    code = "" if run.exit_code is None else f" · exit {run.exit_code}"
    name = " ".join(printable(run.name or run.id).split())
    yield ((f" {glyph} {run.state}{code}", f"{style} bold"), (f"  {name}", "bold"))
    yield from wrapped_rows(run.why[:_WHY], width)
    if run.unreadable is not None:
        yield from wrapped_rows(f"! unreadable: {run.unreadable[:_WHY]}", width, "rank-behind")
    if record is not None:
        yield from _end(record, width)
    for label, value in _facts(run):
        if value:
            yield ((f" {label:<{_LABEL}}", "muted"), (" ".join(printable(value).split()), ""))
    if record is not None and (used := " · ".join(use_texts(record.use))):
        yield ((f" {'used':<{_LABEL}}", "muted"), (used, ""))
    if record is not None and (came := total_line(record.state)):
        yield ((f" {'files':<{_LABEL}}", "muted"), (f"{came}: rankdeck artifacts {run.id}", ""))
    if figures := _figures(run):
        yield ((f" {'last':<{_LABEL}}", "muted"), *figures)
    if record is not None:
        yield from _long(record.state, width)


def _end(record: RunRecord, width: int) -> Iterator[Row]:
    """What the record adds to the reason: how ranks ended, restarts, limits that were near, and notes."""
    state = record.state
    first = state.first_failure
    if first is not None:
        yield from wrapped_rows(circumstances(state, first), width, "muted")
        yield from wrapped_rows(f"in {place(first)}" if place(first) else "", width, "muted")
    for line in cause_lines(state.found):
        yield from wrapped_rows(line, width)
    for restart in state.restarts:
        yield from wrapped_rows(f"attempt {restart.attempt} began because {restart.reason}", width, "muted")
    for near in record.limits:
        yield from wrapped_rows(f"! {_limit_line(near, state.started)}", width, "rank-behind")
    notes = (note.text for note in state.notes)
    for text in (*xid_lines(state), *notes, record_line(state), record.problem):
        yield from wrapped_rows(f"! {text}" if text else "", width, "rank-behind")


def _limit_line(near: LimitNear, started: float | None) -> str:
    what = _LIMITS.get(near.limit, near.limit)
    after = "" if started is None else f"after {fig.duration(max(near.time - started, 0.0))} "
    return f"{after}the limit of {near.limit_s:g} s {what} was near"


def _long(state: RunState, width: int) -> Iterator[Row]:
    """The traceback of the first failure, and the stacks that were taken last."""
    first = state.first_failure
    if first is not None and first.raised is not None and first.raised.traceback:
        yield from _block(
            f"Traceback of rank {first.rank} on {first.host}", traceback_text(first.raised), width
        )
    if stacks := state.last_stacks:
        count = len(stacks)
        yield from _block(f"Stacks of {fig.number(count, 'rank')}", stacks_block(state, stacks), width)


def _block(title: str, text: str, width: int) -> Iterator[Row]:
    yield ()
    yield from wrapped_rows(title, width, "bold")
    for line in text.rstrip().splitlines():
        yield from wrapped_rows(line, width) if line.strip() else ((),)


def _facts(run: Status) -> Iterator[tuple[str, str]]:
    yield "target", f"{run.target} {run.args}".strip()
    size = f"{fig.number(run.num_processes, 'rank')}, {run.mode or 'mode unknown'}"
    yield "ranks", size + (f", attempt {run.attempt}" if run.attempt else "")
    yield "when", fig.date(run.started) + (f", took {took_text(run)}" if run.state.final else "")
    yield "by", run.user + (f" on {run.host}" if run.host else "")
    yield "code", run.revision[:12] + (", with changes that are not committed" if run.dirty else "")


def _figures(run: Status) -> Row:
    """The step and the metrics that the run reported last."""
    step = [] if run.step is None else [(f"step {fig.count(run.step)}", "")]
    spans = [*step, *fig.metric_spans(run.metrics, "")]
    return tuple((" · " * bool(at) + printable(text), style) for at, (text, style) in enumerate(spans))
