"""Which rank failed first, by clocks that differ from host to host; and when that cannot be told."""

from __future__ import annotations

import pytest

from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.outcome_rules import describe_cause, verdict
from launcher.state.run_state import RunState


def gang(errors: dict[int, float], ranks: int = 4) -> RunState:
    """A gang with a host and an agent for every rank; by how much each one's clock may be wrong."""
    places = tuple(
        Assignment(r, ranks, 0, 1, r, ranks, agent=min(r, max(errors)), host="abcdefgh"[r])
        for r in range(ranks)
    )
    return fold_all(
        [
            ev.RunSubmitted(time=0.0, name="n", target="t", mode="cluster", num_processes=ranks),
            *(
                ev.AgentJoined(time=0.5, agent=agent, host="abcdefgh"[agent], pid=1, clock_error=error)
                for agent, error in errors.items()
            ),
            ev.GangPlaced(time=1.0, ranks=places),
            *(ev.RankStarted(time=2.0, rank=rank, pid=9) for rank in range(ranks)),
        ]
    )


def failed(state: RunState, *raised: tuple[int, float, str]) -> RunState:
    for rank, time, message in raised:
        state = fold(state, ev.RankRaised(time=time, rank=rank, kind="E", message=message, traceback=""))
    for rank, time, _ in raised:
        state = fold(state, ev.RankExited(time=time + 0.1, rank=rank, exit_code=rank + 1))
    return state


EXACT = dict.fromkeys(range(4), 0.0)


def test_the_first_one_is_named_alone_if_the_clocks_can_tell() -> None:
    state = failed(gang(EXACT), (3, 5.000, "x"), (0, 5.002, "y"))
    assert "rank 3 on d raised E: x" == verdict(state, now=9.0).why
    assert () == state.failed_together


@pytest.mark.parametrize("order", [1, -1])
def test_two_within_a_millisecond_are_both_named(order: int) -> None:
    state = failed(gang(EXACT), *[(0, 5.0005, "y"), (3, 5.0, "x")][::order])
    assert (
        "rank 3 on d raised E: x; within 1 ms of it, rank 0 on a raised E: y" == verdict(state, now=9.0).why
    )
    assert (4, 3) == (verdict(state, now=9.0).exit_code, verdict(state, now=9.0).rank)


def test_two_that_the_clocks_cannot_tell_apart_are_both_named() -> None:
    clocks = {**EXACT, 0: 0.030, 3: 0.0085}
    apart = failed(gang(clocks), (3, 5.0, "x"), (0, 5.039, "y"))
    assert "rank 3 on d raised E: x" == verdict(apart, now=9.0).why
    close = failed(gang(clocks), (3, 5.0, "x"), (0, 5.038, "y"))
    assert verdict(close, now=9.0).why.endswith("; within 39 ms of it, rank 0 on a raised E: y")


def test_ranks_of_one_agent_have_one_clock() -> None:
    """However long it took to find out what its clock shows."""
    state = failed(gang({0: 2.0}), (3, 5.0, "x"), (0, 5.002, "y"))
    assert "rank 3 on d raised E: x" == verdict(state, now=9.0).why


def test_a_defect_that_shows_in_all_ranks_at_once() -> None:
    state = failed(gang(EXACT), *((rank, 5.0 + rank / 1e4, "x") for rank in range(4)))
    assert "rank 0 on a raised E: x; within 1 ms of it, ranks 1, 2 and 3 failed too" == (
        verdict(state, now=9.0).why
    )


def test_a_victim_is_no_cause_however_close_it_is() -> None:
    gone = "Connection closed by peer [10.0.0.1]:4711"
    state = failed(gang(EXACT), (0, 4.9995, gone), (3, 5.0, "x"), (1, 5.0, gone))
    assert "rank 3 on d raised E: x" == verdict(state, now=9.0).why


def test_only_of_the_first_failure_it_is_said() -> None:
    state = failed(gang(EXACT), (3, 5.0, "x"), (0, 5.0005, "y"))
    assert "rank 0 on a raised E: y" == describe_cause(state, state.ranks[0])
