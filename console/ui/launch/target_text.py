"""A target as text with styles: the file, the function, and the letters that were looked for."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import groupby

from ..widgets.rows import Row, Span


def marked_target(target: str, at: Collection[int], ground: str) -> Row:
    """A target with the letters at the positions `at` underlined; `ground` ends every style.

    What identifies it stands out: the function, or the name of a script without its folders.
    """
    source, colon, _ = target.partition(":")
    folder = len(source) if colon else source.rfind("/") + 1
    return (
        *_marked(target[:folder], 0, at, "muted", ground),
        *_marked(target[folder:], folder, at, "bold", ground),
    )


def _marked(text: str, start: int, at: Collection[int], style: str, ground: str) -> Iterator[Span]:
    """The part of a target that begins at `start`, with the letters at positions `at` underlined."""
    for hit, letters in groupby(enumerate(text, start), lambda pair: pair[0] in at):
        mark = f"{style} underline" if hit else style
        yield "".join(letter for _, letter in letters), f"{mark}{ground}"
