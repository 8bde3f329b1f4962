"""What happened so far, as curves; and what was alarming."""

from __future__ import annotations

import time
from collections.abc import Sequence

from console.messages import Alert, Metric, NotFinite, RunView, named_ranks
from console.widgets import figures as fig
from console.widgets.pace_rows import host_rows, pace_rows
from console.widgets.plots import plot_rows
from console.widgets.sheet import Row, ScrollingSheet, clip

_HEIGHT, _TALLEST, _WIDE = 5, 12, 100
_SHARES = ((Metric.USE, "GPU % of all ranks"), (Metric.MEMORY, "GPU memory %"), (Metric.POWER, "power %"))


class Charts(ScrollingSheet):
    """Reported figures over the whole run, devices over the last minutes, and the alerts."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Show another moment; nothing is drawn while the pane is not."""
        self.view = view
        if self.display:
            self.refresh_rows()
        past = f"reading the past, {fig.percent(view.recalled * 100)}" if view.recalled < 1 else ""
        self.entitle("5 Charts", " · ".join(filter(None, (past, alarm_count(view)))))

    def on_show(self) -> None:
        """Draw what came while the pane was hidden."""
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """Step times and alerts first, then the curves, and the hosts."""
        if self.view is None or not self.display:
            return [()]
        above = [*pace_rows(self.view), *alert_rows(self.view)]
        below = host_rows(self.view)
        room = self.scrollable_content_region.height - len(above) - len(below) - 1
        drawn = [*chart_rows(self.view, width, room), *([()] if below else []), *below]
        return [*(clip(row, width) for row in above), *(clip(row, width) for row in drawn)]


def chart_rows(view: RunView, width: int, room: int = 0) -> list[Row]:
    """Every curve there is, two side by side where there is room; they share `room` lines if those do."""
    gang = view.progress.gang
    plots = [(name, values, None) for name, values in view.progress.curves.items()]
    shares = [(name, gang.get(metric, ()), (0.0, 100.0)) for metric, name in _SHARES]
    drawn = [(name, values, scale) for name, values, scale in (*plots, *shares) if len(values) > 1]
    if not drawn:
        return [((" nothing to chart yet: launcher.report(step=…, loss=…) gives curves", "muted"),)]
    per = 2 if width >= _WIDE else 1
    height = min(max(room // -(-len(drawn) // per), _HEIGHT), _TALLEST)
    blocks = [
        plot_rows(n, v, width // per, height, scale=s, span=_span(len(v), lately=s is not None))
        for n, v, s in drawn
    ]
    return [row for at in range(0, len(blocks), per) for row in _beside(blocks[at : at + per], width // per)]


def _span(points: int, *, lately: bool) -> str:
    return f"last {points} samples" if lately else "whole attempt"


def _beside(blocks: Sequence[list[Row]], width: int) -> list[Row]:
    rows = []
    for lines in zip(*blocks, strict=True):
        row: Row = ()
        for line in lines:
            line = clip(line, width)
            row = (*row, *line, (" " * (width - sum(len(text) for text, _ in line)), ""))
        rows.append(row)
    return rows


def alarm_count(view: RunView) -> str:
    """How many alerts go on."""
    active = sum(alert.over is None for alert in view.alerts)
    return f"! {_alerts(active)}" if active else ""


def alarm_line(view: RunView) -> Row:
    """What is alarming now, in one line; empty if nothing is."""
    what: dict[str, list[Alert]] = {}
    for alert in view.alerts:
        if alert.over is None:
            what.setdefault(alert.what, []).append(alert)
    if not what:
        return ()
    said = " · ".join(map(_together, what.values()))
    return ((f" ! {_alerts(sum(map(len, what.values())))}: ", "rank-behind bold"), (said, "rank-behind"))


def _together(alerts: Sequence[Alert]) -> str:
    """One thing that is wrong with some ranks."""
    ranks, what, figure = sorted(alert.rank for alert in alerts), alerts[0].what, alerts[0].figure
    if figure:
        step = min((alert.step for alert in alerts if alert.step is not None), default=None)
        return str(NotFinite(figure, tuple(ranks), step))
    return what if ranks[0] < 0 else f"{named_ranks(ranks)} {what}"


def _alerts(count: int) -> str:
    return f"{count} alert{'s' * (count != 1)}"


def alert_rows(view: RunView) -> list[Row]:
    """All alerts that are remembered, the newest first."""
    rows = [_alert_row(alert) for alert in view.alerts]
    return [*rows, ()] if rows else []


def _alert_row(alert: Alert) -> Row:
    when = time.strftime("%H:%M:%S", time.localtime(alert.since))
    said = _together([alert])
    if alert.over is None:
        return ((f" ! {when} ", "rank-behind bold"), (said, ""))
    return (
        (f" ✓ {when} ", "muted"),
        (f"{said}, for {fig.age(int(alert.over - alert.since))}", "muted"),
    )
