"""The course of each run's leading metric, for a small curve in the list of runs.

Only the runs on the screen are read, in a thread, and of each a bounded part: its curves, or if it has none,
evenly spaced parts of its samples. What was read of a run that has ended is kept.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

from launcher.runs import curves, files, paths, samples
from launcher.state import events as ev

from ..curves.run_curves import leading
from ..polling import Poller
from .run_list import LOOK_S

Series = tuple[float, ...]

POINTS = 32
"""The most values of a series."""

_PARTS, _PART_BYTES, _NAMES_BYTES = 64, 4000, 1 << 18
_SAMPLE_PARTS, _SAMPLE_BYTES = 24, 8 << 10
_KEPT, _AT_ONCE = 4096, 8
_REPORT = ev.RankReported.tag.encode()


def read_series(run: Path) -> Series:
    """The values of the leading metric over the steps, at most `POINTS`; none if the run has reported none.

    A value that is not finite stays in it as NaN.
    """
    for source in (_curve, _sampled):
        try:
            if points := source(run):
                return _thinned(points)
        except (OSError, ValueError):  # that part of the folder cannot be read: there is no curve of it
            continue
    return ()


def _curve(run: Path) -> dict[int, float]:
    """Points of the leading metric by step, from the curves."""
    folder = run / paths.CURVES
    names = curves.names_in(files.read_whole(run, folder / paths.CURVE_NAMES, _NAMES_BYTES))
    metric = leading(filter(None, names))
    if metric is None:
        return {}
    points: dict[int, float] = {}
    with files.open_file(run, folder / paths.CURVE_POINTS, buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if file.read(len(curves.MAGIC)) != curves.MAGIC:
            return {}
        for start, length in _parts(
            len(curves.MAGIC), size, _PARTS, _PART_BYTES // curves.SIZE * curves.SIZE
        ):
            aligned = start - (start - len(curves.MAGIC)) % curves.SIZE
            data = os.pread(file.fileno(), length, aligned)
            for point in curves.unpack_points(data, names):
                if point.metric == metric and not point.stepless:
                    points[point.step] = point.mid
    return points


def _parts(begin: int, end: int, count: int, length: int) -> Iterator[tuple[int, int]]:
    """Evenly spaced parts of a file, the first and the last one included: start and length."""
    if end - begin <= count * length:
        yield begin, max(end - begin, 0)
        return
    for number in range(count):
        yield begin + (end - begin - length) * number // (count - 1), length


def _sampled(run: Path) -> dict[int, float]:
    """Points of the leading metric by step, from the samples of the least rank."""
    reports = sorted(_reports(run), key=lambda report: report.rank)
    own = [report for report in reports if report.rank == reports[0].rank]
    metric = leading(name for report in own for name in report.metrics)
    return {
        int(report.time) if report.step is None else report.step: report.metrics[metric]
        for report in sorted(own, key=lambda report: report.time)
        if metric is not None and metric in report.metrics
    }


def _reports(run: Path) -> Iterator[ev.RankReported]:
    found = samples.sample_files(run)
    sizes = [(path, files.stat_file(run, path).st_size) for path in found]
    total = sum(size for _, size in sizes)
    for start, length in _parts(0, total, _SAMPLE_PARTS, _SAMPLE_BYTES):
        for path, size in sizes:
            if start < size:
                with files.open_file(run, path) as file:
                    yield from _reports_at(file, start, length)
                break
            start -= size


def _reports_at(file: BinaryIO, start: int, length: int) -> Iterator[ev.RankReported]:
    file.seek(start)
    lines = file.read(min(length, _SAMPLE_PARTS * _SAMPLE_BYTES)).split(b"\n")
    for text in lines[bool(start) : -1]:  # the first and the last one may be parts
        if _REPORT in text:
            try:
                fact = ev.decode(text)
            except ValueError:
                continue
            if isinstance(fact, ev.RankReported):
                yield fact


def _thinned(points: Mapping[int, float]) -> Series:
    """The values in the order of their steps, those of a stretch of steps as their mean."""
    low, high = min(points), max(points)
    stretches: dict[int, list[float]] = {}
    for step in sorted(points):
        stretches.setdefault((step - low) * POINTS // (high - low + 1), []).append(points[step])
    return tuple(_mean(values) for values in stretches.values())


def _mean(values: Sequence[float]) -> float:
    known = [value for value in values if math.isfinite(value)]
    mean = sum(value / len(known) for value in known) if known else math.nan
    return mean if math.isfinite(mean) else math.nan


Wanted = tuple[str, bool]
"""A run's id, and whether it has ended."""


class SeriesPoller:
    """Publishes the series of the runs that are asked for, one after the other as they are read."""

    def __init__(self, root: Path, publish: Callable[[Mapping[str, Series]], None]) -> None:
        self._root = root
        self._wanted: Sequence[Wanted] = ()
        self._known: dict[str, Series] = {}
        self._ended: set[str] = set()
        self.poller = Poller(self.read, publish, LOOK_S, name="rankdeck-series")

    def ask(self, runs: Sequence[Wanted]) -> None:
        """Read these runs, which are on the screen."""
        if runs != self._wanted:
            self._wanted = runs
            self.poller.nudge()

    def read(self) -> Iterator[Mapping[str, Series]]:
        """All series so far, whenever several were read, and at the end."""
        wanted = self._wanted
        fresh = 0
        for run, ended in wanted:
            if run in self._ended:
                continue
            if wanted is not self._wanted:
                break
            series = read_series(self._root / run)
            fresh += series != self._known.get(run)
            self._known.pop(run, None)
            self._known[run] = series  # the newest last: the first are removed
            if ended:
                self._ended.add(run)
            if fresh >= _AT_ONCE:
                fresh = 0
                yield dict(self._known)
        self._forget()
        yield dict(self._known)

    def _forget(self) -> None:
        while len(self._known) > _KEPT:
            run = next(iter(self._known))
            del self._known[run]
            self._ended.discard(run)
