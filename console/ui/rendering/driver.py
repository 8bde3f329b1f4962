"""What the terminal gets: fewer escape codes, and no colour or glyph that it should not have.

Rich resets after every piece of text and names both colours before the next, which is half of what a line
over SSH would carry.

At this last moment nothing that a widget draws can be missed: borders, bars, titles and a run's own text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter, Monochrome

from ...glyphs import ascii_text

if TYPE_CHECKING:
    from textual.color import Color
    from textual.driver import Driver

_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_EXTENDED = {"2": 5, "5": 3}
_GROUNDS = ((30, 40, "front"), (90, 98, "front"), (40, 50, "back"), (100, 108, "back"))


def frugal(driver: type[Driver]) -> type[Driver]:
    """A driver that writes the same in fewer bytes."""

    class Frugal(driver):  # type: ignore[misc,valid-type]  # which driver it is depends on the platform
        def write(self, data: str) -> None:
            super().write(squeezed(data))

    return Frugal


def squeezed(text: str) -> str:
    """The same picture; the style at the end is the terminal's own, as it must be at the start."""
    first, *rest = _STYLE.split(text)
    if not rest:
        return text
    out, actual, wanted = [first], "", ""
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        wanted = "" if codes in ("", "0") else f"{wanted};{codes}" if wanted else codes
        if piece:
            if wanted != actual:
                out.append(_step(actual, wanted))
                actual = wanted
            out.append(piece)
    if actual:
        out.append("\x1b[0m")
    return "".join(out)


@lru_cache(4096)
def _step(actual: str, wanted: str) -> str:
    """What takes a terminal from one style to another."""
    before, after = dict(_parts(actual)), dict(_parts(wanted))
    if before.keys() <= after.keys():
        changed = ";".join(codes for kind, codes in after.items() if before.get(kind) != codes)
        return f"\x1b[{changed}m" if changed else ""
    return f"\x1b[0;{';'.join(after.values())}m" if after else "\x1b[0m"


def _parts(style: str) -> Iterator[tuple[str, str]]:
    """What a style says of each of its parts: the two colours, and every attribute by its code."""
    codes = style.split(";") if style else []
    while codes:
        code = codes[0]
        length = _EXTENDED.get(codes[1], 1) if code in ("38", "48") and codes[1:] else 1
        yield _kind(code), ";".join(codes[:length])
        del codes[:length]


def _kind(code: str) -> str:
    number = int(code or 0)
    return next((kind for first, end, kind in _GROUNDS if first <= number < end), code)


class AsciiFilter(LineFilter):
    """Writes twins for glyphs, without moving anything."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002
        """The same cells in ASCII."""
        return [segment if segment.text.isascii() else _ascii(segment) for segment in segments]


def _ascii(segment: Segment) -> Segment:
    width = cell_len(segment.text)
    return Segment(ascii_text(segment.text)[:width].ljust(width), segment.style, segment.control)


_ASCII = AsciiFilter()


def line_filters(usual: Sequence[LineFilter], *, no_color: bool, ascii: bool) -> list[LineFilter]:  # noqa: A002
    """The filters that this terminal needs, beside Textual's `usual` ones."""
    return list(_filters(usual, no_color, ascii))


def _filters(usual: Sequence[LineFilter], no_color: bool, ascii: bool) -> Iterator[LineFilter]:  # noqa: A002
    for each in usual:
        # Textual takes an empty NO_COLOR for a wish; the convention does not
        if no_color or not isinstance(each, Monochrome):
            yield each
    if ascii:
        yield _ASCII


def wants_no_color(environ: Mapping[str, str]) -> bool:
    """Whether colours are unwanted: `NO_COLOR` is set, and not empty."""
    return bool(environ.get("NO_COLOR"))
