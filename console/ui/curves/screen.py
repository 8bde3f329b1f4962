"""The screen of a run's curves: its metrics at the left, one of them in full or all, past runs behind it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.cells import set_cell_size
from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message

from launcher.errors import LauncherError

from ... import formatting as fig
from ...data.curves.run_curves import RunCurves
from ...data.history.behind import Behind, behind
from ...export.curves import write_curves
from ...sanitize import printable
from ..navigation import NavigableScreen, launch_screen
from ..widgets.fields import FilterField
from ..widgets.key_line import KeyLine
from ..widgets.lists import CursorSheet
from ..widgets.rows import Row, clip
from .sheet import BEHIND, CurveSheet, Traced, style_of_run

if TYPE_CHECKING:
    from textual import events
    from textual.app import ComposeResult

_NARROW = 80


class MetricList(CursorSheet[str]):
    """The metrics and their last values. The one under the cursor is shown in full."""

    def __init__(self) -> None:
        super().__init__(id="metrics", classes="pane")
        self.curves: RunCurves | None = None

    @property
    def shows_cursor(self) -> bool:
        """Always: the focus is on the plot."""
        return True

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """A metric and its last value."""
        name = self.items[index]
        points = self.curves.points.get(name) if self.curves is not None else None
        value = float(points.mid[-1]) if points is not None and len(points) else None
        last = fig.UNKNOWN if value is None else fig.metric(value)
        room = max(width - len(last) - 3, 4)
        style = fig.metric_style(value) if value is not None else "muted"
        ((shown, _),) = clip(((printable(name), ""),), room)
        return (
            (f" {set_cell_size(shown, room)} ", ground.strip()),
            (f"{last} ", f"{style}{ground}"),
        )

    def empty_row(self) -> Row:
        """Before the first report, or because the filter hides all."""
        hidden = self.curves is not None and bool(self.curves.names)
        return ((" none has it" if hidden else " no metrics yet", "muted"),)


class CurvesScreen(NavigableScreen):
    """All curves of a run, live or ended."""

    TOPIC = "curves"
    AUTO_FOCUS = "#curves"
    DEFAULT_CSS = """
    CurvesScreen #metrics { width: 26; height: 1fr; }
    CurvesScreen #curves { width: 1fr; height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", id="curves.back"),
        Binding("down,j", "metric(1)", "Next metric", show=False, priority=True, id="curves.next"),
        Binding("up,k", "metric(-1)", "Previous metric", show=False, priority=True, id="curves.previous"),
        Binding("v", "all", "All metrics", id="curves.all"),
        Binding("slash", "filter", "Filter", key_display="/", id="curves.filter"),
        Binding("B", "behind", "Past runs", id="curves.behind"),
        Binding("e", "export", "Export", id="curves.export"),
        Binding("q", "app.detach", "Quit", show=False, id="curves.quit"),
    ]

    class Found(Message):
        """The past runs to be shown."""

        def __init__(self, which: Behind, runs: Sequence[tuple[str, RunCurves]]) -> None:
            super().__init__()
            self.which, self.runs = which, runs

    def __init__(self, run: Path, label: str, curves: RunCurves, metric: str | None = None) -> None:
        super().__init__()
        self.run, self._label, self._curves = run, label, curves
        self._which, self._past = Behind.NONE, tuple[tuple[str, RunCurves], ...]()
        self._metric = metric
        self._shows_all = False

    def compose(self) -> ComposeResult:
        """The filter, the metrics, the plot, and the keys."""
        yield FilterField(placeholder="only metrics with this in their names")
        with Horizontal():
            yield MetricList()
            yield CurveSheet(id="curves", classes="pane")
        yield KeyLine("curves.behind", "curves.all", "curves.filter", "curves.export")

    def on_mount(self) -> None:
        """Show the first metric, or the given one."""
        metrics = self._curves.names
        first = self._metric if self._metric in metrics else next(iter(metrics), None)
        self.query_one(CurveSheet).metric = first
        self.query_one(MetricList).cursor = metrics.index(first) if first else 0
        self._show()

    def on_resize(self, event: events.Resize) -> None:
        """Leave the list out where the plot needs the room."""
        self.query_one(MetricList).display = event.size.width >= _NARROW

    def show(self, curves: RunCurves) -> None:
        """Show newer curves of the run."""
        if curves is not self._curves:
            self._curves = curves
            self._show()

    def _show(self) -> None:
        sheet, metrics = self.query_one(CurveSheet), self.query_one(MetricList)
        runs = [*enumerate(self._past, 1)]
        best = self._which is Behind.BEST
        past = [Traced(each, curves, BEHIND if best else style_of_run(n)) for n, (each, curves) in runs]
        sheet.trace([Traced(self._label, self._curves, band=True), *past])
        chosen = metrics.chosen
        metrics.curves, metrics.items = self._curves, sheet.metrics
        # a metric that has just arrived, or is no longer hidden, may stand above it
        if chosen is not None:
            metrics.cursor = metrics.items.index(chosen) if chosen in metrics.items else 0
        if sheet.metric is None and metrics.chosen and not self._shows_all:
            sheet.show_metric(metrics.chosen)
        metrics.refresh_rows()
        some = f" · {metrics.length} of {len(sheet.all_metrics)}" if sheet.wanted else ""
        metrics.entitle(f"Metrics{some}")
        behind_it = f"behind it: {self._which.value}" if self._which is not Behind.NONE else ""
        missing = " (none found)" if self._which is not Behind.NONE and not runs else ""
        sheet.entitle(f"Curves · {printable(self._label)}", f"{behind_it}{missing}")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Keys that are typed into the filter choose no metric."""
        return action != "metric" or not isinstance(self.focused, FilterField)

    def action_filter(self) -> None:
        """Open the field for the filter."""
        self.query_one(FilterField).open()

    @on(FilterField.Changed)
    def _narrow(self, message: FilterField.Changed) -> None:
        """List the metrics with this in their names; show one of them."""
        sheet, metrics = self.query_one(CurveSheet), self.query_one(MetricList)
        sheet.wanted = message.value.strip()
        self._show()
        if not self._shows_all and metrics.chosen is not None:
            sheet.show_metric(metrics.chosen)
        sheet.refresh_rows()
        metrics.reveal(metrics.cursor)

    @on(FilterField.Submitted)
    def _keep(self) -> None:
        self.query_one(CurveSheet).focus()

    def action_back(self) -> None:
        """Remove the filter; without one, leave."""
        if self.query_one(FilterField).close():
            self.query_one(CurveSheet).focus()
        else:
            self.dismiss()

    def action_metric(self, by: int) -> None:
        """Show another metric in full."""
        metrics, sheet = self.query_one(MetricList), self.query_one(CurveSheet)
        if self._shows_all:
            (sheet.action_scroll_down if by > 0 else sheet.action_scroll_up)()
            return
        metrics.action_move(by)
        sheet.show_metric(metrics.chosen)

    def on_click(self) -> None:
        """Show the metric that was clicked on."""
        if not self._shows_all:
            self.query_one(CurveSheet).show_metric(self.query_one(MetricList).chosen)

    def action_all(self) -> None:
        """Show all metrics, or again the one under the cursor."""
        self._shows_all = not self._shows_all
        sheet = self.query_one(CurveSheet)
        sheet.scroll_to(y=0, animate=False, immediate=True)
        sheet.show_metric(None if self._shows_all else self.query_one(MetricList).chosen)

    def action_behind(self) -> None:
        """Show other past runs behind this one."""
        self._which, self._past = self._which.next, ()
        self._show()
        self._find(self._which)

    @work(thread=True, group="behind", exclusive=True)
    def _find(self, which: Behind) -> None:
        from ...data.curves.making import curves_of  # with NumPy

        root = self.run.parent
        runs = [
            (fig.shorten(each.name or each.id, 16) + f" {each.id[-3:]}", root / each.id)
            for each in behind(root, self.run.name, which)
        ]
        self.post_message(self.Found(which, [(name, curves_of(folder)) for name, folder in runs]))

    @on(Found)
    def _show_found(self, message: Found) -> None:
        if message.which is self._which:
            self._past = tuple(message.runs)
            self._show()

    def action_export(self) -> None:
        """Write the curves as CSV and as SVG into the folder in which the console was started."""
        sheet = self.query_one(CurveSheet)
        self._export(sheet.traced, sheet.metric)

    @work(thread=True, group="export")
    def _export(self, traced: Sequence[Traced], metric: str | None) -> None:
        folder = launch_screen(self.app).site.workdir
        runs = [(each.name, each.curves) for each in traced]
        try:
            written = write_curves(folder, self.run.name, runs, metric, self.query_one(CurveSheet).look)
        except LauncherError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify("wrote " + " and ".join(path.name for path in written), markup=False)
