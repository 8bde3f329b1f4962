"""What the terminal was last sent of each line, so that what stays as it is need not be sent again.

A log that moves up by a line leaves blanks behind most lines blank, and of a frame's edge only words change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.segment import Segment
    from textual.strip import Strip

# Every terminal gives these one cell each. After any other, cells may not be where we think they are.
_PLAIN = re.compile(
    r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25ff\u2713\u2717\u2800-\u28ff]*"
)


class SentLines:
    """Pieces of lines, each where it was sent to."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[tuple[int, int], Strip]] = {}

    def forget(self) -> None:
        """The terminal may show anything."""
        self._lines.clear()

    def news(self, y: int, x: int, strip: Strip) -> tuple[int, Strip]:
        """What is to be sent of a piece, and to where; from now on it counts as sent."""
        line = self._lines.setdefault(y, {})
        here = (x, x + strip.cell_length)
        before = line.get(here)
        if before is None:
            for other in [other for other in line if other[0] < here[1] and here[0] < other[1]]:
                del line[other]
        line[here] = strip
        if before is None or not (_PLAIN.fullmatch(before.text) and _PLAIN.fullmatch(strip.text)):
            return x, strip
        first = _alike(list(before), list(strip))
        last = strip.cell_length - _alike(_backwards(before), _backwards(strip))
        return x + first, strip.crop(first, max(first, last))


def _alike(before: Sequence[Segment], after: Sequence[Segment]) -> int:
    """How many cells two lines begin with that are the same."""
    count = 0
    for one, other in zip(before, after, strict=False):
        if one.style != other.style:
            break
        count += _common(one.text, other.text)
        if one.text != other.text:
            break
    return count


def _common(one: str, other: str) -> int:
    if one == other:
        return len(one)
    pairs = enumerate(zip(one, other, strict=False))
    return next((i for i, (a, b) in pairs if a != b), min(len(one), len(other)))


def _backwards(strip: Strip) -> list[Segment]:
    return [segment._replace(text=segment.text[::-1]) for segment in reversed(list(strip))]
