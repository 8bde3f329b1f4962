"""Makes the curves of a run: from its folder, with what happened, and the seconds a step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from launcher.state.run_state import RunState

from .run_curves import CHECKPOINT, NO_CURVES, STEP_TIME, Happened, RunCurves, What
from .store import CurvePoints, CurveStore

if TYPE_CHECKING:
    from ..run.health import Alert

MOST_MARKS = 256
_WHOLE, _FLOATS = np.empty(0, np.int64), np.empty(0, np.float64)
_NO_POINTS = CurvePoints(_WHOLE, _WHOLE, _WHOLE, _FLOATS, _FLOATS, _FLOATS, _FLOATS, np.empty(0, bool))


class CurveSource:
    """Keeps the curves of a run up to date. Used by one thread; what it returns is never changed."""

    def __init__(self, run: Path) -> None:
        self._store = CurveStore(run)
        self._shown: object = None
        self._curves = NO_CURVES

    def read(self, state: RunState, alerts: Sequence[Alert] = (), *, poll: bool = True) -> RunCurves:
        """The curves; the same object while nothing that they show has changed. With `poll`, read on."""
        if poll:
            self._store.poll()
        shown = self._store.curves, state.restarts, tuple(alerts)
        if shown != self._shown and self._store.curves:
            self._shown = shown
            self._curves = run_curves(self._store.curves, state, alerts)
        return self._curves


def run_curves(points: Mapping[str, CurvePoints], state: RunState, alerts: Iterable[Alert]) -> RunCurves:
    """The curves of a run at one moment, with that of its seconds a step."""
    pace = step_times(points)
    every = {**points, STEP_TIME: pace} if len(pace) and STEP_TIME not in points else points
    return RunCurves(every, begin_of(points), what_happened(points, state, alerts))


def curves_of(run: Path) -> RunCurves:
    """The curves of a recorded run, without what happened; empty if it has none."""
    return CurveSource(run).read(RunState())


def step_times(points: Mapping[str, CurvePoints]) -> CurvePoints:
    """The seconds a step between the points of the metric that has most of them."""
    longest = max((p for name, p in points.items() if name != CHECKPOINT), key=len, default=None)
    if longest is None or len(longest) < 2:
        return _NO_POINTS
    # of the points of a step the first one: others are of late ranks
    first = np.append(True, (np.diff(longest.step) != 0) | (np.diff(longest.attempt) != 0))
    columns = longest.attempt, longest.step, longest.width, longest.time
    attempt, step, width, time = (each[first] for each in columns)
    steps, seconds = np.diff(step), np.round(np.diff(time), 4)  # a clock has no more
    forward = (np.diff(attempt) == 0) & (steps > 0) & (seconds >= 0)
    pace = seconds[forward] / steps[forward]
    attempt, step, width, time = (each[1:][forward] for each in (attempt, step, width, time))
    return CurvePoints(attempt, step, width, time, pace, pace, pace, np.zeros(len(pace), bool))


def begin_of(points: Mapping[str, CurvePoints]) -> float:
    """The time of the first report; 0 if there is none."""
    return min((float(each.time.min()) for each in points.values() if len(each)), default=0.0)


def what_happened(
    points: Mapping[str, CurvePoints], state: RunState, alerts: Iterable[Alert]
) -> tuple[Happened, ...]:
    """The last `MOST_MARKS` of each kind of event that a curve is read with, in order of time."""
    every = [*_checkpoints(points), *_restarts(points, state), *_alerts(points, alerts), *_not_finite(points)]
    kept = (group[-MOST_MARKS:] for group in ([e for e in every if e.what is what] for what in What))
    return tuple(sorted((each for group in kept for each in group), key=lambda each: each.time))


def _checkpoints(points: Mapping[str, CurvePoints]) -> Iterator[Happened]:
    saved = points.get(CHECKPOINT)
    if saved is None:
        return
    changes = np.flatnonzero(np.diff(saved.high, prepend=np.nan) != 0)
    for at in changes[-MOST_MARKS:].tolist():
        if np.isfinite(saved.high[at]):
            step = float(saved.high[at])
            yield Happened(What.CHECKPOINT, step, float(saved.time[at]), f"checkpoint of step {step:,.0f}")


def _restarts(points: Mapping[str, CurvePoints], state: RunState) -> Iterator[Happened]:
    for number, restart in enumerate(state.restarts, 1):
        text = f"attempt {number} began"
        yield Happened(What.RESTART, step_at(points, restart.time), restart.time, text)


def _alerts(points: Mapping[str, CurvePoints], alerts: Iterable[Alert]) -> Iterator[Happened]:
    for alert in alerts:
        step = alert.step if alert.step is not None else step_at(points, alert.since)
        yield Happened(What.ALERT, step, alert.since, alert.what)


def _not_finite(points: Mapping[str, CurvePoints]) -> Iterator[Happened]:
    """Where each metric's first value of a stretch was not finite."""
    for name, each in points.items():
        starts = np.flatnonzero(each.broken & ~np.append(False, each.broken[:-1]))
        for at in starts[:MOST_MARKS].tolist():
            step = int(each.step[at])
            yield Happened(What.NOT_FINITE, step, float(each.time[at]), f"{name} was not finite", name)


def step_at(points: Mapping[str, CurvePoints], time: float) -> float | None:
    """The last step that was reported before a time; None if there was none."""
    longest = max(points.values(), key=len, default=None)
    if longest is None or not len(longest):
        return None
    before = longest.step[longest.time <= time]
    return float(before[-1]) if len(before) else None
