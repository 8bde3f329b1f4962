"""A line for the whole gang, for a host, and for a rank. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from launcher.state.events import HostSample

from .... import formatting as fig
from ....data.run.devices import rss_share, sensors_of
from ....data.run.metrics import (
    CPU,
    HOST_CPU,
    HOST_MEMORY,
    MEMORY,
    POWER,
    RSS,
    TEMPERATURE,
    UTIL,
    Metric,
)
from ....data.run.model import RankView, RunView, together
from ....data.run.usage import TotalUse, peak_text
from ...widgets.rows import Row, Span, clip, width_of
from ..rank_cells import GLYPHS, STYLES
from .gauges import bar, line_graph, sensor_texts, temperature, written

_LEAST_BAR, _MOST_BAR, _LEAST_GRAPH, _MOST_GRAPH = 4, 16, 6, 60
_LEAST_GAUGES = 38


def gauges(
    view: RunView, each: RankView, width: int, ground: str = "", *, top: float, most: int = _MOST_BAR
) -> list[Span]:
    """The two bars of a rank in `width` cells: use and memory of its GPUs, or CPU and memory.

    `top` is the end of the scale of CPU.
    """
    if each.rank.devices:
        work, amount, share = UTIL, MEMORY, each.figure(MEMORY)
        text = _of(each.amount(MEMORY), each.figures.totals.get(MEMORY))
    else:
        work, amount, share = CPU, RSS, rss_share(view, each)
        text = fig.memory(each.amount(RSS))
    room = 9 if each.rank.devices else 6
    length = min(max((width - room - 9) // 2, _LEAST_BAR), most)
    used = each.figure(work)
    return [
        (" ", ground.strip()),
        *bar(work, used, length, ground, top=top if work is CPU else 0.0),
        written(work, used, work.figure_text(used), 5, ground),
        ("  ", ground.strip()),
        *bar(amount, share, length, ground),
        written(amount, share, text, room + 1, ground),
    ]


def _of(amount: float | None, total: float | None) -> str:
    """Memory used of total in at most nine characters: ``70.5/80G``."""
    if amount is None:
        return fig.UNKNOWN
    return fig.memory(amount) if total is None else f"{fig.memory(amount)[:-1]}/{_whole(total)}"


def _whole(total: float) -> str:
    return f"{total / (1 << 30):.0f}G" if total >= 1 << 30 else fig.memory(total)


def rank_line(
    view: RunView, each: RankView, width: int, metric: Metric, *, here: bool, top: float, ascii_: bool
) -> Row:
    """A rank in one line: bars, what its devices tell as far as there is room, and its last minutes."""
    ground = " on cursor-row" if here else ""
    row: list[Span] = [
        (f" {GLYPHS[each.condition]}", STYLES[each.condition] + ground),
        (f"{each.rank.rank:>4}", "bold" + ground),
        *gauges(view, each, min(width - 6, max((width - 6) * 2 // 5, _LEAST_GAUGES)), ground, top=top),
    ]
    left = width - width_of(tuple(row))
    if each.rank.devices:
        told = _sensors(each, left - _LEAST_GRAPH - 1, ground)
        row += told
        left -= sum(len(text) for text, _ in told)
    length = min(left - 1, _MOST_GRAPH)
    if length >= _LEAST_GRAPH:
        history = each.past.of(metric, 2 * length)
        row += [
            (" ", ground.strip()),
            *line_graph(metric, history, length, ground, top=top if metric is CPU else 0.0, blocks=ascii_),
        ]
        left -= length + 1
    slowed = sensors_of(view, each).slowed_by if each.rank.devices and left > 12 else None
    if slowed:
        why = fig.shorten(f" slowed: {', '.join(slowed)}", left)
        row.append((why, "rank-behind bold" + ground))
        left -= len(why)
    return (*row, (" " * max(left, 0), ground.strip()))


def _sensors(each: RankView, room: int, ground: str) -> list[Span]:
    """Power and heat, as far as they fit."""
    power = (f"{POWER.written(each.amount(POWER)):>7}", ground.strip())
    both = [power, temperature(each, 5, ground)]
    return both if room >= 12 else both[1:] if room >= 5 else []


def chosen_row(view: RunView, each: RankView, width: int, *, top: float) -> Row:
    """The rank under the cursor beside a map: its bars, its power, heat, clocks and buses."""
    where = fig.shorten(each.rank.host or fig.UNKNOWN, 16)
    row: Row = (
        (f" {GLYPHS[each.condition]} ", STYLES[each.condition]),
        (f"rank {each.rank.rank}", "bold"),
        (f" on {where}", "muted"),
        *gauges(view, each, min(max(width - 30, 28), 44), top=top, most=8),
    )
    more = detail_spans(view, each)
    return clip((*row, *(span for text in more for span in (("  ", ""), text))), width)


def detail_spans(view: RunView, each: RankView) -> list[Span]:
    """Power, heat, clocks, throttling and buses of a rank's GPUs; nothing of a rank without one."""
    if not each.rank.devices:
        return []
    limit = each.figures.totals.get(POWER)
    drawn = POWER.written(each.amount(POWER))
    power: Span = (f"{drawn[:-1]}/{POWER.written(limit)}" if limit and drawn != fig.UNKNOWN else drawn, "")
    sensors = sensors_of(view, each)
    told = sensor_texts(sensors)
    first = 1 if sensors.slowed_by else 0
    return [*told[:first], power, temperature(each, 0), *told[first:]]


