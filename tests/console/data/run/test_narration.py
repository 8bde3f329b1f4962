"""What a run says of itself while it goes on: each thing once, in words and numbers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from console.data.run.narration import narrate
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold
from launcher.state.run_state import RunState

SUBMITTED = ev.RunSubmitted(time=0.0, name="n", target="t", mode="cluster", num_processes=2)
PLACED = ev.GangPlaced(
    time=2.0, ranks=tuple(Assignment(r, 2, 0, 1, r, 2, agent=r, host="ab"[r]) for r in (0, 1))
)
READY = ev.SparkReady(
    time=0.5, application="app-1", master="spark://m:7077", version="4.0.1", ui="http://m:4040"
)
LOST = ev.ExecutorLost(
    time=5.0, executor="3", host="b", task=1, reason="Reason: Command exited with code 137"
)
STOP = ev.StopRequested(time=5.0, by="rank", reason="rank 1 failed", grace_s=10.0)


def told(turns: Sequence[Sequence[ev.Event]], *, marks: bool = True) -> list[list[str]]:
    """What is said after each turn, in which some facts came."""
    before = state = RunState()
    said = []
    for facts in turns:
        for fact in facts:
            state = fold(state, fact)
        said.append(list(narrate(before, state, marks=marks)))
        before = state
    return said


def waiting(have: int, time: float = 1.0, reason: str = "") -> ev.SlotsAwaited:
    return ev.SlotsAwaited(time=time, have=have, need=8, limit_s=600.0, reason=reason)


def test_the_spark_session_is_named_with_its_page() -> None:
    local = ev.SparkReady(time=0.5, application="app-2", master="sc://m:15002", version="4.0.1", remote=True)
    assert [["Spark 4.0.1 on spark://m:7077: application app-1, http://m:4040"], []] == told([[READY], []])
    assert [["Spark Connect 4.0.1 on sc://m:15002: application app-2"]] == told([[local]])


def test_waiting_is_said_once_for_each_change() -> None:
    turns: list[list[ev.Event]] = [
        [SUBMITTED, waiting(5)],
        [waiting(5, 2.0)],
        [waiting(6)],
        [waiting(6, reason="others run")],
        [PLACED],
    ]
    expected = [
        ["waiting for slots: 5 of 8, at most 600 s"],
        [],
        ["waiting for slots: 6 of 8, at most 600 s"],
        ["waiting for slots: 6 of 8, at most 600 s (others run)"],
        [],
    ]
    assert expected == told(turns)


@pytest.mark.parametrize(
    ("way", "said"),
    [
        ("live", []),
        ("spool", ["output is read from the spool folder: no way back"]),
        ("relay", ["output is carried through the Connect server: no way back"]),
        ("carried", ["output is carried by Spark, and arrives when the ranks have ended: no way back"]),
    ],
)
def test_how_output_comes_is_said_where_it_does_not_come_at_once(way: str, said: list[str]) -> None:
    assert [said, []] == told([[ev.DeliveryChosen(time=1.0, way=way, reason="no way back")], []])


def test_an_executor_that_was_lost_is_named_once() -> None:
    stop = ev.StopRequested(time=5.0, by="loss", reason="Spark task 1 on b ended under rank 1", grace_s=10.0)
    turns: list[list[ev.Event]] = [[SUBMITTED, PLACED], [stop], [LOST, LOST], [LOST]]
    expected = [
        [],
        ["stopping: Spark task 1 on b ended under rank 1 (SIGTERM, then SIGKILL after 10 s)"],
        ["executor 3 on b was lost: Command exited with code 137"],
    ]
    assert expected == told(turns)[:3]


def test_a_stop_for_a_lost_executor_names_it_once() -> None:
    line = "executor 3 on b was lost: Command exited with code 137"
    stop = ev.StopRequested(time=5.0, by="loss", reason=line, grace_s=10.0)
    assert [[f"stopping: {line} (SIGTERM, then SIGKILL after 10 s)"]] == told(
        [[SUBMITTED, PLACED, LOST, stop]]
    )


def test_every_attempt_has_its_own_stop() -> None:
    restart = ev.GangRestarted(time=6.0, attempt=1, reason="rank 1 failed", in_place=True)
    again = ev.StopRequested(time=8.0, attempt=1, by="rank", reason="rank 0 failed", grace_s=10.0)
    person = ev.StopRequested(time=9.0, by="person", reason="interrupted", grace_s=10.0)
    turns: list[list[ev.Event]] = [[SUBMITTED, PLACED, STOP], [restart], [again], [person], []]
    expected = [
        ["stopping: rank 1 failed (SIGTERM, then SIGKILL after 10 s)"],
        ["── attempt 1 (rank 1 failed) ──"],
        ["stopping: rank 0 failed (SIGTERM, then SIGKILL after 10 s)"],
        ["it will not be started again: interrupted"],
        [],
    ]
    assert expected == told(turns)
    assert [] == told(turns, marks=False)[1]


def test_what_happened_between_two_looks_is_said_in_one() -> None:
    restart = ev.GangRestarted(time=6.0, attempt=1, reason="rank 1 failed", in_place=False)
    once_more = ev.SlotsAwaited(time=7.0, attempt=1, have=5, need=8, limit_s=600.0)
    expected = [
        ["waiting for slots: 5 of 8, at most 600 s"],
        ["── attempt 1 (rank 1 failed) ──", "waiting for slots: 5 of 8, at most 600 s", "note: late"],
    ]
    note = ev.NoteMade(time=7.0, attempt=1, text="late")
    turns: list[list[ev.Event]] = [[SUBMITTED, waiting(5)], [PLACED, STOP, LOST, restart, once_more, note]]
    assert expected == told(turns)


def xid(number: int, *, attempt: int = 0, index: int | None = 0, uuid: str = "GPU-a") -> ev.XidLogged:
    return ev.XidLogged(time=4.0, attempt=attempt, agent=0, host="gpu-01", uuid=uuid, index=index, xid=number)


def with_gpus(attempt: int) -> ev.GangPlaced:
    """One rank with the three GPUs."""
    gpus = tuple(Device(index, f"GPU-{name}") for index, name in enumerate("abc"))
    place = Assignment(0, 1, 0, 1, 0, 1, agent=0, host="gpu-01", devices=gpus)
    return ev.GangPlaced(time=2.0, attempt=attempt, ranks=(place,))


def test_each_error_of_a_gpu_is_said_once_in_an_attempt() -> None:
    restart = ev.GangRestarted(time=6.0, attempt=1, reason="rank 1 failed", in_place=True)
    turns: list[list[ev.Event]] = [
        [SUBMITTED, with_gpus(0), xid(31), xid(31)],
        [xid(31), xid(31, uuid="GPU-b", index=1), xid(11, uuid="GPU-c", index=None)],
        [restart, with_gpus(1), xid(31, attempt=1), xid(31, attempt=1, uuid="GPU-of-another-job")],
    ]
    expected = [
        ["GPU 0 on gpu-01: Xid 31, MMU fault"],
        ["GPU 1 on gpu-01: Xid 31, MMU fault", "GPU GPU-c on gpu-01: Xid 11"],
        ["── attempt 1 (rank 1 failed) ──", "GPU 0 on gpu-01: Xid 31, MMU fault"],
    ]
    assert expected == told(turns)
