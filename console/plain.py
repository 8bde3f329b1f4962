"""What is taken from every line before a terminal gets it: colours for `NO_COLOR`, glyphs for ASCII.

At this last moment nothing that a widget draws can be missed: borders, bars, titles and a run's own text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.segment import Segment
from textual.filter import LineFilter, Monochrome

from console.glyphs import ascii_text

if TYPE_CHECKING:
    from textual.color import Color


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
