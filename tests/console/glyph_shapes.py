"""Lines, blocks and dots of a terminal as shapes: in whatever font a picture is read, they join.

A cell is `WIDTH` by `HEIGHT` units. What a font draws is not in here: `shape_of` then gives nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

WIDTH, HEIGHT = 8, 16
STROKE, FILL, FAINT, DOTS = "stroke", "fill", "faint", "dots"

_ENDS = {
    "─": "lr", "│": "ud", "┌": "rd", "┐": "ld", "└": "ru", "┘": "lu", "├": "udr", "┤": "udl",
    "┬": "lrd", "┴": "lru", "┼": "udlr", "╴": "l", "╵": "u", "╶": "r", "╷": "d",
}  # fmt: skip
_ROUND = {
    "╭": "M4 16v-4q0-4 4-4",
    "╮": "M4 16v-4q0-4-4-4",
    "╰": "M4 0v4q0 4 4 4",
    "╯": "M4 0v4q0 4-4 4",
}
_HALVES = {"l": "M0 8h4", "r": "M4 8h4", "u": "M4 0v8", "d": "M4 8v8"}
_BARS = {"━": (0, 6.5, 8, 3), "╸": (0, 6.5, 4, 3), "╺": (4, 6.5, 4, 3), "┃": (2.5, 0, 3, 16)}
_QUARTERS = {
    "▖": "3", "▗": "4", "▘": "1", "▙": "134", "▚": "14",
    "▛": "123", "▜": "124", "▝": "2", "▞": "23", "▟": "234",
}  # fmt: skip
_CORNERS = {"1": (0, 0), "2": (4, 0), "3": (0, 8), "4": (4, 8)}
_SHADES = "░▒▓"
_DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Column and row of each bit of a Braille pattern."""


def number(value: float) -> str:
    """A number as short as it can be written."""
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"


def rectangle(x: float, y: float, width: float, height: float) -> str:
    """A filled rectangle, as a path."""
    return f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h{number(-width)}z"


@cache
def shape_of(glyph: str) -> tuple[str, tuple[tuple[float, float, str], ...]] | None:
    """How a glyph is drawn, and its paths: where each begins, and the rest of it."""
    kind, drawn = _drawn(glyph)
    return (kind, tuple(_begun(path) for path in drawn)) if drawn else None


def _begun(path: str) -> tuple[float, float, str]:
    """A path's start, and what follows it, which is relative."""
    end = min(path.index(c) for c in "hvq" if c in path)
    x, y = path[1:end].split()
    return float(x), float(y), path[end:]


def _drawn(glyph: str) -> tuple[str, list[str]]:
    code = ord(glyph)
    if glyph in _ENDS:
        return STROKE, _straight(_ENDS[glyph])
    if glyph in _ROUND:
        return STROKE, [_ROUND[glyph]]
    if glyph in _BARS:
        return FILL, [rectangle(*_BARS[glyph])]
    if glyph in _QUARTERS:
        return FILL, [rectangle(*_CORNERS[n], 4, 8) for n in _QUARTERS[glyph]]
    if glyph in _SHADES:
        return FAINT, [rectangle(0, 0, WIDTH, HEIGHT)]
    if 0x2800 < code <= 0x28FF:
        return DOTS, list(_braille(code - 0x2800))
    return FILL, _block(code)


def _straight(ends: str) -> list[str]:
    whole = {"lr": "M0 8h8", "ud": "M4 0v16"}
    return [whole[ends]] if ends in whole else [_HALVES[end] for end in ends]


def _block(code: int) -> list[str]:
    """Eighths of a cell: from below, from the left, and the halves at the other sides."""
    if 0x2581 <= code <= 0x2588:
        eighths = (code - 0x2580) * HEIGHT / 8
        return [rectangle(0, HEIGHT - eighths, WIDTH, eighths)]
    if 0x2589 <= code <= 0x258F:
        return [rectangle(0, 0, (0x2590 - code) * WIDTH / 8, HEIGHT)]
    others = {
        0x2580: (0, 0, WIDTH, HEIGHT / 2),
        0x2590: (WIDTH / 2, 0, WIDTH / 2, HEIGHT),
        0x2594: (0, 0, WIDTH, HEIGHT / 8),
        0x2595: (WIDTH * 7 / 8, 0, WIDTH / 8, HEIGHT),
    }
    return [rectangle(*others[code])] if code in others else []


def _braille(bits: int) -> Iterator[str]:
    for bit, (column, row) in enumerate(_DOTS):
        if bits >> bit & 1:
            yield f"M{2 + 4 * column} {2 + 4 * row}h0"
