"""A compositor that renders and sends only what changed on the screen.

Textual renders every line of every widget between the first change and the last, and repaints a changed line
from the left end of its widget. Here, only the changed spans are rendered. Of a rendered piece, only the
cells that differ from what was sent before are sent: when a log scrolls by a line, the blanks behind most
lines stay blank, and in a border only words change.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise, starmap
from typing import TYPE_CHECKING

from textual._compositor import (
    ChopsUpdate,  # nothing public says how a screen is composed
    Compositor,  # nothing public says how a screen is composed
)
from textual.geometry import Region

if TYPE_CHECKING:
    from rich.console import Console
    from rich.segment import Segment
    from textual._compositor import LayoutUpdate, ReflowResult
    from textual.geometry import Size
    from textual.strip import Strip
    from textual.widget import Widget

Span = tuple[int, int, int]
"""A part of a line: its y, its first x, and the x after its last cell."""


class CroppingCompositor(Compositor):
    """Composes a screen as Textual does, and repaints regions of it cell by cell."""

    def __init__(self) -> None:
        super().__init__()
        self._sent = SentLines()

    def reflow(self, parent: Widget, size: Size) -> ReflowResult:
        """Lay the widgets out again."""
        self._sent.forget()
        return super().reflow(parent, size)

    def render_full_update(self, simplify: bool = False) -> LayoutUpdate:
        """The whole screen, whatever the terminal shows at the moment."""
        self._sent.forget()
        return super().render_full_update(simplify)

    def render_partial_update(self) -> ChopsUpdate | None:
        """The spans to repaint; None if there are none."""
        screen = self.size.region
        dirty = [region.intersection(screen) for region in self._dirty_regions]
        self._dirty_regions.clear()
        spans = list(self._regions_to_spans(region for region in dirty if region))
        if not spans:
            return None
        painted = PartialFrame(spans, self.cuts)
        for widget, (region, clip) in self.visible_widgets.items():
            if painted.done:
                break
            painted.add(widget, region, region.intersection(clip))
        return CroppedUpdate(painted.chops, spans, [line[1:] for line in self.cuts], self._sent)


class PartialFrame:
    """The spans of a screen that are repainted; widgets fill them, the foremost first.

    Args:
        spans: what to repaint.
        cuts: for every line of the screen, each x at which a widget may begin or end.
    """

    def __init__(self, spans: Sequence[Span], cuts: Sequence[Sequence[int]]) -> None:
        self.chops: list[dict[int, Strip | None]] = [{} for _ in cuts]
        self._cuts = cuts
        self._missing: dict[int, set[int]] = {}
        for y, first, last in spans:
            self.chops[y] = dict.fromkeys(cuts[y][:-1])
            pieces = {left for left, right in pairwise(cuts[y]) if left < last and first < right}
            self._missing[y] = self._missing.get(y, set()) | pieces

    @property
    def done(self) -> bool:
        """Whether all spans are filled."""
        return not self._missing

    def add(self, widget: Widget, region: Region, shown: Region) -> None:
        """Fill the spans that a widget covers: it lies at `region`, of which `shown` is visible."""
        lines = [y for y in self._missing if shown.y <= y < shown.bottom and self._lacks(y, shown)]
        if not lines:
            return
        first, last = min(lines), max(lines)
        part = Region(shown.x - region.x, first - region.y, shown.width, last - first + 1)
        strips = widget.render_lines(part)
        for y in lines:
            self._fill(y, strips[y - first], shown)

    def _lacks(self, y: int, shown: Region) -> bool:
        return any(shown.x <= cut < shown.right for cut in self._missing[y])

    def _fill(self, y: int, strip: Strip, shown: Region) -> None:
        missing, line = self._missing[y], self.chops[y]
        cuts = [cut for cut in self._cuts[y] if shown.x <= cut <= shown.right]
        for cut, piece in zip(cuts, strip.divide([cut - shown.x for cut in cuts[1:]]), strict=False):
            if cut in missing:
                line[cut] = piece
                missing.remove(cut)
        if not missing:
            del self._missing[y]


class CroppedUpdate(ChopsUpdate):
    """An update that sends of each span only the cells from the first to the last that differs."""

    chops: Sequence[Mapping[int, Strip | None]]

    def __init__(
        self,
        chops: Sequence[Mapping[int, Strip | None]],
        spans: list[Span],
        chop_ends: list[list[int]],
        sent: SentLines,
    ) -> None:
        super().__init__(chops, spans, chop_ends)
        self._sent = sent

    def render_segments(self, console: Console) -> str:
        """The text and escape sequences for the terminal."""
        return "".join(
            f"\x1b[{y + 1};{x + 1}H{strip.render(console)}"
            for y, first, last in self.spans
            for x, strip in starmap(partial(self._sent.changed, y), self._pieces(y, first, last))
            if strip.cell_length
        )

    def _pieces(self, y: int, first: int, last: int) -> Iterator[tuple[int, Strip]]:
        for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
            left, right = max(x, first), min(end, last)
            if strip is not None and left < right:
                yield left, strip if (left, right) == (x, end) else strip.crop(left - x, right - x)


# Every terminal shows these in one cell each. After any other character, the column is uncertain.
_PLAIN = re.compile(
    r"[ -~\u00a1-\u00ac\u00ae-\u02ff\u2010-\u2027\u2190-\u21ff\u2500-\u25ff\u2713\u2717\u2800-\u28ff]*"
)


class SentLines:
    """The pieces of lines that the terminal shows, by their place."""

    def __init__(self) -> None:
        self._lines: dict[int, dict[tuple[int, int], Strip]] = {}

    def forget(self) -> None:
        """Assume nothing about what the terminal shows."""
        self._lines.clear()

    def changed(self, y: int, x: int, strip: Strip) -> tuple[int, Strip]:
        """The part of a piece that must be sent, and its x; the piece is recorded as sent."""
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
    """How many cells at the start of two lines are equal."""
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
