"""Stacks for people: ranks that did the same are told once, the odd ones out by themselves."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from console.cli.manage import stacks, taken_now
from console.data.run.narration import narrate
from launcher.diagnosis.stacks import MOST, grouped, spans, stacks_block
from launcher.distributor import Distributor
from launcher.errors import LauncherError
from launcher.job import Job
from launcher.runs import paths
from launcher.runs.reader import read_state
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.run_state import RunState
from launcher.supervisor.control import send_command
from tests.commands import Gate, until

pytestmark = pytest.mark.process

CURRENT = "Current thread 0x00007f{rank:02}aa (most recent call first):\n"
HERE = CURRENT + '  File "/w/train.py", line 5 in all_reduce\n'
THERE = CURRENT + '  File "/w/train.py", line 9 in load\n'


def taken(rank: int, text: str = "", reason: str = "") -> ev.StacksTaken:
    return ev.StacksTaken(time=9.0, rank=rank, text=text.format(rank=rank), reason=reason)


def state(*facts: ev.Event, n: int = 8) -> RunState:
    ranks = tuple(Assignment(r, n, r, n, 0, 1, 0, f"host{r}") for r in range(n))
    submitted = ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=n)
    return fold_all([submitted, ev.GangPlaced(time=1.0, ranks=ranks), *facts], run="r1")


@pytest.mark.parametrize(
    ("ranks", "text"),
    [((), ""), ((3,), "3"), ((0, 1), "0-1"), ((0, 1, 2, 5, 7, 8), "0-2, 5, 7-8"), ((1, 3, 5), "1, 3, 5")],
)
def test_ranks_in_a_row_are_named_by_their_ends(ranks: tuple[int, ...], text: str) -> None:
    assert text == spans(ranks)


def test_ranks_are_grouped_by_what_they_do_and_not_by_their_threads_names() -> None:
    found = grouped([taken(7, THERE), *(taken(r, HERE) for r in reversed(range(7)))])

    assert [(7,), (0, 1, 2, 3, 4, 5, 6)] == [group.ranks for group in found]
    assert "0x" not in found[0].text


def test_a_number_in_the_code_makes_a_difference() -> None:
    assert 2 == len(grouped([taken(0, HERE), taken(1, HERE.replace("line 5", "line 6"))]))


def test_the_reasons_of_ranks_without_stacks_are_grouped_too() -> None:
    said = "it printed none within 2 s\nthread {}: python, asleep, in futex_wait"
    found = grouped([taken(r, reason=said.format(1000 + r)) for r in range(3)])

    assert [(0, 1, 2)] == [group.ranks for group in found]


def test_the_block_names_the_many_and_the_odd_one_with_its_host() -> None:
    told = [*(taken(r, HERE) for r in range(6)), taken(6, reason="it ended"), taken(7, THERE)]
    block = stacks_block(state(*told))

    assert [
        "rank 6 on host6: no stacks: it ended",
        "",
        "rank 7 on host7:",
        "  Current thread (most recent call first):",
        '    File "/w/train.py", line 9 in load',
        "",
        "ranks 0-5:",
        "  Current thread (most recent call first):",
        '    File "/w/train.py", line 5 in all_reduce',
    ] == block.splitlines()


def test_a_block_of_a_thousand_places_is_cut_and_says_how_to_see_all() -> None:
    many = state(*(taken(r, HERE.replace("5", str(r))) for r in range(100)), n=100)

    assert 1 + MOST == len(stacks_block(many).split("\n\n"))
    assert stacks_block(many).endswith(f"and {100 - MOST} other places: rankdeck stacks r1")
    assert 100 == len(stacks_block(many, most=None).split("\n\n"))
    assert "" == stacks_block(state())


# --- what is said of limits


def test_limits_are_told_when_they_are_near_and_when_the_danger_has_passed() -> None:
    quiet = ev.LimitNear(time=50.0, limit="progress", limit_s=60.0, at=62.0)
    steps: list[ev.Event] = [
        quiet,
        ev.ProgressResumed(time=55.0),
        ev.LimitNear(time=90.0, limit="time", limit_s=100.0, at=100.0),
        ev.StopRequested(time=100.0, by="limit", reason="the time limit of 100 s", exit_code=124),
    ]
    now, said = state(), []
    for fact in steps:
        before, now = now, fold(now, fact)
        said.append(list(narrate(before, now)))

    assert [
        ["no progress for 48 s: ends in 12 s"],
        ["progress again"],
        ["the time limit of 100 s is near: ends in 10 s"],
        ["stopping: the time limit of 100 s (SIGTERM, then SIGKILL after 0 s)"],
    ] == said


def test_waiting_for_slots_is_told_before_it_ends() -> None:
    near = ev.LimitNear(time=541.0, limit="start", limit_s=600.0, at=601.0)
    assert ["no room for 540 s: ends in 60 s"] == list(narrate(RunState(), fold(RunState(), near)))


# --- the command


def invoke(*words: str) -> Result:
    return CliRunner().invoke(stacks, words, standalone_mode=False)


@pytest.fixture
def gated(targets: Path, tmp_path: Path, mark: str) -> tuple[Job, Callable[[], None]]:
    """A run of two ranks that wait until they are let go."""
    gate = Gate(tmp_path / "gate", 2)
    job = Distributor(2, gpu=False).start(str(targets / "waiting.py"), "gate", str(gate.path))
    logs = [paths.log_file(job.folder, 0, rank, paths.STDOUT) for rank in (0, 1)]
    until(lambda: all(log.exists() and log.read_bytes() for log in logs))
    return job, gate.open


def test_stacks_of_a_run_that_goes_on_are_those_of_now(gated: tuple[Job, Callable[[], None]]) -> None:
    job, let_go = gated
    said = invoke(job.id)
    listed = json.loads(invoke(job.id, "--json").stdout)
    let_go()

    assert "succeeded" == job.wait(30).phase
    assert said.stdout.startswith("ranks 0-1:\n  Current thread (most recent call first):\n")
    assert "waiting.py" in said.stdout
    assert [0, 1] == [entry["rank"] for entry in listed]
    assert all({"rank", "host", "time", "text", "reason", "native"} == entry.keys() for entry in listed)


def test_several_may_ask_at_once(gated: tuple[Job, Callable[[], None]]) -> None:
    job, let_go = gated
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(taken_now, [job.folder] * 4))
    let_go()

    assert "succeeded" == job.wait(30).phase
    assert [[]] * 4 == [missing for _, missing in answers]
    assert all(stacks_block(told).startswith("ranks 0-1:") for told, _ in answers)


def test_who_asks_while_others_are_answered_hears_of_every_rank(
    gated: tuple[Job, Callable[[], None]],
) -> None:
    job, let_go = gated
    slow = job.state.ranks[1].pid
    assert slow
    os.kill(slow, signal.SIGSTOP)
    send_command(job.folder, {"stacks": True})
    until(lambda: [0] == [taken.rank for taken in read_state(job.folder).stacks])
    told, missing = taken_now(job.folder)
    os.kill(slow, signal.SIGCONT)
    let_go()

    assert "succeeded" == job.wait(30).phase
    assert [] == missing
    assert [0, 1] == [taken.rank for taken in told.stacks]
    assert "waiting.py" in told.stacks[0].text


def test_stacks_of_a_run_that_has_ended_are_those_of_its_end(targets: Path, mark: str) -> None:
    distributor = Distributor(2, gpu=False, grace_s=0.5, timeout_s=3.0)
    job = distributor.start(str(targets / "hanging.py"), "collective")
    job.wait(30)
    said = invoke(job.id).stdout

    assert 124 == job.state.exit_code
    assert "rank 0 on" in said
    assert "forgets_the_collective" in said
    assert "wait_for_the_others" in said


def test_there_is_nothing_to_show_of_a_run_that_ended_by_itself(targets: Path, mark: str) -> None:
    job = Distributor(1, gpu=False).start(str(targets / "hello.py"))
    job.wait(30)

    error = invoke(job.id).exception
    assert isinstance(error, LauncherError)
    assert "no stacks were taken of it" in str(error)
