"""The charts of a run: curves of its figures, lines of summaries, and its alerts."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

from launcher.state.events import XidLogged
from launcher.state.run_state import Host

from ... import formatting as fig
from ...data.run.health import Alert, NotFinite, named_ranks
from ...data.run.metrics import LAG, POWER, TABLE, Metric, Source
from ...data.run.model import RankView, RunView, gpus_of, one_a_gpu, together
from ...data.run.narration import xid_line, xid_lines
from ...data.run.stragglers import differences, loader_line
from ...sanitize import printable
from ..widgets.plots import plot_rows
from ..widgets.rows import Row, Span, clip
from .view_sheet import ScrollingViewSheet

_HEIGHT, _TALLEST, _WIDE = 5, 12, 100


class Charts(ScrollingViewSheet):
    """Reported figures over the whole attempt, devices over the last minutes, and the alerts."""

    def show(self, view: RunView) -> None:
        """Show a newer view of the run; a hidden pane only keeps it."""
        if self.display:
            super().show(view)
        else:
            self.view = view
        past = f"reading the past, {fig.percent(view.recalled * 100)}" if view.recalled < 1 else ""
        self.entitle("5 Charts", " · ".join(filter(None, (past, alarm_count(view)))))

    def on_show(self) -> None:
        """Draw what arrived while the pane was hidden."""
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
    """All curves, two side by side if the width allows; they share `room` lines if these suffice."""
    gang = view.progress.gang
    plots = [(name, values, None) for name, values in view.progress.curves.items()]
    sampled = [(metric.plot, gang.get(metric, ()), (0.0, metric.top)) for metric in TABLE.plotted]
    drawn = [(name, values, scale) for name, values, scale in (*plots, *sampled) if len(values) > 1]
    if not drawn:
        hint = "" if view.state.prediction else ": launcher.report(step=…, loss=…) gives curves"
        return [((f" nothing to chart yet{hint}", "muted"),)]
    per = 2 if width >= _WIDE else 1
    height = min(max(room // -(-len(drawn) // per), _HEIGHT), _TALLEST)
    blocks = [
        plot_rows(n, v, width // per, height, scale=s, span=_span(len(v), lately=s is not None))
        for n, v, s in drawn
    ]
    return [row for at in range(0, len(blocks), per) for row in _beside(blocks[at : at + per], width // per)]


def _span(points: int, *, lately: bool) -> str:
    return f"last {fig.number(points, 'sample')}" if lately else "whole attempt"


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
    """The number of active alerts and errors of GPUs; empty if there are none."""
    active = len(view.state.xids) + sum(alert.over is None for alert in view.alerts)
    return f"! {_alerts(active)}" if active else ""


def alarm_line(view: RunView) -> Row:
    """The active alerts and the errors of GPUs in one line; empty if there are none."""
    by_kind: dict[str, list[Alert]] = {}
    for alert in view.alerts:
        if alert.over is None:
            by_kind.setdefault(alert.what, []).append(alert)
    lines = [*xid_lines(view.state), *filter(None, [loader_line(view)])]
    if not (by_kind or lines):
        return ()
    text = " · ".join([*lines, *map(_alert_text, by_kind.values())])
    count = len(lines) + sum(map(len, by_kind.values()))
    return ((f" ! {_alerts(count)}: ", "rank-behind bold"), (printable(text), "rank-behind"))


def _alert_text(alerts: Sequence[Alert]) -> str:
    """Alerts of one kind: the ranks, and what is wrong with them."""
    ranks, what, figure = sorted(alert.rank for alert in alerts), alerts[0].what, alerts[0].figure
    if figure:
        step = min((alert.step for alert in alerts if alert.step is not None), default=None)
        return str(NotFinite(figure, tuple(ranks), step))
    return what if ranks[0] < 0 else f"{named_ranks(ranks)} {what}"


def _alerts(count: int) -> str:
    return f"{fig.number(count, 'alert')}"


def alert_rows(view: RunView) -> list[Row]:
    """All alerts that the view holds, the newest first, after the errors of GPUs."""
    rows = [_xid_row(logged) for logged in view.state.xids] + [_alert_row(alert) for alert in view.alerts]
    return [*rows, ()] if rows else []


def _xid_row(logged: XidLogged) -> Row:
    when = time.strftime("%H:%M:%S", time.localtime(logged.time))
    return ((f" ! {when} ", "rank-behind bold"), (printable(xid_line(logged)), ""))


def _alert_row(alert: Alert) -> Row:
    when = time.strftime("%H:%M:%S", time.localtime(alert.since))
    text = _alert_text([alert])
    if alert.over is None:
        return ((f" ! {when} ", "rank-behind bold"), (text, ""))
    return (
        (f" ✓ {when} ", "muted"),
        (f"{text}, for {fig.age(int(alert.over - alert.since))}", "muted"),
    )


_LABEL, _STRIP = 7, 16
_SLOW = 1.2
_HOSTS = 16


def pace_rows(view: RunView) -> list[Row]:
    """Step times, lag and power on a line each, as far as they are known."""
    return [((f" {label:<{_LABEL}}", "muted"), *spans) for label, spans in _figures(view) if spans]


def pace_row(view: RunView) -> Row:
    """The same in one line."""
    spans: list[Span] = []
    for label, figures in _figures(view):
        if figures:
            spans += [(f" {'  ' * bool(spans)}{label} ", "muted"), *figures]
    return tuple(spans)


def _figures(view: RunView) -> Iterator[tuple[str, Row]]:
    yield "step", _step_times(view)
    yield "lag", _lag(view)
    yield "power", _power(view)


def _step_times(view: RunView) -> Row:
    times = view.progress.step_times
    if times is None:
        return ()
    text = f"p50 {fig.seconds(times.p50)}  p99 {times.p99:.3g}  max {times.most:.3g}"
    spans: list[Span] = [(text, ""), (f" (r{times.most_rank})", "muted")]
    if times.slow_ratio >= _SLOW:
        spans.append((f"  r{times.slow_rank} ×{times.slow_ratio:.1f}", "rank-behind"))
    return tuple(spans)


def _lag(view: RunView) -> Row:
    lags = view.progress.lags
    if not lags:
        return ()
    strip = fig.strip(lags[-_STRIP:], min(len(lags), _STRIP), top=max(*lags, LAG.top))
    if view.straggler is None:
        return ((strip, "bar dim"), ("  no rank is behind", "muted"))
    rank, steps = view.straggler
    behind = f"  r{rank} {fig.number(round(steps), 'step')} behind"
    why = " · ".join(("", *differences(view, rank)))
    return ((strip, "bar dim"), (behind, "rank-behind"), *(((why, ""),) if why else ()))


def _power(view: RunView) -> Row:
    drawn = view.amounts.get(POWER)
    return () if drawn is None else ((POWER.written(drawn), ""),)


def host_rows(view: RunView) -> list[Row]:
    """A row for each host, in the order of the ranks; for many hosts, one row with their sums."""
    hosts = [(view.state.hosts.get(agent), members) for agent, members in view.by_agent.items()]
    if not any(host is not None and host.system is not None for host, _ in hosts):
        return []
    if len(hosts) > _HOSTS:
        count = sum(view.device_names.values())
        gpus = f"{fig.number(count, 'GPU')} {_sums(view.amounts)}" if count else "no GPU"
        return [((f" {len(hosts)} hosts", "bold"), (f"  {gpus}", ""))]
    return [_host_row(host, members) for host, members in hosts]


def _host_row(host: Host | None, members: Sequence[RankView]) -> Row:
    name = members[0].rank.host or fig.UNKNOWN
    ranks = f"  {fig.number(len(members), 'rank')}"
    return ((f" {fig.shorten(name, 20):<20}", ""), (ranks, "muted"), ("  " + host_figures(host, members), ""))


def host_figures(host: Host | None, members: Sequence[RankView]) -> str:
    """The host's processors and memory, and the sums over the GPUs of the ranks on it."""
    return "  ".join(filter(None, (system_figures(host), gpu_figures(members)))) or fig.UNKNOWN


def system_figures(host: Host | None) -> str:
    """The figures of the whole machine; empty if unknown."""
    system = host.system if host is not None else None
    if system is None:
        return ""
    shown = TABLE.shown(Source.HOST)
    return "  ".join(f"{m.label} {m.amount_text(m.amount((system,)), m.total((system,)))}" for m in shown)


def gpu_figures(members: Sequence[RankView]) -> str:
    """The number of GPUs of some ranks, and their sums; empty if they have none."""
    count = len(gpus_of(members))
    if not count:
        return ""
    return f"{fig.number(count, 'GPU')} {_sums(together(one_a_gpu(members), TABLE.shown(Source.DEVICE)))}"


def _sums(amounts: Mapping[Metric, float | None]) -> str:
    """Figures of GPUs together: mean utilisation, total memory and power, highest temperature."""
    return " ".join(metric.written(amount) for metric, amount in amounts.items())
