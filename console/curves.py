"""Reported figures as small drawings: inline SVG, one for each figure of the leading rank."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from console.sources.cleaning import plain
from launcher.events import Event, RankReported

MOST_POINTS = 400
MOST_CURVES = 12
_WIDTH, _HEIGHT, _EDGE = 340, 120, 6

Point = tuple[float, float]


def curves(facts: Iterable[Event]) -> Iterator[str]:
    """Each figure that the first reporting rank told at least twice, over its steps or over time."""
    told = [fact for fact in facts if isinstance(fact, RankReported)]
    leader = min((fact.rank for fact in told), default=0)
    series: dict[str, list[Point]] = {}
    for fact in told:
        if fact.rank == leader:
            at = fact.time if fact.step is None else float(fact.step)
            for name, value in fact.metrics.items():
                if math.isfinite(value):
                    series.setdefault(name, []).append((at, float(value)))
    drawable = [
        (name, points) for name, points in series.items() if len(points) > 1 and name != "total_steps"
    ]
    for name, points in drawable[:MOST_CURVES]:
        yield _figure(name, thinned(points, MOST_POINTS))


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` points, evenly chosen, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def _figure(name: str, points: Sequence[Point]) -> str:
    label = escape(plain(name.encode(errors="replace")))
    drawn = " ".join(f"{x:.1f},{y:.1f}" for x, y in _scaled(points))
    first, last = points[0][1], points[-1][1]
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f'<title>{label}</title><polyline points="{drawn}"/></svg>'
        f"<figcaption>{label}: {first:.6g} → {last:.6g}</figcaption></figure>"
    )


def _scaled(points: Sequence[Point]) -> Iterator[Point]:
    (left, right), (low, high) = (
        (min(axis), max(axis)) for axis in ([x for x, _ in points], [y for _, y in points])
    )
    for x, y in points:
        across = (x - left) / (right - left) if right > left else 0.5
        up = _share(y, low, high)
        yield _EDGE + across * (_WIDTH - 2 * _EDGE), _HEIGHT - _EDGE - up * (_HEIGHT - 2 * _EDGE)


def _share(value: float, low: float, high: float) -> float:
    """Where a value lies between two others; halved first, for the difference of two floats may be none."""
    span = high / 2 - low / 2
    return (value / 2 - low / 2) / span if span > 0 else 0.5
