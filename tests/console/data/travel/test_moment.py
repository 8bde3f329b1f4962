"""A run at any moment: the same as the fold of what it had said by then, in every folder."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.run.feed import RunFeed
from console.data.run.model import RunView
from console.data.travel import past_states
from console.data.travel.marks import LandmarkKind
from console.data.travel.moment import Moment, MomentFeed
from console.demo import RECORDED_AT, record_demo
from launcher.runs import paths
from launcher.runs.reader import FactTail
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase, RunState
from launcher.testing import FakeClock
from tests.console.scripted import START, Scripted

NOW = RECORDED_AT + 1000


class Traveller:
    """A feed of moments that is read in the test's thread."""

    def __init__(
        self, run: Path, *, piece: int | None = None, clock: Callable[[], float] = lambda: NOW
    ) -> None:
        self.views: list[RunView] = []
        self.complaints: list[str] = []
        self.feed = RunFeed(run, publish=self.views.append, failed=self.complaints.append, clock=clock)
        while self.feed.look():
            pass
        self.moments: list[Moment] = []
        self.moment = MomentFeed(
            run, self.views[-1], publish=self.moments.append, failed=pytest.fail, clock=clock, piece=piece
        )
        self.look()

    def look(self) -> Moment:
        self.moment.poller.look()
        return self.moments[-1]

    def at(self, moment: float) -> Moment:
        self.moment.go(moment)
        return self.look()

    def settle(self) -> Moment:
        while self.moment._skimming:
            self.look()
        return self.look()


def prefix(run: Path, moment: float) -> RunState:
    facts = FactTail(run, samples=True).poll()
    return fold_all((fact for fact in facts if fact.time <= moment), run=run.name)


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("piece", [None, 4096])
def test_the_state_is_the_fold_of_all_that_was_said_by_then(
    root: Path, fail: bool, piece: int | None
) -> None:
    run = record_demo(root, seconds=40, fail=fail)
    traveller, chance = Traveller(run, piece=piece), random.Random(3)
    begin, end = traveller.moment.span

    for _ in range(40):
        at = chance.uniform(begin, end)
        assert traveller.at(at).view.state == prefix(run, at)


