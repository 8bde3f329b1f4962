"""How far a prediction is, from its facts."""

from __future__ import annotations

import pytest

from launcher.display.rows import new_rows, row_progress, rows_line
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.outcome_rules import verdict
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase, RunState


def run(*facts: ev.Event) -> RunState:
    """A prediction whose first worker came at 10 s and its second at 12 s."""
    began = (
        ev.RunSubmitted(time=0.0, name="load", target="score.py:load", mode="cluster", num_processes=1),
        ev.StageSubmitted(time=1.0, tasks=1),
        ev.PredictionAdvanced(time=2.0, done=0.2, skipped=0.2, units=4),
        ev.WorkerFound(time=10.0, rank=0, agent=7, host="a", pid=70),
        ev.WorkerFound(time=12.0, rank=1, agent=9, host="b", pid=90),
    )
    return fold_all([*began, *facts])


def told(rank: int, rows: int, rate: float, time: float = 20.0) -> ev.RankReported:
    return ev.RankReported(time=time, rank=rank, metrics={"rows": rows, "rows_per_s": rate})


def test_a_training_has_no_rows() -> None:
    assert row_progress(RunState(), 1.0) is None


def test_rows_and_rates_are_those_of_all_workers_and_the_time_left_that_of_this_run() -> None:
    state = run(
        told(0, 600, 50.0), told(1, 400, 30.0), ev.PredictionAdvanced(time=20.0, done=0.4, skipped=0.2)
    )

    progress = row_progress(state, 20.0)

    assert progress is not None
    assert (1000, 80.0, 0.4, 0.2) == (progress.rows, progress.rate, progress.done, progress.skipped)
    assert 30.0 == pytest.approx(progress.left_s)
    assert "1,000 rows, 40%, 80 rows/s, 30 s left" == rows_line(progress)


def test_each_tenth_is_told_once() -> None:
    state = run()
    lines = list(new_rows(RunState(), state))
    for done in (0.21, 0.29, 0.3, 0.31, 0.55):
        before, state = state, fold(state, ev.PredictionAdvanced(time=20.0, done=done, skipped=0.2))
        lines += new_rows(before, state)

    assert "20% of the input was predicted before" == lines[0]
    assert ["30%", "55%"] == [line.split(", ")[1] for line in lines[1:]]


@pytest.mark.parametrize(("expected", "phase"), [(True, RankPhase.SUCCEEDED), (False, RankPhase.LOST)])
def test_a_worker_that_leaves_ends_nothing(expected: bool, phase: RankPhase) -> None:
    gone = ev.AgentDeparted(
        time=30.0, agent=7, host="a", expected=expected, reason="" if expected else "gone"
    )
    done = ev.PredictionAdvanced(time=40.0, done=1.0, skipped=0.2, unit=4, units=4, rows=1234, output="/out")
    state = run(gone, done)

    assert [phase, RankPhase.RUNNING] == [rank.phase for rank in state.ranks]
    assert state.disrupted_at is None
    end = verdict(state, now=41.0)
    assert (Phase.SUCCEEDED, 0) == (end.state, end.exit_code)
    assert "1,234 rows predicted into /out, after 20% of the input before" == end.why


def test_a_worker_that_fails_is_to_blame_and_a_stop_is_a_stop() -> None:
    raised = ev.RankRaised(time=20.0, rank=1, kind="ValueError", message="rows 0 to 9: bad", traceback="")
    failed = run(raised, ev.RankExited(time=20.0, rank=1, exit_code=1))
    stopped = run(ev.StopRequested(time=20.0, by="person", reason="on request", exit_code=143, grace_s=0.0))

    end = verdict(failed, now=21.0)
    assert (Phase.FAILED, 1, 1) == (end.state, end.exit_code, end.rank)
    assert "rank 1 on b raised ValueError: rows 0 to 9: bad" == end.why
    assert (Phase.STOPPED, 143) == (verdict(stopped, now=21.0).state, verdict(stopped, now=21.0).exit_code)
