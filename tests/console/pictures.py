"""Pictures of a terminal as text: what every cell shows, and how it is styled, for diffs.

What is pictured is what the bytes make of a terminal's screen (pyte emulates one), so everything counts that
is between a widget and an eye: partial repaints, the driver that saves bytes, the filters for ASCII and
NO_COLOR. Colours have the names that the theme gives them; another palette changes no picture.
"""

from __future__ import annotations

import re
import string
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyte
from textual.color import Color, ColorParseError
from textual.drivers.headless_driver import HeadlessDriver

from console.themes import FALLBACKS

if TYPE_CHECKING:
    from pyte.screens import Char
    from textual.app import App

Cells = list[list[tuple[str, str]]]

_LETTERS = string.ascii_letters + string.digits
_GROUND = "."
_LONG = re.compile(r"(.)\1{11,}")
_FLAGS = ("bold", "italics", "underscore", "reverse", "strikethrough")


class Emulated(HeadlessDriver):
    """A terminal whose screen can be read."""

    def __init__(self, app: App[int], **options: Any) -> None:
        super().__init__(app, **options)
        self._sent: list[str] = []
        self._screen = pyte.Screen(*(options.get("size") or (80, 24)))
        self._stream = pyte.Stream(self._screen)

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        self._sent.append(data)

    @property
    def cells(self) -> Cells:
        """Every cell: its text, empty in the right half of a wide one, and its style in pyte's words."""
        sent, self._sent = self._sent, []
        self._stream.feed("".join(sent))
        screen = self._screen
        return [
            [(cell.data, _style(cell)) for cell in map(screen.buffer[y].__getitem__, range(screen.columns))]
            for y in range(screen.lines)
        ]


def picture(app: App[int]) -> str:
    """What the terminal of an app shows now."""
    driver = app._driver
    assert isinstance(driver, Emulated)
    named = names(app.theme_variables)
    return "\n".join(drawn([[(text, called(style, named)) for text, style in line] for line in driver.cells]))


def drawn(cells: Cells) -> Iterator[str]:
    """The text, then a letter for the style of each cell, then what the letters mean.

    Spaces at the end of a line of text are left out, as is the ground, a dot, at the end of one of styles;
    ``a{40}`` is the letter forty times.
    """
    letters = lettered(Counter(style for line in cells for _, style in line))
    yield from ("".join(text for text, _ in line).rstrip() for line in cells)
    yield "=" * len(cells[0])
    number = 0
    for line, same in groupby("".join(letters[s] for _, s in line).rstrip(_GROUND) for line in cells):
        first, number = number + 1, number + len(list(same))
        yield f"{first:02}-{number:02} {_LONG.sub(_counted, line)}".rstrip()
    yield "=" * len(cells[0])
    yield from (f"{letter} {style}" for style, letter in letters.items())
    yield ""


def _counted(match: re.Match[str]) -> str:
    return f"{match[1]}{{{len(match[0])}}}"


def lettered(styles: Counter[str]) -> dict[str, str]:
    """A letter for each style, and a dot for that of most cells.

    A style has the same letter in all pictures unless another wants it too, so a new one renames no others.
    """
    (ground, _), *others = styles.most_common()
    letters, free = {ground: _GROUND}, _LETTERS
    for style in sorted(style for style, _ in others):
        wanted = zlib.crc32(style.encode()) % len(_LETTERS)
        letters[style] = next(c for c in _LETTERS[wanted:] + _LETTERS[:wanted] if c in free)
        free = free.replace(letters[style], "")
    return letters


def called(style: str, named: Mapping[str, str]) -> str:
    """A style with the theme's names for its colours."""
    return " ".join(f"${named[word]}" if word in named else word for word in style.split())


def names(variables: Mapping[str, str]) -> dict[str, str]:
    """What the theme calls a colour, by its hexadecimal digits; of several, our own."""
    found: dict[str, str] = {}
    for name in sorted(variables, key=_rank_of):
        try:
            color = Color.parse(variables[name])
        except ColorParseError:
            continue
        if color.a == 1:
            found.setdefault(color.hex6.lower(), name)
    return found


def _rank_of(name: str) -> tuple[bool, bool, int, str]:
    """Names that mean something before names of shades."""
    return name.startswith("tint-"), name not in FALLBACKS, len(name), name


def _style(cell: Char) -> str:
    """How a cell looks; a space has no colour of its own."""
    flags = [flag for flag in _FLAGS if getattr(cell, flag)]
    front = [] if cell.data.isspace() and not set(flags) & {"reverse", "underscore"} else [_color(cell.fg)]
    return " ".join([*front, "on", _color(cell.bg), *(flags if front else ())])


def _color(name: str) -> str:
    return f"#{name}" if len(name) == 6 and set(name) <= set(string.hexdigits) else name
