from __future__ import annotations

import json
from pathlib import Path

import pytest

from console.data.replay import replay
from console.data.run.feed import RunFeed
from console.data.run.metrics import CPU, LAG, RSS, UTIL
from console.data.run.model import RunView
from console.demo import RECORDED_AT, record_demo
from launcher.runs import paths
from launcher.runs.reader import read_state
from launcher.state import events as ev
from launcher.state.run_state import Phase
from launcher.testing import FakeClock
from tests.console.scripted import START, Moment, Scripted


def looked(run: Path, now: float = RECORDED_AT + 1000) -> tuple[RunFeed, list[RunView]]:
    views: list[RunView] = []
    feed = RunFeed(run, publish=views.append, failed=pytest.fail, clock=lambda: now)
    while feed.look():
        pass
    return feed, views


def test_a_recorded_run_is_seen_whole(root: Path) -> None:
    feed, views = looked(record_demo(root))
    view = views[-1]

    assert view.state.phase is Phase.SUCCEEDED
    assert view.progress.step == 324
    assert view.progress.step_s == pytest.approx(0.25)
    assert len(view.results) == 8
    assert view.ranks[3].amount(UTIL) is not None
    assert view.logs.lines == feed.book.count() > 40


def test_an_ended_run_is_published_no_more(root: Path) -> None:
    feed, views = looked(record_demo(root))
    seen = len(views)

    for _ in range(3):
        feed.look()

    assert len(views) == seen


