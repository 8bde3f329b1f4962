"""What the run screen and the history show of a failure's cause and of errors of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.data.replay import Script
from console.data.run.model import RunView
from console.ui.run.charts import alarm_count, alarm_line, alert_rows
from console.ui.run.failure import failure_rows, failure_text
from console.ui.run.result import result_rows
from console.ui.widgets.rows import Row, width_of
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.run_state import RunState


def failed() -> RunState:
    return fold_all([each for each in Script(1000.0, fail=True).items() if isinstance(each, ev.Event)])


def xid(number: int, host: str = "gpu-02") -> ev.XidLogged:
    return ev.XidLogged(
        time=1030.0, agent=1, host=host, uuid="GPU-00000005-0000-4000-8000-000000000000", index=1, xid=number
    )


def written(rows: list[Row]) -> str:
    return "\n".join("".join(text for text, _ in row) for row in rows)


def test_the_block_has_the_cause_and_the_best_remedy() -> None:
    view = RunView(failed(), 1100.0)
    text = written(failure_rows(view, 120, tall=True))

    assert view.state.found is not None
    assert f"cause: {view.state.found.text}" in text
    assert f"remedy: {view.state.found.remedy[0]}" in text
    assert view.state.found.remedy[1] not in text


@pytest.mark.parametrize("tall", [False, True])
@pytest.mark.parametrize("width", [20, 50, 80, 200])
def test_the_block_keeps_to_its_room(width: int, *, tall: bool) -> None:
    rows = failure_rows(RunView(failed(), 1100.0), width, tall=tall)

    assert len(rows) <= (8 if tall else 5)
    assert all(width_of(row) <= width for row in rows)


def test_the_result_and_the_clipboard_have_all_of_it() -> None:
    view = RunView(failed(), 1100.0)
    found = view.state.found
    assert found is not None

    for text in (written(result_rows(view, 200)), failure_text(view)):
        for sentence in (found.text, *found.evidence, *found.remedy):
            assert sentence in text


def test_a_likely_cause_says_that_it_is_one() -> None:
    state = failed()
    assert state.found is not None
    view = RunView(fold(state, replace(state.found, certainty="likely")), 1100.0)

    text = written(failure_rows(view, 120))
    assert "cause: likely: rank 5 ran out" in text
    assert "CUDA out of memory." in text
    assert "remedy" not in text
    assert "remedy" in written(failure_rows(view, 120, tall=True))


def test_a_certainty_of_a_newer_version_is_not_taken_for_certain() -> None:
    state = failed()
    assert state.found is not None
    view = RunView(fold(state, replace(state.found, certainty="proven")), 1100.0)

    assert "cause: likely: " in written(failure_rows(view, 120))


def test_errors_of_gpus_are_alerts_while_it_runs_and_warnings_after() -> None:
    state = failed()
    for number in (31, 31, 79):
        state = fold(state, xid(number))
    view = RunView(state, 1100.0)

    assert written([alarm_line(view)]) == (
        " ! 2 alerts: GPU 1 on gpu-02: Xid 31, MMU fault · GPU 1 on gpu-02: Xid 79, fallen off the bus"
    )
    assert "! GPU 1 on gpu-02: Xid 79, fallen off the bus" in written(result_rows(view, 100))
    assert "! 2 alerts" == alarm_count(view)
    assert 2 == written(alert_rows(view)).count("Xid")
    assert () == alarm_line(RunView(RunState(), 1100.0))


@pytest.mark.parametrize("tall", [False, True])
def test_a_standstill_shows_its_cause_in_place_of_the_ranks_places(*, tall: bool) -> None:
    found = ev.CauseFound(
        time=1030.0,
        id="rank-stuck",
        certainty="likely",
        text="rank 3 is in next_batch (data.py:88); ranks 0-2 wait in all_reduce (train.py:41)",
        evidence=("rank 3 had not joined the others when the stacks were taken",),
        remedy=("see what next_batch at data.py:88 waits for",),
    )
    running = [each for each in Script(1000.0).items(9.0) if isinstance(each, ev.Event)]
    ended = ev.RunEnded(time=1031.0, state="failed", exit_code=125, why="stopped: no progress for 5 s")
    view = RunView(fold_all([*running, found, ended]), 1100.0)

    assert f"cause: likely: {found.text}" in written(failure_rows(view, 160, tall=tall))
    for text in (written(result_rows(view, 200)), failure_text(view)):
        for sentence in (found.text, *found.evidence, *found.remedy):
            assert sentence in text
