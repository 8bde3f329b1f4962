"""What is said of ranks that hang or pause, once, and that it is over."""

from __future__ import annotations

from launcher.display.hangs import hung_line, hung_ranks, new_hangs, paused_line
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState

C10D = "/v/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"


def stacks(rank: int, *frames: str) -> ev.StacksTaken:
    lines = "\n".join(f"  File {frame}" for frame in frames)
    return ev.StacksTaken(
        time=90.0, rank=rank, text=f"Current thread 0x1 (most recent call first):\n{lines}\n"
    )


def after(*facts: ev.Event, n: int = 3) -> RunState:
    places = tuple(Assignment(r, n, r, n, 0, 1, 0, "h") for r in range(n))
    begun = [ev.RankStarted(time=1.0, rank=r, pid=9) for r in range(n)]
    submitted = ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=n)
    return fold_all([submitted, ev.GangPlaced(time=1.0, ranks=places), *begun, *facts])


HUNG = ev.RanksSilent(time=91.0, ranks=(2,), since=30.0, hung=True, waiting=(0, 1))
STACKS = (
    *(stacks(r, f'"{C10D}", line 3 in all_reduce', '"/w/train.py", line 41 in fit') for r in (0, 1)),
    stacks(2, '"/usr/lib/python3.11/queue.py", line 171 in get', '"/w/data.py", line 88 in batch'),
)
PLACES = "rank 2 is in queue.get (data.py:88); ranks 0-1 wait in all_reduce (train.py:41)"


def test_who_hangs_for_how_long_and_where_the_others_wait() -> None:
    state = after(*STACKS, HUNG)
    assert f"HUNG 70 s: {PLACES}" == hung_line(state, 100.0)
    assert "HUNG 20 min: rank 2" == hung_line(after(HUNG), 30.0 + 1200)
    assert [f"HUNG 60 s: {PLACES}"] == list(new_hangs(RunState(), state))
    assert [] == list(new_hangs(state, state))


def test_silent_ranks_are_not_announced() -> None:
    silent = after(ev.RanksSilent(time=60.0, ranks=(2,), since=30.0))
    assert ("", []) == (hung_line(silent, 100.0), list(new_hangs(RunState(), silent)))


def test_that_ranks_go_on_is_said_but_not_of_those_that_are_stopped() -> None:
    hung = after(HUNG)
    goes = after(HUNG, ev.RanksResumed(time=95.0, ranks=(2,)))
    assert ["rank 2 goes on"] == list(new_hangs(hung, goes))
    assert [False] * 3 == [rank.waits for rank in goes.ranks]

    stop = ev.StopRequested(time=95.0, by="limit", reason="x")
    ended = [ev.RankExited(time=96.0, rank=r, exit_code=1, signal="SIGTERM") for r in range(3)]
    stopped = after(HUNG, stop, *ended)
    assert ([], [2]) == (list(new_hangs(hung, stopped)), hung_ranks(stopped))


def test_a_pause_is_named_and_a_reason_cannot_control_the_terminal() -> None:
    paused = after(ev.RankPaused(time=5.0, rank=1, reason="the\x1b[31m loss\n\x07"))
    assert "rank 1 is paused: the loss" == paused_line(paused)
    assert ["rank 1 is paused: the loss"] == list(new_hangs(after(), paused))
    assert ["the pause is over"] == list(new_hangs(paused, after()))
    many = after(*(ev.RankPaused(time=5.0, rank=r) for r in range(5)), n=5)
    assert "rank 0 is paused · rank 1 is paused · rank 2 is paused · 2 more are paused" == paused_line(many)


def test_facts_about_ranks_that_do_not_exist_harm_nothing() -> None:
    odd = ev.RanksSilent(time=91.0, ranks=(2, 7, 2), since=30.0, hung=True, waiting=(9,))
    assert [2] == hung_ranks(after(odd, ev.RankPaused(time=1.0, rank=8, reason="x")))
