"""The curves of one run, read from its folder and kept up to date while it grows; as columns of numbers.

A metric's points are sorted by attempt and step, each part of a bucket once. The values of a point are those
of all ranks: the least, the median and the greatest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from launcher.runs import files, paths
from launcher.runs.curves import BROKEN, MAGIC, MOST_BYTES, SIZE, STEPLESS, names_in, pack_point
from launcher.runs.reader import decoded
from launcher.runs.samples import halves, lines_of, sample_files
from launcher.state.curves import LARGEST_STEP, LARGEST_TIME, MOST_LEVEL, CurveBuilder
from launcher.state.events import RankReported

_MOST_NAMES = 1 << 20
MOST_SAMPLED = 8 << 20
"""Of a run without curves, so many bytes of samples are read."""


@dataclass(frozen=True, slots=True, eq=False)
class CurvePoints:
    """The points of one metric, as columns of one length, sorted by attempt and step.

    Attributes:
        attempt, step, width: of each point; a width is in steps.
        time: of each point's first report, in seconds since the epoch.
        low, mid, high: over the ranks; NaN where none was finite.
        broken: whether a value was not finite.
    """

    attempt: NDArray[np.int64]
    step: NDArray[np.int64]
    width: NDArray[np.int64]
    time: NDArray[np.float64]
    low: NDArray[np.float64]
    mid: NDArray[np.float64]
    high: NDArray[np.float64]
    broken: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.step)


def dtype() -> np.dtype[np.void]:
    """The layout of a record; see `launcher.runs.curves.RECORD`."""
    return np.dtype([
        ("name", "<u2"), ("attempt", "<u2"), ("ranks", "<u4"), ("level", "u1"), ("flags", "u1"),
        ("part", "<u2"), ("reserved", "V4"), ("step", "<i8"), ("time", "<f8"), ("low", "<f8"), ("mid", "<f8"),
        ("high", "<f8"), ("spare", "V8"),
    ])  # fmt: skip


class CurveStore:
    """Reads a run's curves. Used by one thread; what it returns is never changed.

    Attributes:
        curves: the points by metric; of one reported with and without steps, those with steps.
        unreadable: why the file cannot be read; empty if it can, or if there is none.
    """

    def __init__(self, run: Path) -> None:
        self._run = run
        self._folder = run / paths.CURVES
        self._inode: tuple[int, int] | None = None
        self._offset = 0
        self._sampled = False
        self._raw: dict[int, np.ndarray] = {}
        self.curves: Mapping[str, CurvePoints] = {}
        self.unreadable = ""

    def poll(self) -> bool:
        """Read what is new; return whether there was anything."""
        try:
            records = self._read()
            names = self._names() if len(records) else []
        except FileNotFoundError:
            return self._take_samples()
        except OSError as error:
            self.unreadable = error.strerror or str(error)
            return False
        self.unreadable = ""
        return bool(len(records)) and self._take(records, names)

    def _take_samples(self) -> bool:
        """Make curves of a run that was recorded without any, of its newest samples; once."""
        if self._sampled:
            return False
        self._sampled = True
        try:
            records, names = records_of_samples(self._run)
        except OSError as error:
            self.unreadable = error.strerror or str(error)
            return False
        return bool(len(records)) and self._take(records, names)

    def _read(self) -> np.ndarray:
        with files.open_file(self._run, self._folder / paths.CURVE_POINTS, buffering=0) as file:
            found = os.fstat(file.fileno())
            if (found.st_dev, found.st_ino) != self._inode or found.st_size < self._offset:
                if os.pread(file.fileno(), len(MAGIC), 0) != MAGIC:
                    raise OSError(0, "it has no points")
                self._inode, self._offset = (found.st_dev, found.st_ino), len(MAGIC)
                self._raw = {}
            size = min(found.st_size, 2 * MOST_BYTES) - self._offset
            data = os.pread(file.fileno(), size - size % SIZE, self._offset) if size >= SIZE else b""
        self._offset += len(data) - len(data) % SIZE
        return np.frombuffer(data[: len(data) - len(data) % SIZE], dtype())

    def _names(self) -> list[str]:
        data = files.read_whole(self._run, self._folder / paths.CURVE_NAMES, _MOST_NAMES)
        return names_in(data)

    def _take(self, records: np.ndarray, names: list[str]) -> bool:
        valid = _valid(records)
        records = records if valid.all() else records[valid]
        curves = dict(self.curves)
        for number, name in enumerate(names):
            of_name = records["name"] == number
            if not name or not of_name.any():
                continue
            fresh = records if of_name.all() else records[of_name]
            known = self._raw.get(number)
            self._raw[number] = merged = _merged(known, fresh)
            curves[name] = _columns(merged)
        self.curves = curves
        return True


def records_of_samples(run: Path, limit: int = MOST_SAMPLED) -> tuple[np.ndarray, list[str]]:
    """The records of a run's last reports, and the names that they refer to."""
    builder, numbers = CurveBuilder(), dict[str, int]()
    data = bytearray()
    _, newest = halves(sample_files(run), limit)
    for stretch in newest:
        for fact in decoded(line for line in lines_of(stretch) if b'"rank_reported"' in line):
            if isinstance(fact, RankReported):
                builder.take(fact)
        for point in builder.changed():
            data += pack_point(point, numbers.setdefault(point.metric, len(numbers)))
    return np.frombuffer(bytes(data), dtype()), list(numbers)


