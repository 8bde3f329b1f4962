"""Ranks as a table: a row for each with the columns that fit, below their hosts if these have several ranks.

Pure except for the cache of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from launcher.spec.places import host_labels
from launcher.state.run_state import Host

from ... import formatting as fig
from ...data.run.health import Condition
from ...data.run.metrics import LAG, TABLE, Metric, Source
from ...data.run.model import RankView
from ...sanitize import printable
from ..widgets.lists import Column, fitting
from ..widgets.rows import Row, Span, clip, width_of
from .charts import gpu_figures, system_figures
from .rank_cells import GLYPHS, STYLES

_HOST, _FIGURE = 12, 5


@dataclass(frozen=True, slots=True)
class HostLine:
    """The line above the ranks of a host."""

    agent: int
    members: Sequence[RankView]


Line = HostLine | RankView


def table_lines(ranks: Sequence[RankView], *, by_host: bool) -> list[Line]:
    """The lines of the table: ranks, and a line for each host if there are several with several ranks."""
    groups = [(agent, list(members)) for agent, members in groupby(ranks, key=lambda v: v.rank.agent)]
    if not by_host or len(groups) < 2 or len(ranks) < 2 * len(groups):
        return list(ranks)
    lines: list[Line] = []
    for agent, members in groups:
        lines += [HostLine(agent, members), *members]
    return lines


def _step(view: RankView) -> str:
    return fig.count(view.rank.step)


def _ages(view: RankView) -> str:
    return "  ".join(f"{fig.age(a):>8}" for a in (view.step_age, view.log_age, view.sample_age))


def _figure(metric: Metric) -> Column[RankView]:
    width, keep = max(metric.width, _FIGURE), metric.keep or _ONLY_CHARTED
    return Column(metric.head, width, lambda v: metric.written(v.amount(metric)), keep)


def _figures(charted: Metric, *, devices: bool) -> tuple[Column[RankView], ...]:
    """The metrics of the devices, or of the processes if there are none; and the charted metric."""
    shown = TABLE.shown(Source.DEVICE if devices else Source.PROCESSES)
    more = () if charted in (*shown, LAG) else (charted,)
    return tuple(map(_figure, (*shown, *more)))


def columns(
    *, devices: bool, charted: Metric, hosts: Mapping[str, str], predicts: bool = False
) -> tuple[Column[RankView], ...]:
    """The columns of a rank, with or without GPUs, or of a worker that predicts.

    `hosts` are the names for a column of hosts, if any.
    """
    where: tuple[Column[RankView], ...] = (
        Column("host", _HOST, lambda v: hosts.get(v.rank.host, fig.UNKNOWN), 6, left=True),
    )
    return (
        *(where if hosts else ()),
        *((_ROWS,) if predicts else _STEPS),
        *_figures(charted, devices=devices),
        Column("pid", 8, lambda v: fig.UNKNOWN if v.rank.pid is None else str(v.rank.pid), 3, "muted"),
        Column(f"{'rows' if predicts else 'step'} age   log age  tele age", 29, _ages, 1, "muted"),
    )


_STEPS: tuple[Column[RankView], ...] = (
    Column("step", 8, _step, 8),
    Column(LAG.head, LAG.width, lambda v: LAG.written(v.lag), LAG.keep),
)
_ROWS: Column[RankView] = Column("rows", 8, lambda v: fig.count(v.rank.rows), 8)
_ONLY_CHARTED = 6
_LEAD = 16
_WORD = 8
_STRIP = (8, 48)


class RankTable:
    """Makes the table's rows, and takes over those of ranks that are as they were: a key changes two."""

    def __init__(self) -> None:
        self._layout: tuple[object, ...] = ()
        self._shown: Sequence[Column[RankView]] = ()
        self._strip = 0
        self._made: dict[int, tuple[RankView, bool, Row]] = {}
        self._headed: dict[int, tuple[HostLine, Host | None, Row]] = {}

    def rows(
        self,
        lines: Sequence[Line],
        width: int,
        *,
        cursor: int | None,
        devices: bool,
        metric: Metric,
        hosts: Mapping[int, Host],
        predicts: bool = False,
    ) -> list[Row]:
        """A header, and a row for each of `table_lines`; `hosts` are those of the run, by agent."""
        self._lay_out(lines, width, devices, metric, predicts)
        label = fig.shorten(metric.title, self._strip)
        head = "".join(" " + c.head for c in self._shown)
        header: Row = (
            ("   rank  state  ".ljust(_LEAD)[:_LEAD] + f" {label:<{self._strip}}" + head, "muted"),
        )
        return [
            header,
            *(
                self._headline(line, hosts.get(line.agent), width)
                if isinstance(line, HostLine)
                else self._row(line, line.rank.rank == cursor, metric)
                for line in lines
            ),
        ]

    def _lay_out(
        self, lines: Sequence[Line], width: int, devices: bool, metric: Metric, predicts: bool
    ) -> None:
        grouped = isinstance(lines[0], HostLine)
        hosts = () if grouped else tuple(dict.fromkeys(v.rank.host for v in lines if isinstance(v, RankView)))
        layout = (hosts, width, devices, metric, predicts)
        if layout == self._layout:
            return
        self._layout = layout
        self._made.clear()
        self._headed.clear()
        known = columns(devices=devices, charted=metric, hosts=host_labels(hosts, _HOST), predicts=predicts)
        self._shown = fitting(known, width - _LEAD - _STRIP[0] - 1)
        used = _LEAD + 1 + sum(c.width + 1 for c in self._shown)
        self._strip = min(max(width - used, 0), _STRIP[1])

    def _headline(self, line: HostLine, host: Host | None, width: int) -> Row:
        made = self._headed.get(line.agent)
        if made is None or made[0] is not line or made[1] is not host:
            made = line, host, _host_row(line.members, host, width)
            self._headed[line.agent] = made
        return made[2]

    def _row(self, view: RankView, here: bool, metric: Metric) -> Row:
        made = self._made.get(view.rank.rank)
        if made is None or made[0] is not view or made[1] is not here:
            made = view, here, _table_row(view, self._shown, self._strip, here, metric)
            self._made[view.rank.rank] = made
        return made[2]


