"""Past runs of the same target, to be seen behind the curves of one. Pure but for `behind`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from itertools import islice
from pathlib import Path

from launcher.errors import RecordError
from launcher.runs.status import Status

from ...formatting import is_finite
from ..curves.run_curves import leading
from .query import all_runs

_MOST_SEEN = 10_000
_MORE_IS_BETTER = re.compile(
    r"acc|auc|bleu|f1|iou|map|precision|recall|reward|rouge|score|throughput|per_s", re.IGNORECASE
)


class Behind(Enum):
    """Which past runs are shown, with the words for it."""

    NONE = "no other run"
    BEST = "the best of this target"
    BEFORE = "the run before"
    LAST = "the last 7 of this target"

    @property
    def next(self) -> Behind:
        """The one after it, in a circle."""
        every: list[Behind] = [*Behind]
        return every[(every.index(self) + 1) % len(every)]


def behind(root: Path, run: str, which: Behind) -> tuple[Status, ...]:
    """The past runs to show behind a run of `root`, the best or the newest first; none if there is none."""
    if which is Behind.NONE:
        return ()
    try:
        runs = [*islice(all_runs(root), _MOST_SEEN)]
    except RecordError:
        return ()
    return chosen(runs, run, which)


def chosen(runs: Iterable[Status], run: str, which: Behind) -> tuple[Status, ...]:
    """Those of `runs`, which are newest first, that are shown behind the run with an id."""
    runs = [*runs]
    own = next((each for each in runs if each.id == run), None)
    if own is None:
        return ()
    others = [each for each in runs if each.target == own.target and each.id != run and each.metrics]
    if which is Behind.BEST:
        return best_of([each for each in others if each.state.final], leading_metric(own, others))
    earlier = [each for each in others if each.id < run]
    return tuple(earlier[: 1 if which is Behind.BEFORE else 7])


def leading_metric(own: Status, others: Sequence[Status]) -> str:
    """The metric by which runs are judged: the loss, else one with ``loss`` in its name, else the first."""
    return leading(name for each in (own, *others) for name in each.metrics) or ""


def best_of(runs: Iterable[Status], metric: str) -> tuple[Status, ...]:
    """The run with the best last value of a metric: the greatest of an accuracy, the least of a loss."""
    known = [run for run in runs if is_finite(run.metrics.get(metric))]
    sign = -1.0 if _MORE_IS_BETTER.search(metric) else 1.0
    best = min(known, key=lambda run: sign * run.metrics[metric], default=None)
    return () if best is None else (best,)
