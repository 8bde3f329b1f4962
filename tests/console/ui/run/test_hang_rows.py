"""A gang that hangs or pauses, on the run screen: its headline, its result pane and its ranks' rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.data.run.health import Condition
from console.data.run.metrics import UTIL
from console.ui.run.failure import failure_rows
from console.ui.run.header import headline_rows
from console.ui.run.rank_detail import detail_rows
from console.ui.run.rank_table import RankTable
from console.ui.run.result import result_rows
from console.ui.run.stacks import stack_rows
from launcher.state import events as ev
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted

COLLECTIVE = '  File "/v/lib/python3.11/site-packages/torch/distributed/c10d.py", line 3 in all_reduce'
QUEUE = '  File "/usr/lib/python3.11/queue.py", line 171 in get'
OWN = '  File "/w/train.py", line 41 in fit'


@pytest.fixture
def hung(root: Path) -> Scripted:
    """Four ranks, of which one waits for a queue, and the others for it."""
    run = Scripted(root, hosts=("node1",))
    run.place(1.0)
    run.add(
        *(ev.RankReported(time=2.0, rank=rank, step=7) for rank in range(4)),
        *(
            ev.StacksTaken(time=63.0, rank=r, text=f"Thread 0x1:\n{QUEUE if r == 2 else COLLECTIVE}\n{OWN}\n")
            for r in range(4)
        ),
        ev.RanksSilent(time=64.0, ranks=(2,), since=2.0, hung=True, waiting=(0, 1, 3)),
    )
    return run


PLACES = ["rank 2 is in queue.get (train.py:41)", "ranks 0-1, 3 wait in all_reduce (train.py:41)"]


def test_headline_and_result_tell_where_the_ranks_are_the_odd_one_first(hung: Scripted) -> None:
    view = view_of(hung)
    (headline,) = words(headline_rows(view, 160))
    age, _, places = headline.partition(": ")
    assert age.startswith("HUNG ")
    assert "; ".join(PLACES) == places
    head, *rest = words(result_rows(view, 160))
    assert age == head
    assert PLACES == rest[:2]
    assert len(headline_rows(view, 60)) == 2, "it is wrapped and not cut"


def test_stacks_of_an_idle_spell_are_not_shown_as_those_of_the_end(hung: Scripted) -> None:
    hung.add(ev.RanksResumed(time=70.0, ranks=(2,)), ev.StopRequested(time=3600.0, by="person", reason="x"))
    hung.add(*(ev.RankExited(time=3601.0, rank=r, exit_code=143, signal="SIGTERM") for r in range(4)))
    hung.add(ev.RunEnded(time=3602.0, state="stopped", exit_code=130, why="stopped: x"))
    view = view_of(hung)
    shown = [*words(result_rows(view, 160)), *words(failure_rows(view, 160, tall=True))]
    assert not [row for row in shown if "train.py" in row]
    assert words(stack_rows(view))[0].startswith("these stacks are 3539 s older than the end")


def test_stacks_of_a_silence_until_the_stop_are_those_of_the_end(hung: Scripted) -> None:
    hung.add(ev.StopRequested(time=3600.0, by="person", reason="x"))
    hung.add(*(ev.RankExited(time=3601.0, rank=r, exit_code=143, signal="SIGTERM") for r in range(4)))
    hung.add(ev.RunEnded(time=3602.0, state="stopped", exit_code=130, why="stopped: x"))
    view = view_of(hung)
    assert PLACES == [row for row in words(result_rows(view, 160)) if row in PLACES]
    assert "ranks 0-1, 3:" in words(stack_rows(view))


def test_each_rank_says_what_it_does(hung: Scripted) -> None:
    view = view_of(hung)
    expected = [Condition.WAITING, Condition.WAITING, Condition.HUNG, Condition.WAITING]
    assert expected == [each.condition for each in view.ranks]
    assert "H HUNG no activity since" in words(detail_rows(view.ranks[2], 80))[0]
    assert "waiting for ranks that hang" in words(detail_rows(view.ranks[0], 80))[0]


def test_a_pause_is_in_the_row_and_in_the_headline(hung: Scripted) -> None:
    hung.add(
        ev.RankPaused(time=70.0, rank=1, reason="debugging\x1b[31m"), ev.RanksResumed(time=71.0, ranks=(2,))
    )
    view = view_of(hung)
    assert ["rank 1 is paused: debugging"] == words(headline_rows(view, 100))
    table = RankTable().rows(view.ranks, 60, cursor=None, devices=False, metric=UTIL, hosts={})
    row = words(table)[2]
    assert "paused: debugging" in row
    assert "‖ paused debugging" in words(detail_rows(view.ranks[1], 80))[0]
