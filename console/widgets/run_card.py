"""One run of the past in full, as far as its summary tells: why it ended, and what it was."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Sequence

from console.listing import printable
from console.messages import took
from console.widgets import figures as fig
from console.widgets.identity import PHASE_GLYPHS
from console.widgets.runs_list import started
from console.widgets.sheet import Row, ScrollingSheet, clip
from launcher.runs.status import Status

_WHY, _LABEL = 2000, 9


class RunCard(ScrollingSheet):
    """The run under the cursor."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.run: Status | None = None

    def show(self, run: Status | None) -> None:
        """Show another run, or none."""
        if run is not None and self.run is not None and run.id != self.run.id:
            self.scroll_home(animate=False, immediate=True)
        self.run = run
        self.entitle("2 Run" if run is None else f"2 {run.id}")
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """A line for each thing that is known."""
        return () if self.run is None else [clip(row, width) for row in _rows(self.run, width)]


def _rows(run: Status, width: int) -> Iterator[Row]:
    glyph, style = PHASE_GLYPHS[run.state]
    code = "" if run.exit_code is None else f" · exit {run.exit_code}"
    yield ((f" {glyph} {run.state}{code}", f"{style} bold"), (f"  {run.name or run.id}", "bold"))
    for line in textwrap.wrap(printable(run.why[:_WHY]), max(width - 2, 20)):
        yield ((f" {line}", ""),)
    for label, value in _facts(run):
        if value:
            yield ((f" {label:<{_LABEL}}", "muted"), (" ".join(printable(value).split()), ""))


def _facts(run: Status) -> Iterator[tuple[str, str]]:
    yield "target", f"{run.target} {run.args}".strip()
    size = f"{run.num_processes} rank{'s' * (run.num_processes != 1)}, {run.mode or 'mode unknown'}"
    yield "ranks", size + (f", attempt {run.attempt}" if run.attempt else "")
    yield "when", f"{started(run.started)}" + (f", took {fig.duration(took(run))}" if run.state.final else "")
    yield "by", run.user + (f" on {run.host}" if run.host else "")
    yield "code", run.revision[:12] + (", with changes that are not committed" if run.dirty else "")
    yield "last", " · ".join(_figures(run))


def _figures(run: Status) -> Iterator[str]:
    if run.step is not None:
        yield f"step {run.step:,}"
    for name, value in run.metrics.items():
        yield f"{name} {fig.metric(value) if math.isfinite(value) else value}"
