"""Reported figures as small drawings: inline SVG, one for each figure of the leading rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import groupby

from console.formatting import is_finite, metric, share
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
        at = fact.time if fact.step is None else fact.step
        if fact.rank == leader and is_finite(at):
            for name, value in fact.metrics.items():
                series.setdefault(name, []).append((at, value))
    drawable = [
        (name, points)
        for name, points in series.items()
        if sum(is_finite(value) for _, value in points) > 1 and name != "total_steps"
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
    drawn = "".join(f'<polyline points="{line}"/>' for line in _lines(points))
    first, last = points[0][1], points[-1][1]
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{label}</title>{drawn}</svg>"
        f"<figcaption>{label}: {metric(first, 6)} → {metric(last, 6)}</figcaption></figure>"
    )


def _lines(points: Sequence[Point]) -> Iterator[str]:
    """The course as lines, one after each gap: what is not finite is none."""
    known = [point for point in points if is_finite(point[1])]
    for finite, line in groupby(points, key=lambda point: is_finite(point[1])):
        if finite:
            yield " ".join(f"{x:.1f},{y:.1f}" for x, y in _scaled([*line], known))


def _scaled(points: Sequence[Point], known: Sequence[Point]) -> Iterator[Point]:
    (left, right), (low, high) = (
        (min(axis), max(axis)) for axis in ([x for x, _ in known], [y for _, y in known])
    )
    for x, y in points:
        across, up = (0.5 if part is None else part for part in (share(x, left, right), share(y, low, high)))
        yield _EDGE + across * (_WIDTH - 2 * _EDGE), _HEIGHT - _EDGE - up * (_HEIGHT - 2 * _EDGE)
