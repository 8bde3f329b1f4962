"""Ranks as a table: a row for each with the columns that fit, below their hosts if these have several ranks.

Pure except for the cache of rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from launcher.spec.places import host_labels
from launcher.state.run_state import Host

from ... import formatting as fig
from ...data.ranks.columns import (
    AGES,
    CHART,
    HOST,
    OWN,
    RANK,
    STATE,
    RankColumn,
    chosen_columns,
    usual_columns,
)
from ...data.run.health import Condition
from ...data.run.metrics import Metric
from ...data.run.model import RankView
from ...sanitize import printable
from ..widgets.lists import NUMBERED, Column, Sorted, fitting, marked_head
from ..widgets.rows import Row, Span, clip, width_of
from .charts import gpu_figures, system_figures
from .rank_cells import GLYPHS, STYLES


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


_LEAD = 7
_MOST_CHART = 48
_WORD = 8


def _shown_columns(
    known: Sequence[RankColumn], hosts: Mapping[str, str], charted: Metric
) -> list[Column[RankView]]:
    """The columns, with names of hosts that tell them apart, and the charted metric as the chart's head."""
    columns = []
    for column in known:
        text = (lambda v: hosts.get(v.rank.host, fig.UNKNOWN)) if column.name == HOST else column.text
        title = charted.title if column.name == CHART else column.title
        left = column.left or column.name == CHART
        columns.append(
            Column(title, column.width, text, column.keep, column.style, left=left, name=column.name)
        )
    return columns


class RankTable:
    """Makes the table's rows, and takes over those of ranks that are as they were: a key changes two."""

    def __init__(self) -> None:
        self._layout: tuple[object, ...] = ()
        self._shown: Sequence[Column[RankView]] = ()
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
        chosen: Sequence[str] = (),
        sorted_by: Sorted = NUMBERED,
    ) -> list[Row]:
        """A header, and a row for each of `table_lines`.

        `hosts` are those of the run, by agent; `chosen` are the columns that a person wants, if any.
        """
        self._lay_out(lines, width, devices, metric, predicts, tuple(chosen))
        return [
            self._header(sorted_by),
            *(
                self._headline(line, hosts.get(line.agent), width)
                if isinstance(line, HostLine)
                else self._row(line, line.rank.rank == cursor, metric)
                for line in lines
            ),
        ]

    @property
    def names(self) -> Sequence[str]:
        """The names of the columns that are shown beside the rank."""
        return [column.name for column in self._shown]

    def column_at(self, x: int) -> str:
        """The name of the column at a cell of the header; that of the rank where there is none."""
        at = _LEAD
        for column in self._shown:
            if at <= x <= at + column.width:
                return column.name
            at += column.width + 1
        return RANK

    def _header(self, sorted_by: Sorted) -> Row:
        cells = [(marked_head("rank ".rjust(_LEAD), sorted_by, RANK), RANK)]
        cells += [(marked_head(f" {c.head}", sorted_by, c.name), c.name) for c in self._shown]
        return tuple((text, "bold" if name == sorted_by.name else "muted") for text, name in cells)

    def _lay_out(
        self,
        lines: Sequence[Line],
        width: int,
        devices: bool,
        metric: Metric,
        predicts: bool,
        chosen: tuple[str, ...],
    ) -> None:
        grouped = isinstance(lines[0], HostLine)
        views = [v for line in lines for v in (line.members if isinstance(line, HostLine) else [line])]
        hosts = tuple(dict.fromkeys(v.rank.host for v in views)) if chosen or not grouped else ()
        layout = (hosts, width, devices, metric, predicts, chosen)
        if layout == self._layout:
            return
        self._layout = layout
        self._made.clear()
        self._headed.clear()
        labels = host_labels(hosts, OWN[HOST].width)
        if chosen:
            known = chosen_columns(chosen, devices=devices)
        else:
            known = usual_columns(devices=devices, charted=metric, hosts=bool(labels), predicts=predicts)
        fit = fitting(_shown_columns(known, labels, metric), width - _LEAD)
        if not chosen and not {c.name for c in fit}.issuperset(AGES):
            fit = [
                c for c in fit if c.name not in AGES
            ]  # the chart has more use for the room of some of them
        self._shown = _stretched(fit, width - _LEAD)

    def _headline(self, line: HostLine, host: Host | None, width: int) -> Row:
        made = self._headed.get(line.agent)
        if made is None or made[0] is not line or made[1] is not host:
            made = line, host, _host_row(line.members, host, width)
            self._headed[line.agent] = made
        return made[2]

    def _row(self, view: RankView, here: bool, metric: Metric) -> Row:
        made = self._made.get(view.rank.rank)
        if made is None or made[0] is not view or made[1] is not here:
            made = view, here, _table_row(view, self._shown, here, metric)
            self._made[view.rank.rank] = made
        return made[2]


def _stretched(columns: Sequence[Column[RankView]], room: int) -> Sequence[Column[RankView]]:
    """The columns with a chart as wide as there is room."""
    left = max(room - sum(column.width + 1 for column in columns), 0)
    return [
        replace(c, width=min(c.width + left, _MOST_CHART), title=fig.shorten(c.title, c.width + left))
        if c.name == CHART
        else c
        for c in columns
    ]


def _host_row(members: Sequence[RankView], host: Host | None, width: int) -> Row:
    """A host's name, and as many figures of its ranks and of itself as fit."""
    row: Row = ((f" {members[0].rank.host or fig.UNKNOWN}", "bold"),)
    parts = fig.number(len(members), "rank"), gpu_figures(members), system_figures(host)
    for text, style in zip(parts, ("muted", "", "muted"), strict=True):
        if text and width_of(row) + len(text) + 2 <= width:
            row = (*row, (f"  {text}", style))
    return clip(row, width)


def _table_row(view: RankView, shown: Sequence[Column[RankView]], here: bool, metric: Metric) -> Row:
    ground = " on cursor-row" if here else ""
    state = STYLES[view.condition]
    cells: list[Span] = [
        (f"{GLYPHS[view.condition]:>2}", state + ground),
        (f"{view.rank.rank:>4} ", "bold" + ground),
    ]
    columns = list(shown)
    while columns:
        column = columns.pop(0)
        if column.name == CHART:
            history = view.past.of(metric, column.width)
            strip = fig.strip(history, column.width, top=metric.scale_of(history))
            cells.append((f" {strip}", "bar dim" + ground))
        elif column.name != STATE:
            cells.append((" " + column.text(view), column.style + ground))
        elif view.condition is Condition.PAUSED and view.rank.paused:
            # the reason takes the room of the chart, if that is next
            more = columns.pop(0).width + 1 if columns and columns[0].name == CHART else 0
            text = f"paused: {' '.join(printable(view.rank.paused).split())}"
            cells.append((f" {fig.shorten(text, _WORD + more):<{_WORD + more}}", state + ground))
        else:
            cells.append((f" {view.condition:<{_WORD}}", state + ground))
    return tuple(cells)
