"""A panel as HTML for a notebook, with inline styles and no scripts, and as plain text. Pure.

All text is escaped. Colours are legible on light and on dark pages; what a colour says, a word says too.
"""

from __future__ import annotations

from html import escape

from ..state.ranks import RankPhase
from ..state.run_state import Phase
from .panel import Panel, Row

_GREEN, _RED, _AMBER, _GREY = "#2e9e4f", "#d64545", "#b98300", "#808080"
_RUN_COLOURS = {
    Phase.RUNNING: _GREEN,
    Phase.SUCCEEDED: _GREEN,
    Phase.FAILED: _RED,
    Phase.LOST: _RED,
    Phase.STOPPING: _AMBER,
    Phase.WAITING: _AMBER,
}
_RANK_COLOURS = {
    RankPhase.RUNNING: _GREEN,
    RankPhase.SUCCEEDED: _GREEN,
    RankPhase.FAILED: _RED,
    RankPhase.LOST: _RED,
}
_TEXT = 2  # the columns before are numbers and states, those after it are figures
_CELL = "padding:1px 10px 1px 0;border:0;background:none;text-align:"
_MONO = "font-family:monospace;font-size:90%;line-height:1.35"


def html_of(panel: Panel) -> str:
    """The panel as HTML."""
    parts = [_title(panel), *(f"<div>{escape(line)}</div>" for line in panel.lines), _progress(panel)]
    if panel.rows:
        parts.append(_table(panel))
    if panel.rest:
        parts.append(f"<div>{escape(panel.rest)}</div>")
    if panel.tail:
        lines = escape("\n".join(panel.tail))
        style = f"{_MONO};margin:6px 0 0;padding:0;background:none;color:inherit;white-space:pre-wrap"
        parts.append(f'<pre style="{style}">{lines}</pre>')
    parts.append(f'<div style="color:{_GREY}">in a terminal: <code>{escape(panel.command)}</code></div>')
    return f'<div style="line-height:1.5">{"".join(parts)}</div>'


def _title(panel: Panel) -> str:
    colour = _RUN_COLOURS.get(panel.phase, _GREY)
    first, *others = panel.head or ("",)
    return f'<div><b style="color:{colour}">●</b> <b>{escape(first)}</b> {escape(" · ".join(others))}</div>'


def _progress(panel: Panel) -> str:
    bar = ""
    if panel.done is not None:
        outer = f"display:inline-block;width:200px;height:8px;border:1px solid {_GREY};margin-right:8px"
        inner = f"width:{panel.done * 100:.1f}%;height:8px;background:{_GREEN}"
        bar = f'<div style="{outer}"><div style="{inner}"></div></div>'
    return f"<div>{bar}{escape(panel.progress)}</div>" if bar or panel.progress else ""


def _table(panel: Panel) -> str:
    head = "".join(
        f'<th style="{_CELL}{_side(i)};color:{_GREY};font-weight:normal">{escape(name)}</th>'
        for i, name in enumerate(panel.columns)
    )
    body = "".join(f'<tr style="background:none">{_cells(row)}</tr>' for row in panel.rows)
    style = f"{_MONO};border:0;border-collapse:collapse;margin:4px 0"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def _cells(row: Row) -> str:
    colour = _RANK_COLOURS.get(row.phase, _GREY)
    return "".join(
        f'<td style="{_CELL}{_side(i)}{f";color:{colour}" if i == 1 else ""}">{escape(text)}</td>'
        for i, text in enumerate(row.cells)
    )


def _side(column: int) -> str:
    return "left" if 0 < column <= _TEXT else "right"


def text_of(panel: Panel) -> str:
    """The panel as plain text, where HTML cannot be shown."""
    lines = [" · ".join(panel.head), *panel.lines, *filter(None, [panel.progress])]
    table = [panel.columns, *(row.cells for row in panel.rows)] if panel.rows else []
    widths = [max(len(row[i]) for row in table) for i in range(len(panel.columns))] if table else []
    lines += ["  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    return "\n".join([*lines, *filter(None, [panel.rest]), *panel.tail])
