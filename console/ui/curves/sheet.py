"""The pane of curves: a plot for each metric, or one metric in full; of one run, or of several together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message

from ... import formatting as fig
from ...data.curves.look import SMOOTHINGS, Interval, Look
from ...data.curves.run_curves import Axis, RunCurves, What, matching
from ...sanitize import printable
from ..widgets.rows import MadeRows, Row, ScrollingSheet, clip, width_of
from .canvas import Bands
from .plot import LABELS, Drawn, Mark, Plot, plot_rows

if TYPE_CHECKING:
    from textual import events

    from ...data.curves.window import Series

LEAST, TALLEST, WIDE = 7, 14, 100
"""The height of a plot in lines, and from which width two stand side by side."""

OWN, BEHIND = "bar", "muted"
_MARKS = {
    What.CHECKPOINT: ("◇", "rank-done"),
    What.RESTART: ("↻", "rank-stale"),
    What.ALERT: ("!", "rank-behind"),
    What.NOT_FINITE: ("×", "rank-failed"),
}
_NAME = 24


def style_of_run(number: int) -> str:
    """The style of the curves of one of several runs; 0 is the foremost."""
    return OWN if number == 0 else f"tint-{number}"


@dataclass(frozen=True, slots=True)
class Traced:
    """A run whose curves are drawn: its name in the legend, its style, and whether it has a band."""

    name: str
    curves: RunCurves
    style: str = OWN
    band: bool = False


class SeriesCache:
    """The series of the runs that are shown, each made once."""

    def __init__(self) -> None:
        self._made: dict[tuple[int, str, Axis], tuple[object, Series]] = {}

    def of(self, number: int, traced: Traced, metric: str, axis: Axis) -> Series | None:
        """The series of a metric of the run with a number; None if it has none."""
        points = traced.curves.points.get(metric)
        if points is None:
            return None
        known = self._made.get((number, metric, axis))
        if known is None or known[0] is not points:
            from ...data.curves.window import series_of

            known = points, series_of(points, axis, traced.curves.begin)
            self._made[number, metric, axis] = known
        return known[1]


class CurveSheet(ScrollingSheet, can_focus=True):
    """Draws curves, and lets a person read, zoom and compare them.

    Attributes:
        traced: the runs, the foremost first.
        metric: the one that is shown in full; None for all of them.
        wanted: what the names of metrics must contain; empty for all.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "move(-1)", "Cursor left", show=False, id="curves.left"),
        Binding("right", "move(1)", "Cursor right", show=False, id="curves.right"),
        Binding(
            "less_than_sign,shift+left",
            "pan(-1)",
            "Earlier",
            key_display="<",
            show=False,
            id="curves.earlier",
        ),
        Binding(
            "greater_than_sign,shift+right", "pan(1)", "Later", key_display=">", show=False, id="curves.later"
        ),
        Binding(
            "plus,equals_sign", "zoom_by(1)", "Zoom in", key_display="+", show=False, id="curves.zoom_in"
        ),
        Binding("minus", "zoom_by(-1)", "Zoom out", key_display="-", show=False, id="curves.zoom_out"),
        Binding("w", "whole", "The whole", show=False, id="curves.whole"),
        Binding("a", "axis", "Steps or time", show=False, id="curves.axis"),
        Binding("l", "log", "Logarithmic", show=False, id="curves.log"),
        Binding("s", "smooth(1)", "Smoother", show=False, id="curves.smoother"),
        Binding("enter", "open", "In full", show=False, id="curves.open"),
        Binding("S", "smooth(-1)", "Less smooth", show=False, id="curves.rougher"),
    ]

    class Opened(Message):
        """A metric is to be shown in full."""

        def __init__(self, metric: str | None) -> None:
            super().__init__()
            self.metric = metric

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.traced: Sequence[Traced] = ()
        self.metric: str | None = None
        self.wanted = ""
        self.look = Look()
        self._cache = SeriesCache()

    @property
    def all_metrics(self) -> list[str]:
        """The metrics of all runs in their usual order; those of the first run before others."""
        return list(dict.fromkeys(name for each in self.traced for name in each.curves.names))

    @property
    def metrics(self) -> list[str]:
        """Those of all metrics that are wanted."""
        return matching(self.all_metrics, self.wanted)

    def trace(self, traced: Sequence[Traced]) -> None:
        """Show these runs."""
        self.traced = traced
        self.refresh_rows()

    def show_metric(self, metric: str | None) -> None:
        """Show a metric in full, or all of them."""
        if metric != self.metric:
            self.metric = metric
            self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The plots; only those that are visible are drawn."""
        height = self.scrollable_content_region.height
        if self.metric is not None and self.metric in self.metrics:
            return self.plot(self.metric, width, max(height, LEAST))
        if self.wanted and not self.metrics:
            return [clip(((f" no metric has '{printable(self.wanted)}' in its name", "muted"),), width)]
        return self.plots(width, height)

    def plots(self, width: int, room: int) -> Sequence[Row]:
        """A plot for each metric, two side by side where they fit; they share `room` lines."""
        metrics = self.metrics
        per = 2 if width >= WIDE and len(metrics) > 1 else 1
        lines = -(-len(metrics) // per)
        height = min(max(room // max(lines, 1), LEAST), TALLEST if len(metrics) > 1 else room)
        height = max(height, LEAST)
        drawn: dict[int, list[Row]] = {}

        def row(number: int) -> Row:
            block, line = divmod(number, height)
            if block not in drawn:
                names = metrics[block * per : block * per + per]
                drawn[block] = _beside([self.plot(n, width // per, height) for n in names], width // per)
            return drawn[block][line]

        return MadeRows(lines * height, row)

    def plot(self, metric: str, width: int, height: int) -> list[Row]:
        """The plot of a metric, in `height` rows."""
        drawn = [*self._drawn(metric)][::-1]
        whole = _extent(drawn)
        if whole is None:
            return [
                clip(((f" {printable(metric)} ", "bold"), ("has no points", "muted")), width),
                *[()] * (height - 1),
            ]
        part = self.look.visible(whole)
        first = self.traced[0].curves
        plot = Plot(
            printable(metric),
            drawn,
            self.look.axis,
            part.start,
            part.end,
            log=self.look.log,
            marks=marks(first, self.look.axis, metric),
            cursor=self.look.cursor,
            smoothing=SMOOTHINGS[self.look.smoothing] / 100,
            bands=self.bands,
        )
        return plot_rows(plot, width, height)

    @property
    def bands(self) -> Bands:
        """How bands are drawn: ASCII has no character that could be told from a curve's."""
        if not self.app.no_color:
            return Bands.COLOURED
        ascii_only = getattr(getattr(self.app, "settings", None), "ascii", False)
        return Bands.NONE if ascii_only else Bands.TEXTURED

    def _drawn(self, metric: str) -> Iterator[Drawn]:
        for number, each in enumerate(self.traced):
            series = self._cache.of(number, each, metric, self.look.axis)
            if series is not None:
                name = fig.shorten(printable(each.name), _NAME) if len(self.traced) > 1 else ""
                dash = number if self.app.no_color else 0  # without colours, lines differ by their dashes
                yield Drawn(name, series, each.style, each.band, dash)

    def whole(self) -> Interval | None:
        """The part of the axis that has points of any metric shown."""
        shown = [self.metric] if self.metric in self.metrics and self.metric else self.metrics
        parts = [part for metric in shown if (part := _extent(self._drawn(metric))) is not None]
        return Interval(min(p.start for p in parts), max(p.end for p in parts)) if parts else None

    def change(self, look: Look) -> None:
        """Look at the curves in another way."""
        if look != self.look:
            self.look = look
            self.refresh_rows()

    def action_move(self, by: int) -> None:
        """Move the cursor by a cell, in full; by more in small plots."""
        if (whole := self.whole()) is not None:
            self.change(self.look.moved(whole, by / max(self._cells(), 20)))

    def action_pan(self, by: int) -> None:
        """Show what is before or after."""
        if (whole := self.whole()) is not None:
            self.change(self.look.panned(whole, by / 4))

    def action_zoom_by(self, by: int) -> None:
        """Show half of what is visible, around the cursor, or twice as much."""
        if (whole := self.whole()) is not None:
            self.change(self.look.zoomed(whole, 0.5 if by > 0 else 2.0))

    def action_whole(self) -> None:
        """Show everything, without a cursor."""
        self.change(Look(axis=self.look.axis, log=self.look.log, smoothing=self.look.smoothing))

    def action_axis(self) -> None:
        """Draw the curves over time, or over steps."""
        self.change(self.look.along(Axis.TIME if self.look.axis is Axis.STEP else Axis.STEP))

    def action_log(self) -> None:
        """Switch the logarithmic axis on or off."""
        self.change(self.look.scaled())

    def action_open(self) -> None:
        """Ask for the metric in full."""
        self.post_message(self.Opened(self.metric))

    def action_smooth(self, by: int) -> None:
        """Smooth the lines more, or less."""
        self.change(self.look.smoothed(by))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor where the mouse is."""
        whole = self.whole()
        cells = self._cells()
        content = event.get_content_offset(self)
        if whole is None or content is None:
            return
        at = content.x % (cells + LABELS + 1) - LABELS
        if 0 <= at < cells:
            part = self.look.visible(whole)
            self.change(self.look.at(whole, part.start + (at + 0.5) / cells * part.span))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in."""
        self._turn(event, 1)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out."""
        self._turn(event, -1)

    def _turn(self, event: events.MouseEvent, by: int) -> None:
        """The wheel zooms a metric in full; plots of all metrics are scrolled by it."""
        if self.metric in self.metrics:
            event.stop()
            event.prevent_default()
            self.action_zoom_by(by)

    def _cells(self) -> int:
        """The width of a plot's field."""
        width = self.scrollable_content_region.width
        single = self.metric in self.metrics or width < WIDE or len(self.metrics) < 2
        return max((width if single else width // 2) - LABELS - 1, 1)


def _extent(drawn: Iterable[Drawn]) -> Interval | None:
    """The part of the axis that has points of some curves; None if none has any."""
    series = [each.series for each in drawn if len(each.series)]
    if not series:
        return None
    start, end = min(float(s.x[0]) for s in series), max(float(s.x[-1]) for s in series)
    return Interval(start, end if end > start else start + 1)


def marks(curves: RunCurves, axis: Axis, metric: str) -> list[Mark]:
    """What happened, as marks of a plot; of values that are not finite, those of its metric."""
    found = []
    for each in curves.happened:
        at = each.at(axis, curves.begin)
        if at is not None and each.metric in ("", metric):
            found.append(Mark(at, *_MARKS[each.what], printable(each.text)))
    return found


def _beside(blocks: Sequence[list[Row]], width: int) -> list[Row]:
    rows = []
    for lines in zip(*blocks, strict=True):
        row: Row = ()
        for line in lines:
            line = clip(line, width)
            row = (*row, *line, (" " * (width - width_of(line)), ""))
        rows.append(row)
    return rows
