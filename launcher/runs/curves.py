"""`curves/`: what ranks reported, as points over steps, of bounded size, for the whole run.

`points` has records of one size, `names` the metrics' names, one JSON string a line, which records name by
number. A point is written again as it grows, and its last record counts. When the file reaches its bound,
superseded records are left out and each two neighbouring points become one; so a run of a week keeps its
whole course, at a resolution that no screen exceeds.
"""

from __future__ import annotations

import contextlib
import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from ..state.curves import CurveBuilder, CurvePoint
from ..state.events import RankReported
from . import paths
from .files import Growing, opener

MAGIC = b"rankdeck curves1".ljust(64, b"\0")
RECORD = struct.Struct("<HHIBBHIqdddd8x")
"""Number of the name, attempt, ranks, level, flags, 2 × reserved; step, time, low, mid, high."""

SIZE = RECORD.size
BROKEN, STEPLESS = 1, 2
EACH_S = 1.0
MOST_BYTES = 64 << 20
"""The bound of the file of points."""


def pack_point(point: CurvePoint, name: int) -> bytes:
    """A point as a record; `name` is the number of its metric's name."""
    flags = BROKEN * point.broken | STEPLESS * point.stepless
    figures = (point.step, point.time, point.low, point.mid, point.high)
    return RECORD.pack(name, point.attempt, point.ranks, point.level, flags, 0, 0, *figures)


def unpack_points(data: bytes, names: list[str]) -> Iterator[CurvePoint]:
    """The points in whole records; one of an unknown name is left out."""
    whole = len(data) - len(data) % SIZE
    for name, attempt, ranks, level, flags, _, _, step, time, low, mid, high in RECORD.iter_unpack(
        data[:whole]
    ):
        if name < len(names):
            yield CurvePoint(
                names[name], attempt, step, level, time, low, mid, high, ranks,
                broken=bool(flags & BROKEN), stepless=bool(flags & STEPLESS),
            )  # fmt: skip


class CurveWriter:
    """Writes the curves of one run.

    Raises:
        OSError: its files cannot be made.
    """

    def __init__(self, run: Path, *, most: int = MOST_BYTES) -> None:
        self._folder = run / paths.CURVES
        self._folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
        self._most = most
        self._due = 0.0
        self._builder = CurveBuilder()
        self._numbers: dict[str, int] = {}
        self._names = Growing(self._folder / paths.CURVE_NAMES)
        self._points = self._opened()

    def take(self, report: RankReported) -> None:
        """Add a report; `flush` writes it."""
        self._builder.take(report)

    def due(self, now: float) -> bool:
        """Whether it is time to `flush` again; `now` is monotonic. Not more often than readers look."""
        if now < self._due:
            return False
        self._due = now + EACH_S
        return True

    def flush(self) -> None:
        """Write what has changed.

        Raises:
            OSError: it cannot be written.
        """
        records = [pack_point(point, self._number(point.metric)) for point in self._builder.changed()]
        if records:
            self._points.whole(b"".join(records))
        if self._points.size > self._most:
            self._compact()

    def close(self) -> None:
        """Close the files."""
        self._points.close()
        self._names.close()

    def _opened(self) -> Growing:
        file = Growing(self._folder / paths.CURVE_POINTS)
        if not file.size:
            file.whole(MAGIC)
        return file

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._names.whole(json.dumps(name).encode() + b"\n")
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def _compact(self) -> None:
        path = self._folder / paths.CURVE_POINTS
        names = list(self._numbers)
        points = halved(unpack_points(path.read_bytes()[len(MAGIC) :], names))
        partial = path.with_suffix(".partial")
        try:
            with open(partial, "wb", opener=opener) as out:
                out.write(MAGIC)
                out.writelines(pack_point(point, self._numbers[point.metric]) for point in points)
            os.replace(partial, path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            raise
        self._points.close()
        self._points = self._opened()


def halved(points: Iterable[CurvePoint]) -> list[CurvePoint]:
    """The points, each two neighbours as one; the last of several of the same bucket counts."""
    last = {(p.metric, p.stepless, p.attempt, p.step, p.level): p for p in points}
    merged: dict[tuple[object, ...], CurvePoint] = {}
    for point in last.values():
        level = point.level + 1
        step = point.step >> level << level
        key = (point.metric, point.stepless, point.attempt, step, level)
        wide = replace(point, step=step, level=level)
        merged[key] = _both(merged[key], wide) if key in merged else wide
    return list(merged.values())


def _both(one: CurvePoint, other: CurvePoint) -> CurvePoint:
    """One point for two of the same bucket."""
    values = [value for value in (one.mid, other.mid) if value == value]
    return replace(
        one,
        time=min(one.time, other.time),
        low=_least(one.low, other.low),
        mid=sum(values) / len(values) if values else one.mid,
        high=-_least(-one.high, -other.high),
        ranks=max(one.ranks, other.ranks),
        broken=one.broken or other.broken,
    )


def _least(one: float, other: float) -> float:
    """The lesser one of two numbers, of which NaN is none."""
    return other if one != one or other < one else one