def _valid(records: np.ndarray) -> np.ndarray:
    """Which records can be points: a folder may come from anybody."""
    step = records["step"].astype(np.float64)
    valid: np.ndarray = (
        (records["level"] <= MOST_LEVEL)
        & (np.abs(step) <= LARGEST_STEP)
        & (np.abs(records["time"]) <= LARGEST_TIME)
        & ~np.isinf(records["low"]) & ~np.isinf(records["mid"]) & ~np.isinf(records["high"])
    )  # fmt: skip
    return valid


def _merged(known: np.ndarray | None, fresh: np.ndarray) -> np.ndarray:
    """Sorted records, the last one of each bucket. Fresh ones mostly come after all that is known."""
    if known is None or not len(known):
        return _last_of_each(fresh)
    start = _start(known, fresh)
    return np.concatenate([known[:start], _last_of_each(np.concatenate([known[start:], fresh]))])


def _start(known: np.ndarray, fresh: np.ndarray) -> int:
    """From where sorted records have to be merged with fresh ones."""
    last, first = int(known["attempt"][-1]), int(fresh["attempt"].min())
    if first > last:
        return len(known)
    if first < last:
        return 0
    begin = int(np.searchsorted(known["attempt"], last))
    return begin + int(np.searchsorted(known["step"][begin:], fresh["step"].min()))


def _last_of_each(records: np.ndarray) -> np.ndarray:
    """The records sorted by attempt and step, the last one of each bucket."""
    differs = np.zeros(max(len(records) - 1, 0), bool)
    for name in ("part", "level", "step", "attempt"):
        key = np.ascontiguousarray(records[name])
        if (key[1:] < key[:-1]).any():  # a stable sort of what is nearly sorted is quick: no lexsort
            records = records[np.argsort(key, kind="stable")]
    for name in ("part", "level", "step", "attempt"):
        differs |= records[name][1:] != records[name][:-1]
    last: np.ndarray = records if differs.all() else records[np.append(differs, True)]
    return last


def _columns(records: np.ndarray) -> CurvePoints:
    stepped = (records["flags"] & STEPLESS) == 0
    if stepped.any() and not stepped.all():
        records = records[stepped]
    return CurvePoints(
        attempt=records["attempt"].astype(np.int64),
        step=records["step"].copy(),
        width=np.left_shift(np.int64(1), records["level"].astype(np.int64)),
        time=records["time"].copy(),
        low=records["low"].copy(),
        mid=records["mid"].copy(),
        high=records["high"].copy(),
        broken=(records["flags"] & BROKEN) != 0,
    )
