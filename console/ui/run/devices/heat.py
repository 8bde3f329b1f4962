"""The heat map: a row for each rank, a column for each sample, eight steps from dark to bright. Pure.

Where colours or glyphs are missing, a step is the height of a block.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .... import formatting as fig
from ....data.run.metrics import Metric
from ....data.run.model import RankView
from ...widgets.rows import Row, Span, joined
from ..rank_cells import GLYPHS, STYLES

STEPS = 8
HEATS = tuple(f"heat-{step}" for step in range(STEPS))
"""The style words of the steps; the pane makes their colours from the theme's."""

LABEL = 9
_BLOCKS = "▁▂▃▄▅▆▇█"


def step_of(value: float | None, top: float) -> int | None:
    """A figure as one of eight steps of its scale; None if it is unknown."""
    if not fig.is_finite(value) or top <= 0:
        return None
    return min(max(int(value / top * STEPS), 0), STEPS - 1)


@dataclass(frozen=True, slots=True)
class Shown:
    """What the map shows: a metric, and the end of its scale."""

    metric: Metric
    top: float


def shown_of(metric: Metric, ranks: Iterable[RankView]) -> Shown:
    """A metric on a scale for all ranks: one that can grow ends at a whole multiple of its usual end."""
    end = metric.top or 100.0
    if not metric.scale_grows:
        return Shown(metric, end)
    most = max(filter(fig.is_finite, (each.figure(metric) for each in ranks)), default=end)
    return Shown(metric, max(math.ceil(most / end), 1) * end)


def steps_of(each: RankView, shown: Shown, width: int) -> list[int | None]:
    """The steps of a rank's last figures, the newest at the right; None before the first."""
    history, top = each.past.of(shown.metric, width), shown.top
    return [*([None] * (width - len(history))), *(step_of(value, top) for value in history)]


def map_row(members: Sequence[RankView], shown: Shown, width: int, *, here: int | None, plain: bool) -> Row:
    """One rank, or two of which each has half a row; `here` is the rank under the cursor.

    `plain` draws steps as heights, for terminals without colours or without glyphs.
    """
    first = members[0]
    ground = " on cursor-row" if any(each.rank.rank == here for each in members) else ""
    worst = next((each for each in members if each.condition != first.condition), first)
    name = f"{first.rank.rank}" if len(members) == 1 else f"{first.rank.rank}-{members[1].rank.rank}"
    label: list[Span] = [
        (f" {GLYPHS[worst.condition]}", STYLES[worst.condition] + ground),
        (f"{name:>{LABEL - 3}} ", "bold" + ground),
    ]
    columns = [steps_of(each, shown, width) for each in members]
    if plain or len(members) == 1:
        cells = [_cell(step, plain=plain) for step in columns[0]]
    else:
        cells = [_halves(*pair) for pair in zip(*columns, strict=True)]
    return (*label, *joined(cells))


def _cell(step: int | None, *, plain: bool) -> Span:
    if step is None:
        return "·" if plain else " ", "muted"
    return _BLOCKS[step] if plain else "█", HEATS[step]


def _halves(upper: int | None, lower: int | None) -> Span:
    """A cell with two steps, one above the other."""
    if upper is None:
        return (" ", "muted") if lower is None else ("▄", HEATS[lower])
    if lower is None:
        return "▀", HEATS[upper]
    return ("█", HEATS[upper]) if upper == lower else ("▀", f"{HEATS[upper]} on {HEATS[lower]}")


def legend_row(shown: Shown, width: int, samples: int, *, plain: bool) -> Row:
    """What the steps mean, and which time the columns cover."""
    steps = [(_BLOCKS[step] if plain else "█", HEATS[step]) for step in range(STEPS)]
    metric, top = shown.metric, shown.metric.figure_text(shown.top)
    left: Row = (
        (f"{'':<{LABEL}}{metric.title} ", "muted"),
        ("0 ", "muted"),
        *steps,
        (f" {top}", "muted"),
    )
    right = f"last {fig.number(min(width, samples), 'sample')} → now "
    used = sum(len(text) for text, _ in left)
    gap = LABEL + width - used - len(right)
    return (*left, (" " * max(gap, 1), ""), (right if gap > 0 else "", "muted"))
