"""Ranks as rows: a table while there is a line for each, one cell a rank when there is not.

Pure. A glyph says how a rank is doing, so that no colour is needed; shade says how busy it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from console.messages import Condition, RankView
from console.widgets import figures as fig
from console.widgets.sheet import Row, Span

TABLE_RANKS = 64
HOST_RANKS = 512

GLYPHS = {
    Condition.OK: "●",
    Condition.WAITING: "○",
    Condition.DONE: "✓",
    Condition.STOPPED: "■",
    Condition.STALE: "?",
    Condition.BEHIND: "▼",
    Condition.HUNG: "H",
    Condition.LOST: "-",
    Condition.FAILED: "✗",
}
STYLES = {
    Condition.OK: "rank-ok",
    Condition.WAITING: "rank-waiting",
    Condition.DONE: "rank-done",
    Condition.STOPPED: "rank-stopped",
    Condition.STALE: "rank-stale",
    Condition.BEHIND: "rank-behind",
    Condition.HUNG: "rank-hung bold",
    Condition.LOST: "rank-lost bold",
    Condition.FAILED: "rank-failed bold",
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column: what stands above it, how wide it is, and which columns outlast it when room is short."""

    title: str
    width: int
    cell: Callable[[RankView], str]
    keep: int
    style: str = ""
    left: bool = False


def _step(view: RankView) -> str:
    return fig.count(view.rank.step)


def _ages(view: RankView) -> str:
    return " ".join(f"{fig.age(a):>8}" for a in (view.step_age, view.log_age, view.sample_age))


def columns(*, devices: bool) -> tuple[Column, ...]:
    """What is known of a rank, in order; with GPUs or without."""
    usage = (
        (
            Column("GPU", 5, lambda v: fig.percent(v.util), 9),
            Column("mem", 6, lambda v: fig.memory(v.memory), 7),
            Column("power", 6, lambda v: fig.watts(v.power), 4),
            Column("temp", 5, lambda v: fig.celsius(v.temperature), 5),
        )
        if devices
        else (
            Column("CPU", 6, lambda v: fig.percent(v.cpu), 9),
            Column("RSS", 6, lambda v: fig.memory(v.memory), 7),
        )
    )
    return (
        Column("host", 12, lambda v: fig.shorten(v.rank.host or fig.UNKNOWN, 12), 6, left=True),
        Column("step", 8, _step, 8),
        *usage,
        Column("pid", 8, lambda v: fig.UNKNOWN if v.rank.pid is None else str(v.rank.pid), 3, "muted"),
        Column("step age  log age tele age", 26, _ages, 1, "muted"),
    )


_LEAD = 16
_STRIP = (8, 48)


def fitting(all_columns: Sequence[Column], width: int) -> list[Column]:
    """The columns that fit beside rank, state and strip; the least important leave first."""
    kept = list(all_columns)
    while kept and _LEAD + _STRIP[0] + 1 + sum(c.width + 1 for c in kept) > width:
        kept.remove(min(kept, key=lambda c: c.keep))
    return kept


def table_rows(ranks: Sequence[RankView], width: int, *, cursor: int | None, devices: bool) -> list[Row]:
    """A header, and a row a rank."""
    shown = fitting(columns(devices=devices), width)
    used = _LEAD + 1 + sum(c.width + 1 for c in shown)
    strip = min(max(width - used, 0), _STRIP[1])
    head = "".join(" " + _aligned(c, c.title) for c in shown)
    label = fig.shorten("device" if devices else "CPU", strip)
    header: Row = (("   rank  state  ".ljust(_LEAD)[:_LEAD] + f" {label:<{strip}}" + head, "muted"),)
    return [header, *(_table_row(v, shown, strip, v.rank.rank == cursor, devices=devices) for v in ranks)]


def _table_row(view: RankView, shown: Sequence[Column], strip: int, here: bool, *, devices: bool) -> Row:
    ground = " on cursor-row" if here else ""
    state = STYLES[view.condition]
    top = 100.0 if devices else max(100.0, *(v for v in view.history[-strip:] if v is not None), 100.0)
    cells: list[Span] = [
        (f"{GLYPHS[view.condition]:>2}", state + ground),
        (f"{view.rank.rank:>4} ", "bold" + ground),
        (f" {view.condition:<8}", state + ground),
        (" " + fig.strip(view.history, strip, top=top), "bar dim" + ground),
    ]
    cells += [(" " + _aligned(c, c.cell(view)), c.style + ground) for c in shown]
    return tuple(cells)


def _aligned(column: Column, text: str) -> str:
    return f"{text:<{column.width}}" if column.left else f"{text:>{column.width}}"


def compact_rows(ranks: Sequence[RankView], width: int, *, cursor: int | None) -> list[Row]:
    """A line a host while that fits, else 64 ranks a line: one cell a rank."""
    return [_compact_row(label, chunk, cursor, width) for label, chunk in compact_lines(ranks, width)]


def compact_lines(ranks: Sequence[RankView], width: int) -> list[tuple[str, list[RankView]]]:
    """Which ranks stand on which line, and what stands before them."""
    if len(ranks) > HOST_RANKS:
        per = 64 if width >= 72 else 32
        return [(f"{at:>5}", list(ranks[at : at + per])) for at in range(0, len(ranks), per)]
    by_host = ((host, list(group)) for host, group in groupby(ranks, key=lambda v: v.rank.host))
    per = max(width - 50, 8)
    return [
        (f"{fig.shorten(host or fig.UNKNOWN, 10):<8}{members[at].rank.rank:>5}", members[at : at + per])
        for host, members in by_host
        for at in range(0, len(members), per)
    ]


def _compact_row(label: str, members: Sequence[RankView], cursor: int | None, width: int) -> Row:
    cells: list[Span] = [(f" {label:<6} ", "muted")]
    for style, group in groupby(members, key=lambda v: _cell_style(v, cursor)):
        cells.append(("".join(_cell(v) for v in group), style))
    summary = _summary(members)
    used = len(label) + 2 + len(members)
    if used + len(summary) + 2 <= width:
        cells.append((f"  {summary}", "muted"))
    return tuple(cells)


def _cell(view: RankView) -> str:
    return _SHADES[shade(view)] if view.condition is Condition.OK else GLYPHS[view.condition]


_SHADES = "▁▂▃▄▅▆▇█"


def shade(view: RankView) -> int:
    """How busy a rank is, in eight steps, so that small changes repaint nothing."""
    value = view.util if view.util is not None else view.cpu
    return 7 if value is None else min(max(int(value / 100 * 8), 0), 7)


def _cell_style(view: RankView, cursor: int | None) -> str:
    return STYLES[view.condition] + (" reverse" if view.rank.rank == cursor else "")


def _summary(members: Sequence[RankView]) -> str:
    utils = [v.util for v in members if v.util is not None]
    steps = [v.rank.step for v in members if v.rank.step is not None]
    memory = [v.memory for v in members if v.memory is not None]
    mean = fig.percent(sum(utils) / len(utils) if utils else None)
    return f"{mean:>4} {fig.memory(max(memory, default=None)):>6}  step {fig.count(min(steps, default=None))}"
