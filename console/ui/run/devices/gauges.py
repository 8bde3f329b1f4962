"""Bars, history graphs and readings of figures, coloured by what they mean. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from .... import formatting as fig
from ....data.run.devices import Grade, Sensors, grade_of
from ....data.run.metrics import TEMPERATURE, Metric
from ....data.run.model import RankView
from ...widgets.rows import Row, Span, joined

STYLES = {
    Grade.UNKNOWN: "muted",
    Grade.IDLE: "rank-behind",
    Grade.LOW: "rank-stale",
    Grade.OK: "rank-ok",
    Grade.BUSY: "rank-done",
    Grade.HIGH: "rank-behind",
    Grade.FULL: "rank-failed",
}
_PARTS = " ▏▎▍▌▋▊▉"
_TRACK = "░"


def bar(
    metric: Metric, figure: float | None, width: int, ground: str = "", *, top: float = 0.0
) -> list[Span]:
    """A figure on its scale, from 0 to `top` if that is given; an unknown one is a track without a bar."""
    style = STYLES[grade_of(metric, figure)]
    end = top or metric.top or 100.0
    share = min(max(figure / end, 0.0), 1.0) if fig.is_finite(figure) else 0.0
    eighths = round(share * width * 8)
    if figure and not eighths and width > 0:
        eighths = 1  # a little is not nothing
    filled = "█" * (eighths // 8) + _PARTS[eighths % 8].strip()
    return [(filled, style + ground), (_TRACK * (width - len(filled)), "bar-track" + ground)]


def written(metric: Metric, figure: float | None, text: str, width: int, ground: str = "") -> Span:
    """A figure's text, right-aligned, in the colour of what it means; a figure to act on stands out."""
    level = grade_of(metric, figure)
    bold = " bold" if level in (Grade.IDLE, Grade.HIGH, Grade.FULL) else ""
    mark = "!" if level is Grade.FULL else ""
    return f"{text + mark:>{width}}", f"{STYLES[level]}{bold}{ground}"


def temperature(view: RankView, width: int, ground: str = "") -> Span:
    """The temperature of a rank's devices."""
    return written(TEMPERATURE, view.figure(TEMPERATURE), view.amount_text(TEMPERATURE), width, ground)


_BLANK = 0x2800
_FILL = ((0x00, 0x40, 0x44, 0x46, 0x47), (0x00, 0x80, 0xA0, 0xB0, 0xB8))
"""The bits of a cell's left and right column whose lowest dots, so many, are set."""


def line_graph(
    metric: Metric,
    history: Sequence[float | None],
    width: int,
    ground: str,
    *,
    top: float = 0.0,
    blocks: bool = False,
) -> Row:
    """A graph of one row. With `blocks` a figure is a block, for terminals whose braille has no heights."""
    if not blocks:
        return graph(metric, history, width, 1, ground, top=top)[0]
    newest = history[-width:] if width > 0 else ()
    top = top or metric.scale_of(newest)
    cells = [(fig.strip([value], 1, top=top), STYLES[grade_of(metric, value)]) for value in newest]
    return (" " * (width - len(cells)), ground.strip()), *joined(cells, ground)


def graph(
    metric: Metric,
    history: Sequence[float | None],
    width: int,
    height: int,
    ground: str = "",
    *,
    top: float = 0.0,
) -> list[Row]:
    """The newest figures as a filled curve, two a cell, the newest at the right.

    The scale ends at `top` if that is given. A figure above zero has at least one dot, an unknown one none.
    """
    newest = [*([None] * (2 * width)), *history][-2 * width :] if width > 0 else []
    top = top or metric.scale_of(newest) or 1.0
    levels = [_dots(value, top, 4 * height) for value in newest]
    styles = [STYLES[_worst(metric, newest[at : at + 2])] for at in range(0, len(newest), 2)]
    rows = []
    for row in range(height):
        low = 4 * (height - 1 - row)
        cells = [
            (chr(_BLANK | _FILL[0][_part(left, low)] | _FILL[1][_part(right, low)]), style)
            for style, left, right in zip(styles, levels[::2], levels[1::2], strict=True)
        ]
        rows.append(tuple(joined(cells, ground)))
    return rows


def _dots(value: float | None, top: float, most: int) -> int:
    if not fig.is_finite(value) or value < 0:
        return 0
    return min(max(round(value / top * most), 1 if value else 0), most)


def _part(level: int, low: int) -> int:
    return min(max(level - low, 0), 4)


def _worst(metric: Metric, values: Sequence[float | None]) -> Grade:
    """The level of the last known figure of some."""
    known = [value for value in values if value is not None]
    return grade_of(metric, known[-1] if known else None)


def scaled(
    metric: Metric, history: Sequence[float | None], width: int, height: int, *, top: float = 0.0
) -> list[Row]:
    """A graph with its scale at the left: the two ends."""
    top = top or metric.scale_of(history)
    label = metric.figure_text(top)
    room = max(len(label), len(metric.figure_text(0.0)))
    labels = [label, *[""] * (height - 2), metric.figure_text(0.0)] if height > 1 else [label]
    drawn = graph(metric, history, width - room - 2, height, top=top)
    return [
        ((f" {text:>{room}}┤", "muted"), *row) for text, row in zip(labels, drawn, strict=True)
    ]  # fmt: skip


def sensor_texts(sensors: Sensors) -> list[Span]:
    """What is known of clocks, throttling and buses, the most important first."""
    found: list[Span] = []
    if sensors.slowed_by:
        found.append((f"slowed: {', '.join(sensors.slowed_by)}", "rank-behind bold"))
    if sensors.clock is not None:
        found.append((f"SM {sensors.clock}MHz", ""))
    if sensors.received is not None or sensors.sent is not None:
        found.append((f"PCIe ↓{_rate(sensors.received)} ↑{_rate(sensors.sent)}MB/s", ""))
    if sensors.link_received is not None or sensors.link_sent is not None:
        received, sent = _rate(sensors.link_received, 1e6), _rate(sensors.link_sent, 1e6)
        found.append((f"NVLink ↓{received} ↑{sent}GB/s", ""))
    elif sensors.links is not None:
        found.append((fig.number(sensors.links, "NVLink"), ""))
    if sensors.memory_clock is not None:
        found.append((f"memory {sensors.memory_clock}MHz", ""))
    return found


def _rate(kilobytes: int | None, unit: float = 1e3) -> str:
    return fig.UNKNOWN if kilobytes is None else f"{kilobytes / unit:,.0f}"
