"""The charts of a run: curves of its figures, lines of summaries, and its alerts."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from launcher.state.events import XidLogged
from launcher.state.run_state import Host

from ... import formatting as fig
from ...data.run.health import Alert, NotFinite, named_ranks
from ...data.run.metrics import LAG, POWER, TABLE, Metric, Source
from ...data.run.model import RankView, RunView, gpus_of, one_a_gpu, together
from ...data.run.narration import xid_line, xid_lines
from ...data.run.stragglers import differences, loader_line
from ...sanitize import printable
from ..curves.sheet import LEAST, CurveSheet, Traced
from ..widgets.plots import plot_rows
from ..widgets.rows import MadeRows, Row, Span, clip
from .view_sheet import ViewSheet

_HEIGHT = 5


class Charts(ViewSheet, CurveSheet, can_focus=True):
    """Curves of what ranks reported, devices over the last minutes, and the alerts."""

    def show(self, view: RunView) -> None:
        """Show a newer view of the run; a hidden pane only keeps it."""
        self.traced = (Traced("", view.curves, band=True),)
        if self.display:
            super().show(view)
        else:
            self.view = view
        past = f"reading the past, {fig.percent(view.recalled * 100)}" if view.recalled < 1 else ""
        self.entitle("5 Curves", " · ".join(filter(None, (past, alarm_count(view)))))

    def on_show(self) -> None:
        """Draw what arrived while the pane was hidden."""
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """Alerts first, then the curves, step times, and the hosts."""
        if self.view is None or not self.display:
            return [()]
        above = alert_rows(self.view)
        pace, hosts = pace_rows(self.view), host_rows(self.view) if self.view.live else []
        below = [*pace, *sampled_rows(self.view, width), *([()] if hosts else []), *hosts]
        room = self.scrollable_content_region.height - len(above)
        plots = self.plots(width, room - len(pace) - len(hosts) - bool(hosts) if room > 2 * LEAST else room)
        if not self.metrics:
            above.append(hint_row(self.view))
        return one_after_another(
            [clip(row, width) for row in above], plots, [clip(row, width) for row in below]
        )


def one_after_another(*parts: Sequence[Row]) -> MadeRows:
    """The rows of all parts, each made when it is shown."""
    ends = [*accumulate(map(len, parts))]

    def row(number: int) -> Row:
        part = bisect_right(ends, number)
        return parts[part][number - (ends[part - 1] if part else 0)]

    return MadeRows(ends[-1], row)


def hint_row(view: RunView) -> Row:
    """What makes a curve, for a run that has none."""
    hint = "" if view.state.prediction else ": launcher.report(step=…, loss=…) gives curves"
    return ((f" nothing to chart yet{hint}", "muted"),)


def sampled_rows(view: RunView, width: int) -> list[Row]:
    """The devices of all ranks over the last minutes."""
    gang = view.progress.gang
    rows: list[Row] = []
    for metric in TABLE.plotted:
        values = gang.get(metric, ())
        if len(values) > 1:
            span = f"last {fig.number(len(values), 'sample')}"
            rows += plot_rows(metric.plot, values, width, _HEIGHT, scale=(0.0, metric.top), span=span)
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
