"""The first lines of the run screen: which run, how large, in which state, and in which Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from console.losses import record_line
from console.messages import RunView
from console.widgets import figures as fig
from console.widgets.sheet import Row, Sheet, Span, clip, spread
from launcher.state import Phase

PHASE_GLYPHS = {
    Phase.SUBMITTED: ("○", "rank-waiting"),
    Phase.WAITING: ("○", "rank-behind"),
    Phase.STARTING: ("◐", "rank-waiting"),
    Phase.RUNNING: ("●", "rank-ok"),
    Phase.STOPPING: ("◑", "rank-behind"),
    Phase.SUCCEEDED: ("✓", "rank-done"),
    Phase.FAILED: ("✗", "rank-failed"),
    Phase.STOPPED: ("■", "rank-stopped"),
    Phase.LOST: ("-", "rank-lost"),
}


_SPARK = ("cluster", "connect")


class ViewSheet(Sheet):
    """A sheet over the run's view."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Show another moment of the run."""
        self.view = view
        self.refresh_rows()

    def fit(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows, with the sheet made as tall as they are."""
        if self.styles.height is None or self.styles.height.value != len(rows):
            self.styles.height = len(rows)
        return rows


class RunHeader(ViewSheet):
    """Which run this is, and in which state."""

    def rows(self, width: int) -> Sequence[Row]:
        """One line, one more where Spark is concerned, and one where the record has gaps."""
        if self.view is None:
            return [((" …", "muted"),)]
        rows = [header_row(self.view, width)]
        if self.view.state.mode in _SPARK:
            rows.append(spark_row(self.view, width))
        if record := record_line(self.view.state):
            rows.append(clip(((f" {record}", "rank-behind bold"),), width))
        return self.fit(rows)


def header_row(view: RunView, width: int) -> Row:
    """State, name, size, attempt and elapsed time; the id at the right."""
    state = view.state
    glyph, style = PHASE_GLYPHS[state.phase]
    elapsed = None if state.started is None else (state.ended or view.now) - state.started
    left: Row = (
        (f" {glyph} {state.phase}", f"{style} bold"),
        (f"  {state.name or state.id}", "bold"),
        (f"  {gang(view)}", ""),
        (attempt(view), "rank-behind" if state.attempt else "muted"),
        (f"  {fig.clock(elapsed)}", "bold"),
    )
    return spread(left, ((f"{state.id} ", "muted"),), width)


def attempt(view: RunView) -> str:
    """Which attempt goes on, and how many may follow the first; empty where there is only one."""
    if not (view.state.attempt or view.max_restarts):
        return ""
    return f"  attempt {view.state.attempt}" + (f"/{view.max_restarts}" if view.max_restarts else "")


def spark_row(view: RunView, width: int) -> Row:
    """How the run reaches its ranks; what matters least leaves first where room is short."""
    state, spark, delivery = view.state, view.state.spark, view.state.delivery
    parts = [(state.mode, "bold", 9)]
    if spark is None:
        parts.append(("no Spark session" + (" yet" if view.live else ""), "muted", 8))
    else:
        parts += [(spark.application, "", 7), (spark.ui, "", 6), (spark.master, "muted", 4)]
    if delivery is not None:
        way = f"output {delivery.way}"
        parts.append((way, "muted", 3) if delivery.way == "live" else (way, "rank-behind", 8))
    parts = [part for part in parts if part[0]]
    while len(parts) > 1 and sum(len(text) + 3 for text, _, _ in parts) > width + 1:
        parts.remove(min(parts, key=lambda part: part[2]))
    spans: list[Span] = [(" ", "")]
    for number, (text, style, _) in enumerate(parts):
        spans += [(" · ", "muted")] * (number > 0) + [(text, style)]
    return clip(tuple(spans), width)


def gang(view: RunView) -> str:
    """How many ranks, on how many hosts, with which devices."""
    parts = [f"{view.size} rank{'s' * (view.size != 1)}"]
    if view.ranks:
        hosts = len({v.rank.host for v in view.ranks})
        parts.append(f"{hosts} host{'s' * (hosts != 1)}")
        devices = [d for v in view.ranks for d in v.rank.devices]
        names = Counter(d.name or "GPU" for d in devices)
        parts.append(" + ".join(f"{n}×{name}" for name, n in names.items()) if devices else "CPU")
    return " · ".join(parts)