def test_figures_alone_are_shown_once_a_second(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("console.data.run.feed._SAMPLES_REST_FACTOR", 0.0)
    run, clock, views = Scripted(root, ranks=2, hosts=("node1",)), FakeClock(START + 100.0), list[RunView]()
    feed = RunFeed(run.folder, publish=views.append, failed=pytest.fail, clock=clock)
    run.place(1.0)

    def shown(*moments: Moment) -> int:
        run.add(*moments)
        before = len(views)
        clock.advance(0.2)
        while feed.look():
            pass
        return len(views) - before

    assert shown(ev.RankReported(time=99.0, rank=0, step=1)) > 0
    assert [0, 0] == [shown(ev.RankReported(time=99.5, rank=0, step=3 + n)) for n in range(2)]
    assert shown((99.6, 0, "a line\n")) > 0
    assert 1 == views[-1].progress.step, "lines are shown without the newest figures"
    assert shown() > 0, "a second is over"
    assert 4 == views[-1].progress.step
    assert shown((99.7, 0, "another\n")) > 0
    assert 0 == shown(ev.Sampled(time=99.8, agent=0, host="node1", ranks=(ev.RankSample(rank=0, cpu=5.0),)))
    assert shown(ev.RankExited(time=99.9, rank=0, exit_code=1)) > 0
    assert 0 == shown()
    feed.close()


def test_without_devices_only_the_cpu_is_known(root: Path) -> None:
    _, views = looked(record_demo(root, gpus=False))
    rank = views[-1].ranks[0]

    assert not views[-1].has_devices
    assert {CPU, RSS} == rank.figures.amounts.keys() - {LAG}


def test_the_first_failure_is_told_from_its_victims(root: Path) -> None:
    _, views = looked(record_demo(root, fail=True))
    state = views[-1].state

    assert state.first_failure is not None
    assert state.first_failure.rank == 5
    assert sum(v.condition == "stopped" for v in views[-1].ranks) == 7


def test_a_run_whose_owner_died_is_lost(root: Path) -> None:
    run = record_demo(root)
    events = (run / paths.EVENTS).read_bytes().splitlines(True)
    (run / paths.EVENTS).write_bytes(b"".join(events[:-20]))
    status = json.loads((run / paths.STATUS).read_text())
    status["state"], status["why"], status["owner"]["start"] = "running", "", 1
    (run / paths.STATUS).write_text(json.dumps(status))

    _, views = looked(run)

    assert views[-1].state.phase is Phase.LOST
    assert "left no verdict" in views[-1].state.why
    assert not any(v.condition == "running" for v in views[-1].ranks)


def test_a_run_whose_facts_cannot_be_read_ended_as_its_status_says(root: Path) -> None:
    run = record_demo(root, fail=True)
    events = run / paths.EVENTS
    events.unlink()
    events.mkdir()
    _, views = looked(run)

    state, status = views[-1].state, json.loads((run / paths.STATUS).read_text())
    assert not views[-1].live
    assert state.phase is Phase.FAILED
    assert (status["exit_code"], status["why"]) == (state.exit_code, state.why)
    assert paths.EVENTS in [part.file for part in state.unreadable]


def test_recordings_are_the_same_every_time(tmp_path: Path) -> None:
    one, two = record_demo(tmp_path / "a", fail=True), record_demo(tmp_path / "b", fail=True)

    for name in (paths.EVENTS, "logs/0/chunks", "logs/0/00005.err"):
        assert (one / name).read_bytes() == (two / name).read_bytes()


def test_a_replay_ends_as_the_recording_did(root: Path, tmp_path: Path) -> None:
    recorded = record_demo(tmp_path / "recorded", ranks=2, seconds=20)

    again = replay(recorded, root, speed=200)

    assert again.join(30)
    assert read_state(again.run).phase is Phase.SUCCEEDED
    for rank in (0, 1):
        name = paths.log_file(Path(), 0, rank, paths.STDOUT)
        assert (again.run / name).read_bytes() == (recorded / name).read_bytes()


def test_a_replay_can_be_stopped(root: Path, tmp_path: Path) -> None:
    again = replay(record_demo(tmp_path / "recorded", ranks=2), root, speed=1, ahead_s=20)
    again.stop()

    assert again.join(30)
    state = read_state(again.run)
    assert (state.phase, state.exit_code) == (Phase.STOPPED, 143)


def restarted(root: Path) -> Path:
    """A run whose first attempt reported steps and failed, and whose second one returned a value."""
    run = Scripted(root, ranks=2, hosts=("node1", "node2"))
    run.place(1.0)
    for step in (10, 20, 30):
        run.add(ev.RankReported(time=2.0 + step / 10, rank=0, step=step, metrics={"loss": 9.0}))
    run.add(ev.Sampled(time=5.5, agent=0, host="node1", ranks=(ev.RankSample(rank=0, cpu=50.0),)))
    run.add((6.0, 0, "old\n"), (9.1, 1, "by a clock that is ahead\n"))
    run.fail(7.0, 1)
    run.restart(9.0, 1, "rank 1 on node2 exited with code 7", in_place=False)
    run.place(9.5, 1)
    run.add((8.9, 1, "by a clock that is behind\n"), (11.0, 0, "new\n"))
    run.add(ev.RankReported(time=12.0, attempt=1, rank=0, step=31, metrics={"loss": 1.0}))
    run.add(*(ev.RankExited(time=13.0, attempt=1, rank=r, exit_code=0) for r in (0, 1)))
    run.add(ev.RunEnded(time=14.0, attempt=1, state="succeeded", exit_code=0, why="every rank exited with 0"))
    run.writer.close()
    return run.folder


def test_another_attempts_pace_and_losses_are_its_own(root: Path) -> None:
    _, views = looked(restarted(root))
    progress = views[-1].progress
    assert (31, (1.0,), None) == (progress.step, progress.losses, progress.step_s)
    assert 0 == len(views[-1].ranks[0].past)
    assert (1, 3) == (views[-1].state.attempt, views[-1].max_restarts)


def test_a_replay_keeps_every_attempts_output_apart(root: Path, tmp_path: Path) -> None:
    recorded = restarted(tmp_path / "recorded")
    again = replay(recorded, root, speed=200)
    assert again.join(30)

    first, second = read_state(recorded), read_state(again.run)
    assert (first.phase, first.attempt, first.num_processes) == (second.phase, second.attempt, 2)
    for attempt in (0, 1):
        for rank in (0, 1):
            name = paths.log_file(Path(), attempt, rank, paths.STDOUT)
            assert (again.run / name).read_bytes() == (recorded / name).read_bytes()
