"""Which stacks are those of the end: not those of an idle spell after which ranks went on."""

from __future__ import annotations

import pytest

from launcher.diagnosis.stacks import older_line
from launcher.errors import NoProgress
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState


def after(*facts: ev.Event, n: int = 3) -> RunState:
    places = tuple(Assignment(r, n, r, n, 0, 1, 0, "h") for r in range(n))
    begun = [ev.RankStarted(time=1.0, rank=r, pid=9) for r in range(n)]
    submitted = ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=n)
    return fold_all([submitted, ev.GangPlaced(time=1.0, ranks=places), *begun, *facts])


def taken(time: float, *ranks: int) -> list[ev.StacksTaken]:
    return [ev.StacksTaken(time=time, rank=rank, text="x") for rank in ranks or range(3)]


def ends(*ranks: int, time: float, code: int = 0) -> list[ev.RankExited]:
    return [ev.RankExited(time=time, rank=rank, exit_code=code) for rank in ranks]


SPELL = [ev.RanksSilent(time=60.0, ranks=(0, 1, 2), since=30.0), *taken(90.0)]
WENT_ON = ev.RanksResumed(time=100.0, ranks=(0, 1, 2))
RAISED = ev.RankRaised(time=3600.0, rank=1, kind="ValueError", message="no", traceback="tb")
LIMIT = ev.StopRequested(time=3600.0, by="limit", reason="no progress", exit_code=NoProgress.exit_code)


def last(*facts: ev.Event) -> list[int]:
    return [each.rank for each in after(*facts).last_stacks]


def test_stacks_are_current_while_the_ranks_show_no_activity() -> None:
    assert [0, 1, 2] == last(*SPELL)
    assert [0, 2] == last(*SPELL, ev.RanksResumed(time=95.0, ranks=(1,)))
    assert [] == last(*SPELL, WENT_ON)
    assert [] == last(*taken(90.0)), "of ranks that are not silent"
    assert [] == last(*taken(20.0), SPELL[0]), "of before they were"


def test_a_step_is_a_sign_that_a_rank_went_on_before_any_look_at_its_silence() -> None:
    assert [0, 1] == last(*SPELL, ev.RankReported(time=91.0, rank=2, step=8))


def test_ranks_that_wait_for_hung_ones_are_where_they_were_since_those_are_idle() -> None:
    hung = ev.RanksSilent(time=91.0, ranks=(2,), since=30.0, hung=True, waiting=(0, 1))
    assert [0, 1, 2] == last(*taken(90.0), hung)
    assert [] == last(*taken(20.0), hung)


def test_an_idle_spell_of_a_run_that_succeeded_tells_nothing() -> None:
    done = [*ends(0, 1, 2, time=200.0), ev.RunEnded(time=201.0, state="succeeded", exit_code=0, why="")]
    assert [] == last(*SPELL, WENT_ON, *done)
    assert [] == last(*SPELL, *done)


def test_an_idle_spell_tells_nothing_of_an_exception_long_after_it() -> None:
    assert [] == last(*SPELL, WENT_ON, RAISED, *ends(1, time=3601.0, code=1))


def test_stacks_that_a_failure_or_a_limit_made_the_engine_take_are_those_of_the_end() -> None:
    assert [0, 2] == last(RAISED, *taken(3600.5, 0, 2), *ends(1, time=3601.0, code=1))
    assert [0, 1, 2] == last(LIMIT, *taken(3600.5))
    assert [0, 1, 2] == last(LIMIT, *taken(3599.0)), "the clocks of hosts differ a little"
    assert [0] == last(*SPELL, WENT_ON, LIMIT, *taken(3600.5, 0)), "the others did not answer"


def test_a_silence_that_lasts_until_the_stop_counts() -> None:
    person = ev.StopRequested(time=3600.0, by="person", reason="x")
    assert [0, 1, 2] == last(*SPELL, person, *ends(0, 1, 2, time=3601.0, code=143))


def test_stacks_of_a_rank_that_is_not_placed_are_harmless() -> None:
    assert [] == last(ev.RanksSilent(time=60.0, ranks=(7,), since=30.0), *taken(90.0, 7))


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ([*SPELL, WENT_ON, *taken(200.0, 0)], "these stacks are 3410 s older than the end"),
        ([*SPELL, WENT_ON, LIMIT, *taken(3600.5, 0)], "those of ranks 1-2 are 3520 s older than the end"),
        ([LIMIT, *taken(3600.5)], ""),
    ],
)
def test_of_older_stacks_it_is_said_how_old_they_are(facts: list[ev.Event], said: str) -> None:
    ended = ev.RunEnded(time=3610.0, state="failed", exit_code=1, why="")
    line = older_line(after(*facts, ended))
    assert line.startswith(said)
    assert bool(said) == bool(line)
    assert "" == older_line(after(*facts)), "while it goes on"