def _host_row(members: Sequence[RankView], host: Host | None, width: int) -> Row:
    """A host's name, and as many figures of its ranks and of itself as fit."""
    row: Row = ((f" {members[0].rank.host or fig.UNKNOWN}", "bold"),)
    parts = fig.number(len(members), "rank"), gpu_figures(members), system_figures(host)
    for text, style in zip(parts, ("muted", "", "muted"), strict=True):
        if text and width_of(row) + len(text) + 2 <= width:
            row = (*row, (f"  {text}", style))
    return clip(row, width)


def _table_row(
    view: RankView, shown: Sequence[Column[RankView]], strip: int, here: bool, metric: Metric
) -> Row:
    ground = " on cursor-row" if here else ""
    state = STYLES[view.condition]
    cells: list[Span] = [
        (f"{GLYPHS[view.condition]:>2}", state + ground),
        (f"{view.rank.rank:>4} ", "bold" + ground),
    ]
    if view.condition is Condition.PAUSED and view.rank.paused:
        text = f"paused: {' '.join(printable(view.rank.paused).split())}"
        cells.append((f" {fig.shorten(text, _WORD + 1 + strip):<{_WORD + 1 + strip}}", state + ground))
    else:
        history = view.past.of(metric, strip)
        cells.append((f" {view.condition:<{_WORD}}", state + ground))
        cells.append((" " + fig.strip(history, strip, top=metric.scale_of(history)), "bar dim" + ground))
    cells += [(" " + c.text(view), c.style + ground) for c in shown]
    return tuple(cells)
