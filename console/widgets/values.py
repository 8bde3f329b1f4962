"""A returned value by its shape: figures, trees, tables and courses. Pure, and bounded whatever comes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from console.widgets import figures as fig
from console.widgets.plots import plot_rows
from console.widgets.sheet import Row

MOST_ROWS, MOST_CELLS = 400, 200
_DEPTH, _COLUMN, _PLOT, _LEAST_COURSE = 8, 18, 5, 8


def structured(value: object) -> bool:
    """Whether one line would hide its shape."""
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return is_course(value) or any(isinstance(v, dict | list) and v for v in inner)


def value_rows(value: object, width: int) -> list[Row]:
    """The value, at most `MOST_ROWS` rows of it."""
    rows = list(islice(_rows(value, width, 1), MOST_ROWS + 1))
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], ((" …", "muted"),)]


def _rows(value: Any, width: int, depth: int) -> Iterator[Row]:
    indent = "  " * depth
    if depth > _DEPTH or not isinstance(value, dict | list) or not value:
        yield ((indent + scalar(value), ""),)
    elif isinstance(value, dict):
        yield from _tree(value, width, depth)
    elif is_table(value):
        yield from _table(value, indent)
    elif is_course(value):
        yield from _course("", value, width, depth)
    else:
        for number, item in enumerate(value):
            yield from _entry(str(number), item, width, depth)


def _tree(value: Mapping[str, Any], width: int, depth: int) -> Iterator[Row]:
    for name, item in value.items():
        yield from _entry(str(name), item, width, depth)


def _entry(name: str, item: Any, width: int, depth: int) -> Iterator[Row]:
    label = "  " * depth + _text(name)
    if is_course(item):
        yield from _course(name, item, width, depth)
    elif isinstance(item, dict | list) and item:
        yield ((label, "muted"), (f"  {len(item)}", "muted"))
        yield from _rows(item, width, depth + 1)
    else:
        yield ((f"{label}  ", "muted"), (scalar(item), ""))


def is_table(value: object) -> bool:
    """Whether it is a list of objects without further shape."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(row, dict) and row for row in value)
        and not any(isinstance(cell, dict | list) for row in value for cell in row.values())
    )


def is_course(value: object) -> bool:
    """Whether it is a history of a figure: many numbers."""
    return isinstance(value, list) and len(value) >= _LEAST_COURSE and all(_is_number(v) for v in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _table(rows: Sequence[Mapping[str, Any]], indent: str) -> Iterator[Row]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[scalar(row[name]) if name in row else "" for name in names] for row in rows[:MOST_ROWS]]
    sizes = [
        min(max(len(_text(n)), *(len(line[at]) for line in cells)), _COLUMN) for at, n in enumerate(names)
    ]
    yield ((indent + _line([_text(name) for name in names], sizes), "muted"),)
    for line in cells:
        yield ((indent + _line(line, sizes), ""),)
    if len(rows) > len(cells):
        yield ((f"{indent}and {len(rows) - len(cells)} more", "muted"),)


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "  ".join(f"{fig.shorten(cell, size):<{size}}" for cell, size in zip(cells, sizes, strict=True))


def _course(name: str, values: Sequence[float], width: int, depth: int) -> Iterator[Row]:
    for row in plot_rows(_text(name) or f"{len(values)} figures", values, width - 2 * depth, _PLOT):
        yield (("  " * depth, ""), *row)


def scalar(value: object) -> str:
    """One value on one line."""
    if isinstance(value, float):
        return fig.metric(value, 6)
    return _text(value if isinstance(value, str) else written(value))


def written(value: object) -> str:
    """JSON, unless it is nested too deep to be written."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "… nested too deep to be shown"


def _text(value: str) -> str:
    return fig.shorten(value[: MOST_CELLS + 1].replace("\n", " "), MOST_CELLS)
