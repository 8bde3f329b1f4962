"""Curves as files: their points as CSV, and plots as SVG for slides and papers."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.errors import RecordError, SpecError
from launcher.runs import paths

from .. import formatting as fig
from ..sanitize import printable
from .runs_csv import csv_cell

if TYPE_CHECKING:
    from ..data.curves.axes import Scale
    from ..data.curves.look import Look
    from ..data.curves.run_curves import RunCurves
    from ..data.curves.window import Columns, Series

NamedCurves = tuple[str, "RunCurves"]

_HEAD = ("run", "metric", "attempt", "step", "steps", "time", "low", "median", "high", "not_finite")
_WIDTH, _HEIGHT, _LEFT, _BELOW, _ABOVE, _RIGHT = 880, 320, 70, 40, 44, 16
_COLOURS = ("#1f6fb4", "#8a8f98", "#d9822b", "#3a9a5c", "#b0478f", "#7a5cc0", "#2a9d9d", "#c0504d")


def write_curves(
    folder: Path, stem: str, runs: Sequence[NamedCurves], metric: str | None, look: Look
) -> tuple[Path, Path]:
    """Write `curves-STEM.csv` and `.svg` into a folder, and return their paths.

    The CSV has every point of every metric; the SVG has the plot of `metric`, or of all metrics, as it is
    looked at. Files of an earlier export are not overwritten: a number is added to the name.

    Raises:
        RecordError: the files cannot be written.
        SpecError: there are too many files of that name.
    """
    table = io.StringIO(newline="")
    csv.writer(table).writerows([_HEAD, *rows_of(runs)])
    metrics = [metric] if metric is not None else [*dict.fromkeys(n for _, c in runs for n in c.names)]
    drawing = svg_of(runs, metrics, look)
    return (
        _write(folder, f"curves-{stem}", ".csv", table.getvalue()),
        _write(folder, f"curves-{stem}", ".svg", drawing),
    )


def rows_of(runs: Sequence[NamedCurves]) -> Iterator[tuple[object, ...]]:
    """A row for each point; times are seconds since the epoch, and values that are not known are empty."""
    for name, curves in runs:
        for metric in curves.names:
            points = curves.points[metric]
            for at in range(len(points)):
                figures = (float(points.low[at]), float(points.mid[at]), float(points.high[at]))
                yield (
                    csv_cell(name),
                    csv_cell(metric),
                    int(points.attempt[at]),
                    int(points.step[at]),
                    int(points.width[at]),
                    float(points.time[at]),
                    *("" if value != value else value for value in figures),
                    int(points.broken[at]),
                )


def _write(folder: Path, stem: str, suffix: str, text: str) -> Path:
    for number in range(1, 1000):
        out = folder / f"{stem}{f'-{number}' if number > 1 else ''}{suffix}"
        try:
            descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, paths.FILE_MODE)
            with open(descriptor, "w", encoding="utf-8", errors="replace", newline="") as file:
                file.write(text)
        except FileExistsError:
            continue
        except OSError as error:
            raise RecordError(f"cannot write {out}: {error.strerror or error}") from error
        return out
    raise SpecError(f"there are too many files {stem}*{suffix} in {folder}")


def svg_of(runs: Sequence[NamedCurves], metrics: Sequence[str], look: Look) -> str:
    """The plots of some metrics below each other, as one SVG."""
    height = _HEIGHT * max(len(metrics), 1)
    box = f'width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {box} font-family="system-ui, sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for number, metric in enumerate(metrics):
        parts += [f'<g transform="translate(0 {number * _HEIGHT})">', *_plot(runs, metric, look), "</g>"]
    return "\n".join([*parts, "</svg>", ""])


def _plot(runs: Sequence[NamedCurves], metric: str, look: Look) -> Iterator[str]:
    from ..data.curves.axes import fitting_scale
    from ..data.curves.look import SMOOTHINGS, Interval
    from ..data.curves.window import columns_of, series_of, smoothed

    yield f'<text x="{_LEFT}" y="16" font-size="14" font-weight="600">{_xml(metric)}</text>'
    drawn: list[tuple[int, str, Series]] = [
        (number, name, series)
        for number, (name, curves) in enumerate(runs)
        if metric in curves.points
        and len(series := series_of(curves.points[metric], look.axis, curves.begin))
    ]
    if not drawn:
        return
    ends = [(float(s.x[0]), float(s.x[-1])) for _, _, s in drawn]
    part = look.visible(Interval(min(a for a, _ in ends), max(b for _, b in ends)))
    start, end = part.start, part.end if part.end > part.start else part.start + 1
    columns = [
        smoothed(columns_of(s, start, end, _WIDTH - _LEFT - _RIGHT), SMOOTHINGS[look.smoothing] / 100)
        for _, _, s in drawn
    ]
    banded = [c for c, (number, _, _) in zip(columns, drawn, strict=True) if number == 0]
    scale = fitting_scale(
        [*(c.mid for c in columns), *(v for c in banded for v in (c.low, c.high))], log=look.log
    )
    yield from _axes(scale, look, start, end)
    for (number, _, _), each in reversed([*zip(drawn, columns, strict=True)]):
        yield from _curve(each, scale, _COLOURS[number % len(_COLOURS)], band=number == 0)
    if len(runs) > 1:
        yield from _legend([(number, name) for number, name, _ in drawn])


def _curve(columns: Columns, scale: Scale, colour: str, *, band: bool) -> Iterator[str]:
    if band:
        low, high = ([*_points(scale.part(v))] for v in (columns.low, columns.high))
        if low and high:
            outline = " ".join(f"{x:.1f},{y:.1f}" for x, y in [*high, *reversed(low)])
            yield f'<polygon points="{outline}" fill="{colour}" fill-opacity="0.18"/>'
    for piece in _pieces(columns, scale):
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in piece)
        yield f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="1.6"/>'


def _points(parts: Iterable[float]) -> Iterator[tuple[float, float]]:
    for at, part in enumerate(parts):
        if part == part:
            yield _LEFT + at + 0.5, _y(float(part))


def _pieces(columns: Columns, scale: Scale) -> Iterator[list[tuple[float, float]]]:
    """The line's pieces: it is torn where a value is not finite."""
    piece: list[tuple[float, float]] = []
    for at, (part, torn) in enumerate(zip(scale.part(columns.mid), columns.torn, strict=True)):
        if part == part:
            piece.append((_LEFT + at + 0.5, _y(float(part))))
        elif torn and piece:
            yield piece
            piece = []
    if piece:
        yield piece


