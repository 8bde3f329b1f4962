"""A rank as a block of rows: title, bars, its last minutes as a graph, and what its sensors tell. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .... import formatting as fig
from ....data.run.metrics import CPU, Metric
from ....data.run.model import RankView, RunView
from ....data.run.usage import TotalUse, use_of
from ...widgets.rows import Row, clip, spread, width_of
from ..rank_cells import GLYPHS, STYLES
from .gauges import scaled
from .lines import detail_spans, gauges

LEAST, FULL, MOST, WIDTH = 3, 4, 9, 54
"""The rows of a block: at least, with a title of its own, at most; and the cells that it needs."""


def block_rows(
    view: RunView, each: RankView, width: int, height: int, metric: Metric, *, here: bool, top: float
) -> list[Row]:
    """The rows of a rank's block, `height` of them; a low one has no title."""
    ground = " on cursor-row" if here else ""
    lead: Row = (
        (f" {GLYPHS[each.condition]}", STYLES[each.condition] + ground),
        (f" {each.rank.rank:<4}", "bold" + ground),
    )
    if height < FULL:
        head = [(*lead, *gauges(view, each, width - 8, ground, top=top, most=24))]
    else:
        head = [
            _title(view, each, lead, width, ground),
            (("  ", ""), *gauges(view, each, width - 3, top=top, most=24)),
        ]
    tail = [_sensors(view, each, width)] if each.rank.devices else []
    room = max(height - len(head) - len(tail), 1)
    history = each.past.of(metric, 2 * width)
    graph = scaled(metric, history, width - 1, room, top=top if metric is CPU else 0.0)
    return [clip(row, width - 1) for row in (*head, *graph, *tail)]


def _title(view: RunView, each: RankView, lead: Row, width: int, ground: str) -> Row:
    """The rank, its device, and what it used over the run."""
    name = each.device or each.rank.host or fig.UNKNOWN
    left: Row = (*lead, (name, ground.strip()))
    row = spread(left, ((f"{_used(view, each)} ", "muted" + ground),), width - 1)
    return (*row, (" " * max(width - 1 - width_of(row), 0), ground.strip()))


def _used(view: RunView, each: RankView) -> str:
    known = view.usage.get(each.rank.rank)
    use = TotalUse() if known is None else use_of([known])
    idle = [] if use.idle is None else [f"{fig.percent(use.idle)} idle"]
    most = use.memory if each.rank.devices else use.rss
    peak = [] if most is None else [f"peak {fig.memory(most)}"]
    return " · ".join((*idle, *peak))


def _sensors(view: RunView, each: RankView, width: int) -> Row:
    """What the sensors tell, as much as fits."""
    row: Row = (("  ", ""),)
    for text, style in detail_spans(view, each):
        if width_of(row) + len(text) + 2 > width:
            break
        row = (*row, (f" {text} ", style))
    return row


def beside(blocks: Sequence[Sequence[Row]], line: int, width: int) -> Row:
    """One row of several blocks that stand beside each other, each `width` cells wide."""
    row: Row = ()
    for block in blocks:
        part = block[line]
        row = (*row, *part, (" " * max(width - width_of(part), 0), ""))
    return row
