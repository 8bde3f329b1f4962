"""What is told of an open run: its title, its end and its first alert, each once."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from console.data.run.health import Alert
from console.data.run.model import Progress
from console.data.run.notices import NewNotices, title_of
from launcher.state import events as ev
from tests.console.run_views import view_of
from tests.console.scripted import Scripted


@pytest.fixture
def run(root: Path) -> Scripted:
    made = Scripted(root, hosts=("node1",))
    made.place(1.0)
    return made


def end(run: Scripted, state: str = "failed") -> None:
    run.add(ev.RunEnded(time=9.0, state=state, exit_code=3, why="rank 1 failed", rank=1))


def test_the_title_has_the_name_the_state_and_the_share(run: Scripted) -> None:
    view = view_of(run)
    assert "llama: running" == title_of(view)
    assert "llama: running 43 %" == title_of(replace(view, progress=Progress(step=43, total=100)))
    assert "llama: running 100 %" == title_of(replace(view, progress=Progress(step=9**99, total=1)))
    assert "llama: running" == title_of(replace(view, progress=Progress(step=4, total=0)))
    end(run)
    assert "llama: failed" == title_of(replace(view_of(run), progress=Progress(step=43, total=100)))


def test_an_end_is_told_once_and_only_if_it_was_awaited(run: Scripted) -> None:
    watching, late = NewNotices(), NewNotices()
    assert [] == watching.of(view_of(run))
    end(run)

    assert [("failure", "llama failed (exit 3): rank 1 failed")] == [
        (notice.kind, notice.text) for notice in watching.of(view_of(run))
    ]
    assert [] == watching.of(view_of(run)) == late.of(view_of(run)) == late.of(view_of(run))


def test_the_first_alert_is_told_once(run: Scripted) -> None:
    watching = NewNotices()
    view = view_of(run)
    watching.of(view)
    old = Alert("GPU at 91 °C", 2, view.now - 50)
    over = Alert("GPU at 91 °C", 2, view.now + 1, over=view.now + 2)
    assert [] == watching.of(replace(view, alerts=(old, over))), "it was there before, or has passed"
    new = Alert("loss is not finite", 1, view.now + 3)

    assert ["rank 1: loss is not finite"] == [n.why for n in watching.of(replace(view, alerts=(new, old)))]
    assert [] == watching.of(replace(view, alerts=(new, replace(new, rank=3))))


def test_a_hang_that_was_there_at_first_is_not_told(run: Scripted) -> None:
    watching, late = NewNotices(), NewNotices()
    watching.of(view_of(run))
    run.add(ev.RanksSilent(time=64.0, ranks=(2,), since=2.0, hung=True, waiting=(0, 1, 3)))

    assert ["alert"] == [notice.kind for notice in watching.of(view_of(run))]
    assert [] == late.of(view_of(run)) == late.of(view_of(run))