def _y(part: float) -> float:
    return _ABOVE + (1 - min(max(part, 0.0), 1.0)) * (_HEIGHT - _ABOVE - _BELOW)


def _axes(scale: Scale, look: Look, start: float, end: float) -> Iterator[str]:
    from ..data.curves.axes import position_text, position_ticks

    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BELOW
    values = scale.ticks(6)
    for value, part in zip(values, scale.part(values), strict=True):
        if 0 <= part <= 1:
            y = _y(float(part))
            yield f'<line x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e4e6ea"/>'
            yield _text(_LEFT - 6, y + 4, fig.compact(value), "end")
    for tick in position_ticks(look.axis, start, end, 8):
        x = _LEFT + (tick - start) / (end - start) * (right - _LEFT)
        yield _text(x, bottom + 16, position_text(look.axis, tick), "middle")
    yield _text(right, bottom + 32, look.axis.value, "end")
    yield f'<path d="M{_LEFT} {_ABOVE}V{bottom}H{right}" fill="none" stroke="#5c6370"/>'


def _legend(names: Sequence[tuple[int, str]]) -> Iterator[str]:
    x = _LEFT
    for number, name in names:
        colour = _COLOURS[number % len(_COLOURS)]
        yield f'<rect x="{x}" y="28" width="12" height="3" fill="{colour}"/>'
        yield _text(x + 16, 34, name, "start")
        x += 24 + 7 * len(name)


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="#5c6370">{_xml(text)}</text>'


def _xml(text: str) -> str:
    return escape(printable(text))
