"""How a person looks at curves: which part, on which axes, how smooth, with the cursor where. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from .run_curves import Axis

SMOOTHINGS = (0, 2, 4, 8, 16, 32)
"""Over how many hundredths of the visible part a line is a running mean."""

_LEAST_SPAN = {Axis.STEP: 4.0, Axis.TIME: 2.0}


@dataclass(frozen=True, slots=True)
class Interval:
    """The whole of an axis: where its first and last points are."""

    start: float
    end: float

    @property
    def span(self) -> float:
        """Its length."""
        return self.end - self.start


@dataclass(frozen=True, slots=True)
class Look:
    """What is shown of curves.

    Attributes:
        axis: what the horizontal axis counts.
        part: the visible part; None for the whole, also as it grows.
        log: whether the vertical axis is logarithmic.
        smoothing: an index of `SMOOTHINGS`.
        cursor: the position whose values are read; None for the last.
    """

    axis: Axis = Axis.STEP
    part: Interval | None = None
    log: bool = False
    smoothing: int = 0
    cursor: float | None = None

    def visible(self, whole: Interval) -> Interval:
        """The visible part of an axis."""
        return whole if self.part is None else self.part

    def zoomed(self, whole: Interval, factor: float) -> Look:
        """The look with a part that is `factor` times as long, around the cursor."""
        now = self.visible(whole)
        span = max(now.span * factor, _LEAST_SPAN[self.axis])
        if span >= whole.span:
            return replace(self, part=None)
        middle = self.cursor if self.cursor is not None and now.start <= self.cursor <= now.end else now.end
        share = (middle - now.start) / now.span if now.span else 1.0
        return replace(self, part=_within(middle - share * span, span, whole))

    def panned(self, whole: Interval, share: float) -> Look:
        """The look moved by a share of what is visible."""
        now = self.visible(whole)
        if self.part is None:
            return self
        return replace(self, part=_within(now.start + share * now.span, now.span, whole))

    def moved(self, whole: Interval, share: float) -> Look:
        """The look with the cursor moved by a share of what is visible, which follows it."""
        now = self.visible(whole)
        cursor = now.end if self.cursor is None else self.cursor
        cursor = min(max(cursor + share * now.span, whole.start), whole.end)
        if cursor >= whole.end:
            return replace(self, cursor=None)
        return replace(self, cursor=cursor, part=self._following(cursor, whole))

    def _following(self, cursor: float, whole: Interval) -> Interval | None:
        if self.part is None or self.part.start <= cursor <= self.part.end:
            return self.part
        start = cursor if cursor < self.part.start else cursor - self.part.span
        return _within(start, self.part.span, whole)

    def smoothed(self, by: int) -> Look:
        """The look with more smoothing, or less."""
        return replace(self, smoothing=min(max(self.smoothing + by, 0), len(SMOOTHINGS) - 1))

    def scaled(self) -> Look:
        """The look with the other vertical axis: logarithmic or not."""
        return replace(self, log=not self.log)

    def at(self, whole: Interval, position: float) -> Look:
        """The look with the cursor at a position."""
        return replace(self, cursor=min(max(position, whole.start), whole.end))

    def along(self, axis: Axis) -> Look:
        """The look on another axis, of the whole: positions on one mean nothing on the other."""
        return replace(self, axis=axis, part=None, cursor=None)


def _within(start: float, span: float, whole: Interval) -> Interval:
    """A part of a length, moved into the whole."""
    start = min(max(start, whole.start), whole.end - span)
    return Interval(start, start + span)
