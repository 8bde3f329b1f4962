"""Ranks as cells: one cell per rank, and one line per host if there are not too many.

Pure. The glyph of a cell shows the rank's condition, so that no colour is needed; the height of a block shows
the value of a metric.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from launcher.backends.spark.prediction.worker import WATCH_AFTER_S
from launcher.spec.places import host_labels
from launcher.state.events import HostSample
from launcher.state.run_state import Host

from ... import formatting as fig
from ...data.run.health import Condition
from ...data.run.metrics import HOST_CPU, HOST_MEMORY, TABLE, Metric, Source
from ...data.run.model import RankView, RunView, fullest, one_a_gpu, together
from ..widgets.rows import MadeRows, Row, Span, joined

TABLE_RANKS = 64
HOST_RANKS = 512

GLYPHS = {
    Condition.OK: "●",
    Condition.WAITING: "○",
    Condition.PAUSED: "‖",
    Condition.DONE: "✓",
    Condition.STOPPED: "■",
    Condition.STALE: "?",
    Condition.SILENT: "Z",
    Condition.BEHIND: "▼",
    Condition.HUNG: "H",
    Condition.LOST: "-",
    Condition.FAILED: "✗",
}
STYLES = {
    Condition.OK: "rank-ok",
    Condition.WAITING: "rank-waiting",
    Condition.PAUSED: "rank-waiting",
    Condition.DONE: "rank-done",
    Condition.STOPPED: "rank-stopped",
    Condition.STALE: "rank-stale",
    Condition.SILENT: "rank-behind",
    Condition.BEHIND: "rank-behind",
    Condition.HUNG: "rank-hung bold",
    Condition.LOST: "rank-lost bold",
    Condition.FAILED: "rank-failed bold",
}


class CompactRows:
    """Makes a row for each of `compact_lines`, and reuses rows of which nothing has changed."""

    def __init__(self) -> None:
        self._made: dict[int, tuple[tuple[object, ...], Sequence[RankView], Row]] = {}

    def rows(
        self,
        lines: Sequence[tuple[str, Sequence[RankView]]],
        width: int,
        *,
        cursor: tuple[int, int],
        metric: Metric,
        hosts: Mapping[int, Host],
    ) -> Sequence[Row]:
        """All rows; `cursor` is its line and column, `hosts` are those of the run, by agent."""
        line, column = cursor
        return MadeRows(
            len(lines),
            lambda n: self._row(n, lines[n], width, column if n == line else None, metric, hosts),
        )

    def _row(
        self,
        number: int,
        line: tuple[str, Sequence[RankView]],
        width: int,
        here: int | None,
        metric: Metric,
        hosts: Mapping[int, Host],
    ) -> Row:
        label, members = line
        inputs = (label, width, here, metric)
        made = self._made.get(number)
        if made is None or made[0] != inputs or made[1] is not members:
            system = _system(members, hosts)
            made = inputs, members, _compact_row(label, members, here, width, metric, system)
            self._made[number] = made
        return made[2]


def compact_lines(
    ranks: Sequence[RankView], width: int, *, by_host: bool = True
) -> list[tuple[str, list[RankView]]]:
    """The label and the ranks of each line; lines by host require ranks in their natural order.

    A label is the number of the first rank; where ranks are in another order, the position of that rank.
    """
    if len(ranks) > HOST_RANKS or not by_host:
        per = 64 if width >= 72 else 32
        starts = range(0, len(ranks), per)
        return [(f"{ranks[at].rank.rank if by_host else at:>5}", list(ranks[at : at + per])) for at in starts]
    names = host_labels((v.rank.host for v in ranks), 10)
    hosts = ((host, list(group)) for host, group in groupby(ranks, key=lambda v: v.rank.host))
    per = max(width - 50, 8)
    return [
        (f"{names.get(host, fig.UNKNOWN):<8}{members[at].rank.rank:>5}", members[at : at + per])
        for host, members in hosts
        for at in range(0, len(members), per)
    ]


def _system(members: Sequence[RankView], hosts: Mapping[int, Host]) -> HostSample | None:
    """The figures of the host of these ranks; None if they are on several hosts."""
    host = hosts.get(members[0].rank.agent)
    alone = host is not None and all(view.rank.agent == host.agent for view in members)
    return host.system if host is not None and alone else None


def _compact_row(
    label: str,
    members: Sequence[RankView],
    here: int | None,
    width: int,
    metric: Metric,
    system: HostSample | None,
) -> Row:
    cells: list[Span] = [(f" {label:<6} ", "muted")]
    drawn = [_cell(v, metric) for v in members]
    if here is not None:
        drawn[here] = drawn[here][0], drawn[here][1] + " reverse"
    cells += joined(drawn)
    used = len(label) + 2 + len(members)
    shown = TABLE.shown(Source.DEVICE if any(v.rank.devices for v in members) else Source.PROCESSES)
    own, more = _summary(members, shown), _of_host(system)
    summaries = (f"{own}{_sums(members, shown)}{more}", f"{own}{more}", own)
    summary = next((text for text in summaries if used + len(text) + 2 <= width), None)
    if summary is not None:
        cells.append((f"  {summary}", "muted"))
    return tuple(cells)


def _cell(view: RankView, metric: Metric) -> Span:
    condition = view.condition
    if condition is not Condition.OK:
        return GLYPHS[condition], STYLES[condition]
    return _SHADES[shade(view.figure(metric), metric.top)], STYLES[condition]


_SHADES = "▁▂▃▄▅▆▇█"


def shade(value: float | None, top: float) -> int:
    """A figure as one of eight steps of its scale, so that small changes repaint nothing."""
    return min(max(int(value / top * 8), 0), 7) if fig.is_finite(value) else 7


_FIRST = 2


def _summary(members: Sequence[RankView], shown: Sequence[Metric]) -> str:
    """The first two metrics of these ranks, and the step of the slowest."""
    steps = [v.rank.step for v in members if v.rank.step is not None]
    figures = " ".join([_text(metric, fullest(members, metric)) for metric in shown[:_FIRST]])
    return f"{figures}  step {fig.count(min(steps, default=None))}"


def _sums(members: Sequence[RankView], shown: Sequence[Metric]) -> str:
    """The other metrics of these ranks together; empty if none is known."""
    amounts = together(one_a_gpu(members), shown[_FIRST:])
    if all(amount is None for amount in amounts.values()):
        return ""
    return "  " + " ".join([_text(metric, amount) for metric, amount in amounts.items()])


def _text(metric: Metric, amount: float | None) -> str:
    return metric.written(amount).rjust(metric.width)


def _of_host(system: HostSample | None) -> str:
    """The processors and memory of the host; empty if unknown."""
    if system is None:
        return ""
    cpu, memory = (_text(metric, metric.amount((system,))) for metric in (HOST_CPU, HOST_MEMORY))
    return f"  {HOST_CPU.label} {cpu} {memory}"


def unplaced_row(view: RunView | None) -> Row:
    """The note where ranks will stand."""
    predicts = view is not None and view.state.prediction is not None
    worker = f"a worker is shown once it has predicted for {WATCH_AFTER_S:g} s"
    text = worker if predicts else "no rank has a place yet"
    return ((f" {text}", "muted"),)
