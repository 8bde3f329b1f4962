"""What a folder has not taken is said where people look: in the narration, and above the ranks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.data.logs.book import LogState
from console.data.run.model import RunView
from console.data.run.narration import narrate, record_line
from console.ui.run.header import RunHeader
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState

STOPPED = ev.RecordingStopped(time=1.0, reason="No space left on device")
AGAIN = ev.RecordsLost(time=2.0, output_bytes=1_234_567, resumed=True)
LOST = ev.RecordsLost(time=3.0, output_bytes=1, result_bytes=2, facts=3)
ENDED = ev.RunEnded(time=4.0, state="succeeded", exit_code=0, why="")


@pytest.mark.parametrize(
    ("facts", "line"),
    [
        ([], ""),
        ([STOPPED], "recording stopped: No space left on device; the training goes on"),
        ([STOPPED, AGAIN], "not recorded: 1,234,567 bytes of output"),
        (
            [STOPPED, LOST, ENDED],
            "not recorded: 1 byte of output, 2 bytes of return values, 3 facts (No space left on device)",
        ),
        ([STOPPED, ENDED], "recording stopped (No space left on device)"),
        ([STOPPED, replace(AGAIN, output_bytes=0), ENDED], ""),
    ],
)
def test_the_one_thing_to_know_of_a_record(facts: list[ev.Event], line: str) -> None:
    assert line == record_line(fold_all(facts))
    header = RunHeader()
    header.view = RunView(fold_all(facts), 5.0, logs=LogState())
    rows = ["".join(text for text, _ in row) for row in header.rows(200)]
    assert [f" {line}"] * bool(line) == rows[1:]


def test_each_is_narrated_once() -> None:
    told, said = RunState(), list[str]()
    for count in range(5):
        state = fold_all([STOPPED, AGAIN, replace(STOPPED, time=2.5), LOST, ENDED][: count + 1])
        said += narrate(told, state)
        told = state
    assert [
        "recording stopped: No space left on device; the training goes on",
        "recording again; not recorded: 1,234,567 bytes of output",
        "recording stopped: No space left on device; the training goes on",
        "not recorded: 1 byte of output, 2 bytes of return values, 3 facts",
    ] == said


def test_a_fact_of_an_old_attempt_still_tells_of_the_folder() -> None:
    restarted = ev.GangRestarted(time=1.0, attempt=2, reason="r", in_place=True)
    state = fold_all([restarted, STOPPED, AGAIN])
    assert (None, AGAIN) == (state.recording, state.lost)
