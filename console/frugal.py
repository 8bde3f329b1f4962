"""Fewer bytes for the same picture: a terminal is told what changes in its style, not the whole style.

Rich resets after every piece of text and names both colours before the next, which is half of what a line
over SSH would carry.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