def test_of_a_long_run_what_lies_far_back_is_known_too(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = record_demo(root, seconds=60)
    monkeypatch.setattr("console.data.travel.moment.WINDOW_BYTES", 8192)
    monkeypatch.setattr("console.data.travel.moment._RANK_BYTES", 0)
    traveller = Traveller(run, piece=2048)
    monkeypatch.setattr(past_states, "MOST_STATES", 8)
    traveller.settle()
    chance = random.Random(5)
    begin, end = traveller.moment.span

    for _ in range(30):
        at = chance.uniform(begin, end)
        moment = traveller.at(at)
        if moment.exact:
            assert moment.view.state == prefix(run, at)
    assert any(moment.exact for moment in traveller.moments[-20:])


def test_a_hung_ranks_step_is_known_long_after_its_last_report(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.data.travel.moment.WINDOW_BYTES", 2048)
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    run.add(*(ev.RankReported(time=3.0, rank=rank, step=17, metrics={"loss": 2.0}) for rank in (0, 1)))
    run.add(*(ev.Sampled(time=4.0 + n, agent=0, host="node1") for n in range(600)))
    traveller = Traveller(run.folder, piece=1024, clock=FakeClock(START + 700))

    traveller.settle()
    moment = traveller.at(START + 500)
    while not moment.exact:
        moment = traveller.look()

    assert [rank.step for rank in moment.view.state.ranks] == [17, 17]


def test_steps_are_those_that_the_leading_rank_reported(root: Path) -> None:
    traveller = Traveller(record_demo(root, seconds=30))
    traveller.at(RECORDED_AT + 15)
    steps = []
    for by in (1, 1, -1, -1, -1, 10):
        traveller.moment.step(by)
        leader = traveller.look().view.state.leader
        assert leader is not None
        steps.append(leader.step)

    assert steps == [40, 44, 40, 36, 32, 72]


def test_without_steps_a_step_is_a_second(root: Path) -> None:
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    traveller = Traveller(run.folder, clock=FakeClock(START + 20))
    traveller.at(START + 10)
    traveller.moment.step(3)

    assert traveller.look().at == START + 13


def test_time_goes_on_as_fast_as_was_asked_and_ends_at_the_end(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = FakeClock(50.0)
    traveller = Traveller(record_demo(root, seconds=30))
    monkeypatch.setattr("console.data.travel.moment.time.monotonic", clock)
    traveller.at(RECORDED_AT + 10)
    traveller.moment.pace(3)
    traveller.moment.play()
    clock.advance(1.0)
    playing = traveller.look()
    clock.advance(100.0)
    ended = traveller.look()

    assert (playing.at, playing.playing, playing.speed) == (RECORDED_AT + 18, True, 8.0)
    assert (ended.at, ended.playing) == (ended.end, False)
    assert ended.view.state.phase is Phase.SUCCEEDED


def test_a_moment_has_only_what_had_happened(root: Path) -> None:
    traveller = Traveller(record_demo(root, seconds=40, fail=True))
    before, after = traveller.at(RECORDED_AT + 15).view, traveller.at(RECORDED_AT + 39).view

    assert before.live
    assert before.state.first_failure is None
    assert before.results == ()
    assert before.progress.step == 36
    assert after.state.phase is Phase.FAILED
    assert after.state.first_failure is not None


def test_results_come_when_ranks_return(root: Path) -> None:
    traveller = Traveller(record_demo(root, seconds=30))
    counts = [len(traveller.at(RECORDED_AT + second).view.results) for second in (20.0, 28.1, 29.5)]

    assert counts[0] == 0
    assert 0 < counts[1] <= counts[2] == 8


def test_the_timeline_marks_what_happened(root: Path) -> None:
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    run.fail(5.0, 1)
    run.restart(7.0, 1, "rank 1 failed")
    run.place(8.0, 1)
    run.add(ev.RunEnded(time=12.0, state="stopped", exit_code=143, why="stopped"))
    moment = Traveller(run.folder, clock=FakeClock(START + 50)).moments[-1]

    assert [(mark.moment - START, mark.kind) for mark in moment.marks] == [
        (2.0, LandmarkKind.TRAINING), (5.0, LandmarkKind.FAILURE), (7.0, LandmarkKind.RESTART),
        (9.0, LandmarkKind.TRAINING),
        (12.0, LandmarkKind.END),
    ]  # fmt: skip
    assert (moment.begin, moment.end) == (START, START + 12)


def test_before_a_restart_the_first_attempt_is_shown(root: Path) -> None:
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    run.fail(5.0, 1)
    run.restart(7.0, 1, "rank 1 failed")
    run.place(8.0, 1)
    traveller = Traveller(run.folder, clock=FakeClock(START + 20))
    states = [traveller.at(START + second).view.state for second in (15.0, 6.5, 4.0, 9.5)]

    assert [state.attempt for state in states] == [1, 0, 0, 1]
    assert [state.ranks[1].phase for state in states] == [
        RankPhase.RUNNING, RankPhase.FAILED, RankPhase.RUNNING, RankPhase.RUNNING,
    ]  # fmt: skip


def test_a_run_grows_while_its_past_is_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.data.travel.moment._LIVE_S", 0.0)
    run, clock = Scripted(root, ranks=2, hosts=("node1",)), FakeClock(START + 10.0)
    run.place(1.0)
    traveller = Traveller(run.folder, clock=clock)
    first = traveller.at(START + 5)
    run.add(*(ev.RankReported(time=12.0, rank=rank, step=4) for rank in (0, 1)))
    clock.advance(10.0)
    second = traveller.look()

    assert (first.end, second.end) == (START + 10, START + 20)
    assert second.at == START + 5
    assert traveller.at(START + 13).view.progress.step == 4


def test_the_last_facts_of_a_run_that_ends_meanwhile_are_read(root: Path) -> None:
    run, clock = Scripted(root, ranks=1, hosts=("node1",)), FakeClock(START + 10.0)
    run.place(1.0)
    traveller = Traveller(run.folder, clock=clock)
    traveller.at(START + 5)
    run.add(ev.RunEnded(time=12.0, state="succeeded", exit_code=0, why="all"))
    clock.advance(5.0)
    while traveller.views[-1].live:
        traveller.feed.look()
    traveller.moment.know(traveller.views[-1])

    assert traveller.at(START + 14).view.state.phase is Phase.SUCCEEDED


def test_a_run_of_no_time_has_one_moment(root: Path) -> None:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.add(ev.RunEnded(time=0.0, state="failed", exit_code=1, why="no"))
    moment = Traveller(run.folder).at(START + 99)

    assert moment.at == moment.begin == moment.end == START


def test_garbage_among_facts_and_samples_is_passed_over(root: Path) -> None:
    run = record_demo(root, seconds=20)
    with open(run / paths.EVENTS, "ab") as file:
        file.write(b'\xff\xfe{"event": 3}\n[]\n{"event":"run_ended","time":"NaN"}\n')
    sampled = run / paths.SAMPLES / "001767261700.jsonl"
    sampled.write_bytes(b"\0" * 20_000 + b'\n{"event":"sampled","time":1e999}\n' + b"x" * 70_000)
    (run / paths.SAMPLES / "folder.jsonl").mkdir()
    traveller = Traveller(run, piece=4096)

    assert traveller.at(RECORDED_AT + 15).view.progress.step == 36
    assert traveller.at(RECORDED_AT + 500).view.state.phase is Phase.SUCCEEDED


def test_a_deleted_folder_leaves_what_was_read(root: Path) -> None:
    run = record_demo(root, seconds=20)
    traveller = Traveller(run)
    traveller.at(RECORDED_AT + 15)
    shutil.rmtree(run)

    assert traveller.at(RECORDED_AT + 10).view.state.phase is Phase.RUNNING


def test_missing_samples_leave_the_facts(root: Path) -> None:
    run = record_demo(root, seconds=20)
    shutil.rmtree(run / paths.SAMPLES)
    view = Traveller(run).at(RECORDED_AT + 15).view

    assert view.state.phase is Phase.RUNNING
    assert {rank.rank.phase for rank in view.ranks} == {RankPhase.RUNNING}


def test_thinned_figures_are_said_to_be_old_and_raise_no_alarm(root: Path) -> None:
    run = record_demo(root, seconds=30)
    folder = run / paths.SAMPLES
    lines = [line for path in folder.iterdir() for line in path.read_bytes().splitlines(keepends=True)]
    kept = [x for x in lines if json.loads(x)["time"] < RECORDED_AT + 10]
    for path in folder.iterdir():
        path.unlink()
    (folder / "thinned.jsonl").write_bytes(b"".join(kept))
    moment = Traveller(run).at(RECORDED_AT + 26)

    assert moment.old_s == 16
    assert {str(view.condition) for view in moment.view.ranks} == {"running"}
    assert moment.view.alerts == ()


def test_an_alert_that_was_active_then_is_shown(root: Path) -> None:
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    for second in range(3, 40):
        run.add(
            ev.RankReported(time=float(second), rank=0, step=second * 4),
            ev.RankReported(time=float(second), rank=1, step=min(second, 10) * 4),
            ev.Sampled(
                time=second + 0.5, agent=0, host="node1",
                ranks=tuple(ev.RankSample(rank=r, cpu=50.0, processes=1) for r in (0, 1)),
            ),
        )  # fmt: skip
    traveller = Traveller(run.folder, clock=FakeClock(START + 60))

    assert traveller.at(START + 8).view.alerts == ()
    assert [(a.rank, a.over) for a in traveller.at(START + 35).view.alerts] == [(1, None)]


def test_the_same_moment_twice_is_published_once(root: Path) -> None:
    traveller = Traveller(record_demo(root, seconds=20))
    traveller.at(RECORDED_AT + 10)
    traveller.settle()
    seen = len(traveller.moments)
    for _ in range(3):
        traveller.look()

    assert len(traveller.moments) == seen
    assert replace(traveller.moments[-1]) == traveller.moments[-1]
