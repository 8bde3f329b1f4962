"""A run that was begun long ago: its newest facts come first, all of its past afterwards, and once each."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from console.data.run import feed as feed_module
from console.data.run import progress
from console.data.run.feed import RunFeed
from console.data.run.figures import HISTORY
from console.data.run.metrics import CPU
from console.data.run.model import RunView
from console.data.run.progress import PIECE_BYTES, facts_of, pieces
from launcher.runs.samples import Stretch, halves, sample_files
from launcher.state import events as ev
from launcher.testing import FakeClock
from tests.console.scripted import START, Scripted

RANKS, SECONDS = 4, 60


@pytest.fixture
def run(root: Path) -> Scripted:
    """A run of a minute, in which every rank reports and is sampled once a second."""
    run = Scripted(root, ranks=RANKS, hosts=("node1", "node2"))
    run.place(1.0)
    run.add(*(fact for second in range(3, SECONDS) for fact in said(second)))
    return run


def said(second: int) -> list[ev.Event]:
    reports = [
        ev.RankReported(time=second + r / 10, rank=r, step=10 * second, metrics={"loss": 100.0 - second})
        for r in range(RANKS)
    ]
    samples = [
        ev.Sampled(
            time=second + 0.5,
            agent=agent,
            host=f"node{agent + 1}",
            ranks=tuple(ev.RankSample(rank=r, cpu=float(second)) for r in (2 * agent, 2 * agent + 1)),
        )
        for agent in (0, 1)
    ]
    return [*reports, *samples]


def seen(run: Scripted, clock: FakeClock | None = None) -> tuple[RunFeed, list[RunView]]:
    views: list[RunView] = []
    clock = clock or FakeClock(START + SECONDS)
    return RunFeed(run.folder, publish=views.append, failed=pytest.fail, clock=clock), views


def whole(run: Scripted) -> RunView:
    feed, views = seen(run)
    while feed.look():
        pass
    feed.close()
    return views[-1]


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a few facts are read at first, and little at a time."""
    monkeypatch.setattr(feed_module, "_RECENT_BYTES", 4000)
    monkeypatch.setattr(feed_module, "_RECALL_S", 0.0)
    monkeypatch.setattr(progress, "PIECE_BYTES", 700)


def test_the_past_that_is_read_afterwards_is_the_one_that_is_read_at_once(
    run: Scripted, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    at_once = whole(run)
    request.getfixturevalue("little")
    feed, views = seen(run)
    feed.look()
    first = views[0]
    while feed.look():
        pass
    feed.close()

    assert at_once.state == first.state, "the newest facts tell how all ranks are"
    assert first.recalled < 0.1
    assert len(first.ranks[0].past) < 10
    assert first.progress.losses[-1] == at_once.progress.losses[-1]
    assert replace(views[-1], curves=at_once.curves) == at_once
    assert len(at_once.ranks[0].past) == SECONDS - 3


def test_what_comes_meanwhile_is_neither_lost_nor_told_twice(run: Scripted, little: None) -> None:
    clock = FakeClock(START + SECONDS)
    feed, views = seen(run, clock)
    assert feed.look()
    for second in range(SECONDS, SECONDS + 20):
        clock.advance(1.0)
        run.add(*said(second))
        assert feed.look(), "the past is longer than this"
    while feed.look():
        pass
    feed.close()

    assert tuple(100.0 - second for second in range(3, SECONDS + 20)) == views[-1].progress.losses
    cpu = views[-1].ranks[3].past.of(CPU, HISTORY)
    assert [float(second) for second in range(3, SECONDS + 20)] == cpu


def test_a_restart_meanwhile_begins_a_new_past(run: Scripted, little: None) -> None:
    clock = FakeClock(START + SECONDS)
    feed, views = seen(run, clock)
    feed.look()
    clock.advance(5.0)
    run.fail(SECONDS + 1.0, 1)
    run.restart(SECONDS + 2.0, 1, "rank 1 failed")
    run.place(SECONDS + 3.0, 1)
    run.add(ev.RankReported(time=SECONDS + 5.0, attempt=1, rank=0, step=7, metrics={"loss": 1.0}))
    while feed.look():
        pass
    feed.close()

    assert (1.0,) == views[-1].progress.losses


def test_an_old_restart_is_not_taken_for_a_new_one(run: Scripted, little: None) -> None:
    run.fail(SECONDS + 1.0, 1)
    run.restart(SECONDS + 2.0, 1, "rank 1 failed")
    run.place(SECONDS + 3.0, 1)
    for step in range(100):
        report = ev.RankReported(
            time=SECONDS + 5.0 + step, attempt=1, rank=0, step=step, metrics={"loss": 9.0}
        )
        run.add(report)

    assert (9.0,) * 100 == whole(run).progress.losses


def test_the_far_past_is_the_leaders_and_read_in_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "NEAR_BYTES", 3 * PIECE_BYTES)
    monkeypatch.setattr(progress, "MOST_PIECES", 10)
    day = [Stretch(Path("thinned"), 0, 5), Stretch(Path("raw"), 0, 1000 * PIECE_BYTES + 5)]
    asked = pieces(day)

    assert [False] * 10 + [True] * 3 == [piece.near for piece in asked]
    assert asked == sorted(asked, key=lambda p: (p.stretch.path != Path("thinned"), p.stretch.start))
    assert asked[-1].stretch.end == 1000 * PIECE_BYTES + 5
    starts = [piece.stretch.start for piece in asked[1:10]]
    gaps = [after - before for before, after in pairwise(starts)]
    assert max(gaps) - min(gaps) <= PIECE_BYTES


def test_every_line_is_in_one_piece(run: Scripted, little: None) -> None:
    skipped, newer = halves(sample_files(run.folder), 4000)
    facts = [fact for piece in pieces(skipped) for fact in facts_of(piece, 0)]
    lines = b"".join(path.read_bytes() for path in sample_files(run.folder)).count(b"\n")
    rest = sum(path.read_bytes()[at : s.end].count(b"\n") for s in newer for path, at in [(s.path, s.start)])

    assert lines - rest == len(facts) > 300
    assert len(
        {(type(f), f.time, getattr(f, "rank", None), getattr(f, "agent", None)) for f in facts}
    ) == len(facts)


def test_a_file_that_is_thinned_meanwhile_is_left_out(run: Scripted, little: None) -> None:
    feed, views = seen(run)
    feed.look()
    for path in sample_files(run.folder):
        path.unlink()
    while feed.look():
        pass
    feed.close()

    assert views[-1].recalled == 1.0
    assert views[-1].progress.losses