# --- hosts, and all ranks --------------------------------------------------------------------------


def host_row(view: RunView, members: Sequence[RankView], width: int) -> Row:
    """A host: its processors and memory, and how long its GPUs were idle."""
    host = view.state.hosts.get(members[0].rank.agent)
    system = host.system if host is not None and view.live else None
    name = fig.shorten(members[0].rank.host or fig.UNKNOWN, 18)
    row: Row = ((f" {name}", "bold"), (f"  {fig.number(len(members), 'rank')}", "muted"))
    if system is not None:
        row = (*row, *_system_spans(system, (width - 66) // 2))
    use = view.use_by(members)
    parts = [] if use.idle is None else [f"GPU {fig.percent(use.idle)} idle"]
    for text in parts:
        if width_of(row) + len(text) + 2 <= width:
            row = (*row, (f"  {text}", "muted"))
    return clip(row, width)


def _system_spans(system: HostSample, length: int) -> list[Span]:
    cpu, memory = HOST_CPU.amount((system,)), HOST_MEMORY.amount((system,))
    total = HOST_MEMORY.total((system,))
    share = HOST_MEMORY.figure(memory, total)
    length = min(length, 12) if length >= _LEAST_BAR else 0
    return [
        ("  CPU ", "muted"),
        *bar(HOST_CPU, cpu, length),
        written(HOST_CPU, cpu, fig.percent(cpu), 5 if length else 0),
        ("  RAM ", "muted"),
        *bar(HOST_MEMORY, share, length),
        written(HOST_MEMORY, share, _of(memory, total), 10 if length else 0),
    ]


def gang_row(view: RunView, width: int, *, top: float) -> Row:
    """All ranks together: use and memory, power and heat; now, or over the life of a run that has ended."""
    devices = view.has_devices
    amounts = view.amounts if devices else together(view.ranks, (CPU, RSS))
    count = sum(view.device_names.values()) if devices else len(view.ranks)
    work = UTIL if devices else CPU
    used = amounts.get(work)
    length = min(max(width // 6, _LEAST_BAR), _MOST_BAR)
    row: Row = (
        (f" {fig.number(count, 'GPU' if devices else 'rank')} ", "bold"),
        *bar(work, used, length, top=0.0 if devices else top),
        written(work, used, f" {fig.percent(used)}", 0),
        ("" if view.live else " in mean", "muted"),
    )
    for text, style in _gang_texts(view, amounts):
        if width_of(row) + len(text) + 2 <= width:
            row = (*row, ("  ", ""), (text, style))
    return clip(row, width)


def _gang_texts(view: RunView, amounts: Mapping[Metric, float | None]) -> list[Span]:
    """The other figures of all ranks, the most important first; of a run that has ended only peaks."""
    idle, peak = idle_text(view.use), peak_text(view.use)
    if not view.live:
        return [(text, "bold") for text in (idle, peak) if text]
    texts: list[Span] = [(idle, "bold")] if idle else []
    known = [(metric, amounts.get(metric)) for metric in (MEMORY, RSS, POWER)]
    texts += [
        (f"{metric.label} {metric.written(amount)}", "") for metric, amount in known if amount is not None
    ]
    if (heat := amounts.get(TEMPERATURE)) is not None:
        texts.append((f"up to {TEMPERATURE.written(heat)}", ""))
    return texts


def idle_text(use: TotalUse) -> str:
    """The share of idle GPU time, and of how much; empty if unknown."""
    if use.idle is None:
        return ""
    return f"{fig.percent(use.idle)} idle of {fig.duration(use.gpu_s)} GPU time"
