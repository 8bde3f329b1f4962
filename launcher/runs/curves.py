"""`curves/`: what ranks reported, as points over steps, of bounded size, for the whole run.

`points` has records of one size, `names` the metrics' names, one JSON string a line, which records name by
number. A point is written again as it grows, and its last record counts. When the file reaches its bound,
superseded records are left out and each two neighbouring points become one; so a run of a week keeps its
whole course, at a resolution that no screen exceeds.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..state.curves import MOST_LEVEL, MOST_METRICS, CurveBuilder, CurvePoint
from ..state.events import RankReported
from . import paths
from .files import Growing, opener

MAGIC = b"rankdeck curves1".ljust(64, b"\0")
RECORD = struct.Struct("<HHIBBHIqdddd8x")
"""Number of the name, attempt, ranks, level, flags, part, reserved; step, time, low, mid, high."""

SIZE = RECORD.size
BROKEN, STEPLESS = 1, 2
EACH_S = 1.0
MOST_BYTES = 16 << 20
"""From this size the file of points is made shorter. Where that fails, it may become twice as large."""

MOST_WAITING = 4 << 20
"""So many bytes of points wait when the disk is full."""


def pack_point(point: CurvePoint, name: int) -> bytes:
    """A point as a record; `name` is the number of its metric's name."""
    flags = BROKEN * point.broken | STEPLESS * point.stepless
    figures = (point.step, point.time, point.low, point.mid, point.high)
    return RECORD.pack(name, point.attempt, point.ranks, point.level, flags, point.part, 0, *figures)


def unpack_points(data: bytes, names: list[str]) -> Iterator[CurvePoint]:
    """The points in whole records; one of an unknown name is left out."""
    whole = len(data) - len(data) % SIZE
    for name, attempt, ranks, level, flags, part, _, step, time, low, mid, high in RECORD.iter_unpack(
        data[:whole]
    ):
        if name < len(names):
            yield CurvePoint(
                names[name], attempt, step, level, time, low, mid, high, ranks,
                broken=bool(flags & BROKEN), stepless=bool(flags & STEPLESS), part=part,
            )  # fmt: skip


def names_in(data: bytes) -> list[str]:
    """The names in the file of names, by number; empty for a line that holds none."""
    return [_name(line) for line in data.splitlines()[:MOST_METRICS]]


def _name(line: bytes) -> str:
    try:
        name = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return name if isinstance(name, str) else ""


class CurveWriter:
    """Writes the curves of one run.

    Raises:
        OSError: its files cannot be made.
    """

    def __init__(self, run: Path, *, most: int = MOST_BYTES) -> None:
        self._folder = run / paths.CURVES
        self._folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
        self._most = self._full = most
        self._waiting, self._new_names = bytearray(), bytearray()
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
        """Write what has changed, and what could not be written before.

        Raises:
            OSError: it cannot be written; it waits for the next call.
        """
        for point in self._builder.changed():
            self._waiting += pack_point(point, self._number(point.metric))
        del self._waiting[: max(len(self._waiting) - MOST_WAITING // SIZE * SIZE, 0)]
        if self._new_names:
            self._names.whole(bytes(self._new_names))
            self._new_names.clear()
        if self._waiting:
            self._points.whole(bytes(self._waiting))
            self._waiting.clear()
        if self._points.size > self._full:
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
            self._new_names += json.dumps(name).encode() + b"\n"
            self._numbers[name] = len(self._numbers)
        return self._numbers[name]

    def _compact(self) -> None:
        """Make the file shorter. Without room for that, it grows on for a while.

        Raises:
            OSError: it cannot be made shorter, and is far too large.
        """
        path = self._folder / paths.CURVE_POINTS
        records = shortened(path.read_bytes()[len(MAGIC) :], self._most // 2 // SIZE)
        partial = path.with_name(f".{path.name}.partial")
        try:
            with open(partial, "wb", opener=opener) as out:
                out.write(MAGIC)
                out.writelines(itertools.starmap(RECORD.pack, records))
            os.replace(partial, path)
        except OSError:
            with contextlib.suppress(OSError):
                partial.unlink()
            if self._points.size > 2 * self._most - self._most // 8:
                raise
            self._full = self._points.size + self._most // 8
            return
        self._full = self._most
        self._points.close()
        self._points = self._opened()


Record = tuple[int, int, int, int, int, int, int, int, float, float, float, float]


def shortened(data: bytes, most: int) -> list[Record]:
    """The records of points: `most` or fewer, each two neighbours as one, as often as it takes.

    Of several of the same point the last one counts.
    """
    whole = data[: len(data) - len(data) % SIZE]
    # by name, attempt, level, flags, part and step; whether a value was not finite is no part of it
    last = {(r[0], r[1], r[3], r[4] & STEPLESS, r[5], r[7]): r for r in RECORD.iter_unpack(whole)}
    records: list[Record] = [*last.values()]
    for _ in range(MOST_LEVEL):
        if len(records) <= most:
            break
        records = halved(records)
    return records[-most:]


def halved(records: Iterable[Record]) -> list[Record]:
    """The records, each two neighbours as one, the parts of a point too."""
    merged: dict[tuple[int, ...], Record] = {}
    for name, attempt, ranks, level, flags, _, spare, step, time, low, mid, high in records:
        wider = min(level + 1, MOST_LEVEL)
        step = step >> wider << wider
        key = (name, attempt, wider, flags & STEPLESS, step)
        record = name, attempt, ranks, wider, flags, 0, spare, step, time, low, mid, high
        other = merged.get(key)
        merged[key] = record if other is None else _both(other, record)
    return [*merged.values()]


def _both(one: Record, other: Record) -> Record:
    """One record for two of the same bucket."""
    name, attempt, ranks, level, flags, part, spare, step, time, low, mid, high = one
    _, _, ranks2, _, flags2, _, _, _, time2, low2, mid2, high2 = other
    middle = mid2 if mid != mid else mid if mid2 != mid2 else mid / 2 + mid2 / 2
    return (
        name, attempt, max(ranks, ranks2), level, flags | flags2, part, spare, step,
        min(time, time2), _least(low, low2), middle, -_least(-high, -high2),
    )  # fmt: skip


def _least(one: float, other: float) -> float:
    """The lesser one of two numbers, of which NaN is none."""
    return other if one != one or other < one else one
