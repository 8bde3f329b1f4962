"""Which past runs are shown behind the curves of one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from console.data.history.behind import Behind, behind, best_of, chosen, leading_metric
from launcher.runs.catalog import new_id
from launcher.runs.status import Status
from launcher.state.run_state import Phase


def run(number: int, *, target: str = "train.py", state: Phase = Phase.SUCCEEDED, **metrics: float) -> Status:
    return Status(new_id(1_767_261_600.0 + number, f"{number:03x}"), "t", target, state, 0, metrics=metrics)


def newest_first(*runs: Status) -> list[Status]:
    return sorted(runs, key=lambda each: each.id, reverse=True)


OWN = run(50, loss=1.0)


def test_the_best_is_that_with_the_least_loss_or_the_greatest_accuracy() -> None:
    low, high = run(1, loss=0.1, acc=0.2), run(2, loss=0.9, acc=0.8)

    assert (low,) == best_of([high, low], "loss")
    assert (high,) == best_of([low, high], "acc")
    assert (low,) == chosen(newest_first(OWN, low, high), OWN.id, Behind.BEST)
    own = run(50, acc=0.5)
    assert (high,) == chosen(newest_first(own, run(1, acc=0.2), high), own.id, Behind.BEST)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_never_the_best(value: float) -> None:
    assert () == best_of([run(1, loss=value)], "loss")
    assert (kept := run(2, loss=9.0),) == best_of([run(1, loss=value), kept], "loss")
    assert () == best_of([], "loss") == best_of([run(1)], "loss") == best_of([run(1, loss=1.0)], "")


def test_a_run_that_goes_on_is_not_the_best_but_may_be_the_one_before() -> None:
    live = run(1, state=Phase.RUNNING, loss=0.1)

    assert () == chosen(newest_first(OWN, live), OWN.id, Behind.BEST)
    assert (live,) == chosen(newest_first(OWN, live), OWN.id, Behind.BEFORE)


def test_others_are_earlier_runs_of_the_same_target_with_metrics_the_newest_first() -> None:
    others = [run(n, loss=1.0) for n in range(10)]
    runs = newest_first(OWN, *others, run(20, target="other.py", loss=0.0), run(21), run(60, loss=0.0))

    assert (others[9],) == chosen(runs, OWN.id, Behind.BEFORE)
    assert tuple(others[:2:-1]) == chosen(runs, OWN.id, Behind.LAST)
    assert () == chosen(runs, "20200101-000000-000abc", Behind.LAST)


def test_the_leading_metric_is_the_loss_then_a_loss_then_the_first() -> None:
    assert "loss" == leading_metric(run(1, acc=1.0, loss=1.0), [])
    assert "val_loss" == leading_metric(run(1, acc=1.0), [run(2, val_loss=1.0)])
    assert "acc" == leading_metric(run(1, checkpoint=3.0, total_steps=9.0, acc=1.0), [])
    assert "" == leading_metric(run(1, checkpoint=3.0), [])


def test_the_ways_are_a_circle() -> None:
    seen, which = [], Behind.NONE
    for _ in Behind:
        seen.append(which)
        which = which.next
    assert (list(Behind), Behind.NONE) == (seen, which)


def test_a_folder_that_is_not_there_has_none(tmp_path: Path) -> None:
    for which in Behind:
        assert () == behind(tmp_path / "none", OWN.id, which)
