"""Long lines over several rows of the screen: which part of which line stands where.

Only what is on the screen is ever measured; the place of a page is a line and a row within it.
"""

from __future__ import annotations

from collections.abc import Callable

Place = tuple[int, int]
Measure = Callable[[int], int]


def page(top: Place, height: int, total: int, rows: Measure) -> list[Place]:
    """What stands on each row of a screen that begins at a place."""
    found: list[Place] = []
    line, row = top
    while len(found) < height and line < total:
        found += [(line, each) for each in range(row, rows(line))]
        line, row = line + 1, 0
    return found[:height]


def end(height: int, total: int, rows: Measure) -> Place:
    """Where the screen begins that shows the last row at its bottom."""
    return moved((total, 0), -height, total, rows)


def moved(place: Place, by: int, total: int, rows: Measure) -> Place:
    """The place so many rows further on, or back; no further than the first row or the last one."""
    line, row = place
    row += by
    while row < 0 and line > 0:
        line -= 1
        row += rows(line)
    while line < total - 1 and row >= (here := rows(line)):
        line, row = line + 1, row - here
    if line >= total - 1:
        row = min(row, rows(line) - 1) if 0 <= line < total else 0
    return max(line, 0), max(row, 0)
