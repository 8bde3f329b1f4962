"""One run of the past in full: why it ended, what it was, and all that its record tells of its end."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from textual.geometry import Size
from textual.scroll_view import ScrollView

from console.losses import record_line
from console.messages import stacks_block, took
from console.sources.cleaning import printable
from console.widgets import figures as fig
from console.widgets.failure import circumstances, place
from console.widgets.identity import PHASE_GLYPHS
from console.widgets.runs_list import started
from console.widgets.sheet import Row, ScrollingSheet, clip, differing, safe
from launcher.events import LimitNear
from launcher.runs.status import Status
from launcher.state import RunState

if TYPE_CHECKING:
    from console.sources.records import Record

_WHY, _LABEL = 2000, 9
_UNWRAPPED = 1 << 20
_LIMITS = {"time": "in all", "start": "of waiting for slots", "progress": "without progress"}


class RunCard(ScrollingSheet):
    """The run under the cursor. Its scroll bar is always there, so that no other run has another width."""

    DEFAULT_CSS = "RunCard { overflow-y: scroll; }"

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.run: Status | None = None
        self.record: Record | None = None

    def show(self, run: Status | None, record: Record | None = None) -> None:
        """Show another run, or none; with what its folder tells, if that is known."""
        if run is None or self.run is None or run.id != self.run.id:
            self.record = record
            self.scroll_home(animate=False, immediate=True)
        self.run = run
        self.entitle("2 Run" if run is None else f"2 {run.id}")
        self.refresh_rows()

    def tell(self, record: Record) -> None:
        """Show what the folder tells, if it is that of the run which is shown."""
        if self.run is not None and record.state.id == self.run.id:
            self.record = record
            self.refresh_rows()

    def _lay_out(self, width: int) -> None:
        """Repaint only what differs also where there are more rows than before, or fewer."""
        old, self._rows = self._rows, tuple(safe(row) for row in self.rows(width))
        if len(old) != len(self._rows):
            # as an assignment would, but without a new layout of the screen: no size depends on it
            self.set_reactive(ScrollView.virtual_size, Size(width, len(self._rows)))
            self._scroll_update(self.virtual_size)
        pairs = enumerate(zip_longest(old, self._rows, fillvalue=()))
        self.repaint_rows((n, *differing(before, after)) for n, (before, after) in pairs if before != after)

    def rows(self, width: int) -> Sequence[Row]:
        """A line for each thing that is known."""
        if self.run is None:
            return ()
        return [clip(row, width) for row in card_rows(self.run, self.record, width)]

    @property
    def text(self) -> str:
        """All of it, to be copied; empty without a run."""
        return "" if self.run is None else card_text(self.run, self.record)


def card_text(run: Status, record: Record | None) -> str:
    """The card as plain text."""
    lines = ("".join(text for text, _ in row) for row in card_rows(run, record, _UNWRAPPED))
    return "\n".join([run.id, *(line.removeprefix(" ").rstrip() for line in lines), ""])


def card_rows(run: Status, record: Record | None, width: int) -> Iterator[Row]:
    """The card for a pane that is `width` cells wide: the end, what the run was, and then what is long."""
    glyph, style = PHASE_GLYPHS[run.state]
    code = "" if run.exit_code is None else f" · exit {run.exit_code}"
    name = " ".join(printable(run.name or run.id).split())
    yield ((f" {glyph} {run.state}{code}", f"{style} bold"), (f"  {name}", "bold"))
    yield from _wrapped(run.why[:_WHY], width)
    if run.unreadable is not None:
        yield from _wrapped(f"! unreadable: {run.unreadable[:_WHY]}", width, "rank-behind")
    if record is not None:
        yield from _end(record, width)
    for label, value in _facts(run):
        if value:
            yield ((f" {label:<{_LABEL}}", "muted"), (" ".join(printable(value).split()), ""))
    if figures := _figures(run):
        yield ((f" {'last':<{_LABEL}}", "muted"), *figures)
    if record is not None:
        yield from _long(record.state, width)


def _end(record: Record, width: int) -> Iterator[Row]:
    """What the facts add to the reason: which ranks ended how, and what had been told before."""
    state = record.state
    first = state.first_failure
    if first is not None:
        yield from _wrapped(circumstances(state, first), width, "muted")
        yield from _wrapped(f"in {place(first)}" if place(first) else "", width, "muted")
    for restart in state.restarts:
        yield from _wrapped(f"attempt {restart.attempt} began because {restart.reason}", width, "muted")
    for near in record.limits:
        yield from _wrapped(f"! {_limit_line(near, state.started)}", width, "rank-behind")
    for text in (*(note.text for note in state.notes), record_line(state), record.problem):
        yield from _wrapped(f"! {text}" if text else "", width, "rank-behind")


def _limit_line(near: LimitNear, started: float | None) -> str:
    what = _LIMITS.get(near.limit, near.limit)
    after = "" if started is None else f"after {fig.duration(max(near.time - started, 0.0))} "
    return f"{after}the limit of {near.limit_s:g} s {what} was near"


def _long(state: RunState, width: int) -> Iterator[Row]:
    """The traceback, and the stacks that were taken last."""
    first = state.first_failure
    if first is not None and first.raised is not None and first.raised.traceback:
        yield from _block(f"Traceback of rank {first.rank} on {first.host}", first.raised.traceback, width)
    if state.stacks:
        count = len(state.stacks)
        yield from _block(f"Stacks of {count} rank{'s' * (count > 1)}", stacks_block(state), width)


def _block(title: str, text: str, width: int) -> Iterator[Row]:
    yield ()
    yield from _wrapped(title, width, "bold")
    for line in text.rstrip().splitlines():
        yield from _wrapped(line, width) if line.strip() else ((),)


def _wrapped(text: str, width: int, style: str = "") -> Iterator[Row]:
    """Lines of a text that keeps its indentation; nothing for an empty one."""
    for line in printable(text).splitlines():
        inner = line.lstrip()
        indent = " " * min(len(line) - len(inner), width // 2)
        wrapped = textwrap.wrap(
            inner, max(width - 2, 20), initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
        )
        yield from (((f" {part}", style),) for part in wrapped)


def _facts(run: Status) -> Iterator[tuple[str, str]]:
    yield "target", f"{run.target} {run.args}".strip()
    size = f"{run.num_processes} rank{'s' * (run.num_processes != 1)}, {run.mode or 'mode unknown'}"
    yield "ranks", size + (f", attempt {run.attempt}" if run.attempt else "")
    yield "when", f"{started(run.started)}" + (f", took {fig.duration(took(run))}" if run.state.final else "")
    yield "by", run.user + (f" on {run.host}" if run.host else "")
    yield "code", run.revision[:12] + (", with changes that are not committed" if run.dirty else "")


def _figures(run: Status) -> Row:
    """What it reported last."""
    step = [] if run.step is None else [(f"step {fig.count(run.step)}", "")]
    told = [*step, *fig.metric_spans(run.metrics, "")]
    return tuple((" · " * bool(number) + printable(text), style) for number, (text, style) in enumerate(told))
