"""What is sent to the terminal: fewer escape codes, and no colour or glyph that it cannot or must not show.

Rich resets the style after every piece of text and names both colours before the next, which is half of the
bytes of a line. Output is filtered here, at the last step, so that the filters see everything: borders, bars,
titles and the run's own text.
"""

from __future__ import annotations

import re
import time
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
_HANDOVER_S = 50e-6
_GROUNDS = ((30, 40, "front"), (90, 98, "front"), (40, 50, "back"), (100, 108, "back"))


def frugal(driver: type[Driver]) -> type[Driver]:
    """A driver that writes the same picture in fewer bytes, and without delay.

    A thread of the driver writes to the terminal. Without a pause here, it would wait for the interpreter's
    lock until the event loop has done all that follows the frame: a typed character came 0.7 ms later.
    """

    class Frugal(driver):  # type: ignore[misc,valid-type]  # the base depends on the platform
        def write(self, data: str) -> None:
            super().write(squeezed(data))
            time.sleep(_HANDOVER_S)

    return Frugal


def squeezed(text: str) -> str:
    """The same picture in fewer bytes; the terminal's default style must be active before, and is after."""
    first, *rest = _STYLE.split(text)
    if not rest:
        return text
    out, actual, target = [first], "", ""
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        target = "" if codes in ("", "0") else f"{target};{codes}" if target else codes
        if piece:
            if target != actual:
                out.append(_step(actual, target))
                actual = target
            out.append(piece)
    if actual:
        out.append("\x1b[0m")
    return "".join(out)


@lru_cache(4096)
def _step(actual: str, target: str) -> str:
    """The sequence that changes a terminal from one style to another."""
    before, after = dict(_parts(actual)), dict(_parts(target))
    if before.keys() <= after.keys():
        changed = ";".join(codes for kind, codes in after.items() if before.get(kind) != codes)
        return f"\x1b[{changed}m" if changed else ""
    return f"\x1b[0;{';'.join(after.values())}m" if after else "\x1b[0m"


def _parts(style: str) -> Iterator[tuple[str, str]]:
    """The codes of each part of a style: foreground, background, and every attribute by its code."""
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
    """Replaces each glyph with ASCII of the same width."""

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
        # for Textual, an empty NO_COLOR counts as set; for the convention it does not
        if no_color or not isinstance(each, Monochrome):
            yield each
    if ascii:
        yield _ASCII


def wants_no_color(environ: Mapping[str, str]) -> bool:
    """Whether colours are unwanted: `NO_COLOR` is set, and not empty."""
    return bool(environ.get("NO_COLOR"))
