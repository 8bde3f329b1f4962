"""What to do next, and how it ended: one test for each promise about exit codes."""

from __future__ import annotations

import pytest

from launcher import events as ev
from launcher.errors import (
    AgentLost,
    CannotPlace,
    InternalError,
    LauncherError,
    RankFailed,
    RecordError,
    RunNotFound,
    RunStopped,
    SpecError,
    TimeLimit,
)
from launcher.fold import fold, fold_all
from launcher.spec import Assignment
from launcher.state import RunState
from launcher.verdict import describe_failure, exit_code_of, next_stop, verdict


def up(n: int = 2, *, agents: int = 1) -> RunState:
    ranks = tuple(
        Assignment(r, n, r, n, 0, 1, agent=r % agents, host="abcdefgh"[r % agents]) for r in range(n)
    )
    facts: list[ev.Event] = [
        ev.RunSubmitted(time=0.0, name="n", target="t", mode="local", num_processes=n),
        ev.GangPlaced(time=1.0, ranks=ranks),
    ]
    for rank in range(n):
        facts += [ev.RankStarted(time=2.0, rank=rank, pid=9), ev.RankEntered(time=3.0, rank=rank)]
    return fold_all(facts, run="r")


def more(state: RunState, *facts: ev.Event) -> RunState:
    for fact in facts:
        state = fold(state, fact)
    return state


def raised(rank: int, time: float, message: str = "no") -> ev.RankRaised:
    return ev.RankRaised(time=time, rank=rank, kind="ValueError", message=message, traceback="tb")


def exited(
    rank: int, time: float, code: int = 0, signal: str | None = None, oom: int | None = None
) -> ev.Event:
    return ev.RankExited(time=time, rank=rank, exit_code=code, signal=signal, oom_kills=oom)


def stop(time: float, by: str, exit_code: int | None = None) -> ev.StopRequested:
    return ev.StopRequested(time=time, by=by, reason="on request", exit_code=exit_code)


def ask(state: RunState, *, now: float = 10.0, timeout_s: float | None = None) -> ev.StopRequested | None:
    return next_stop(state, now=now, timeout_s=timeout_s, grace_s=5.0)


def end(state: RunState, *, broken: str = "") -> tuple[str, int, int | None]:
    ended = verdict(state, now=20.0, broken=broken)
    return ended.state, ended.exit_code, ended.rank


TERMINATED = (143, "SIGTERM")


def test_0_when_every_rank_exits_with_0() -> None:
    assert ("succeeded", 0, None) == end(more(up(), exited(0, 5.0), exited(1, 6.0)))


def test_the_failing_ranks_own_code() -> None:
    state = more(up(), exited(1, 5.0, 7), stop(5.1, "rank"), exited(0, 5.2, *TERMINATED))
    assert ("failed", 7, 1) == end(state)


@pytest.mark.parametrize(("code", "signal"), [(137, "SIGKILL"), (139, "SIGSEGV"), (134, "SIGABRT")])
def test_128_and_the_signal_that_a_rank_died_of(code: int, signal: str) -> None:
    state = more(up(), exited(1, 5.0, code, signal), stop(5.1, "rank"), exited(0, 5.2, *TERMINATED))
    assert ("failed", code, 1) == end(state)


def test_1_for_an_exception_whose_process_had_to_be_killed() -> None:
    state = more(up(1), raised(0, 5.0), stop(5.1, "rank"), exited(0, 15.0, 137, "SIGKILL"))
    assert ("failed", 1, 0) == end(state)


def test_never_0_for_a_rank_that_raised() -> None:
    """A user's excepthook may end the process with `os._exit(0)`."""
    state = more(up(), raised(0, 5.0), stop(5.1, "rank"), exited(1, 5.2, *TERMINATED), exited(0, 5.3, 0))
    assert ("failed", 1, 0) == end(state)


@pytest.mark.parametrize("skew", [-0.05, 0.0, 0.05])
def test_never_0_for_a_rank_whose_clock_is_a_little_off(skew: float) -> None:
    state = more(up(), raised(0, 5.0 + skew))
    asked = ask(state, now=5.0)
    assert asked is not None
    state = more(state, asked, exited(1, 5.1, *TERMINATED), exited(0, 5.2, 1))
    assert ("failed", 1, 0) == end(state)


def test_never_0_when_ranks_were_stopped() -> None:
    state = more(up(), stop(5.0, "rank"), exited(0, 5.1, *TERMINATED), exited(1, 5.1, *TERMINATED))
    name, code, _ = end(state)
    assert "failed" == name
    assert code != 0


def test_70_when_rankdeck_itself_broke_whatever_the_ranks_did() -> None:
    assert ("failed", 70, None) == end(more(up(), exited(0, 5.0), exited(1, 5.0)), broken="disk full")
    assert ("failed", 70, None) == end(more(up(), exited(0, 5.0, 3)), broken="disk full")


def test_75_when_an_agent_went_away_under_its_ranks() -> None:
    state = more(up(), ev.AgentDeparted(time=5.0, agent=0, host="a", expected=False))
    assert ("lost", 75, None) == end(state)


def test_75_when_nothing_ever_started() -> None:
    assert ("lost", 75, None) == end(fold_all([]))
    assert ("lost", 75, None) == end(up())


def test_75_when_the_loss_of_an_agent_is_what_ended_the_others() -> None:
    state = more(up(agents=2), ev.AgentDeparted(time=5.0, agent=1, host="b", expected=False))
    asked = ask(state, now=5.0)
    assert asked is not None
    assert 5.0 == asked.grace_s
    state = more(state, asked, raised(0, 5.1), exited(0, 5.2, 1))
    assert ("lost", 75, None) == end(state)
    assert "the agent on b went away with 1 rank running" == verdict(state, now=9.0).why


def test_a_rank_that_failed_before_an_agent_was_lost_is_the_cause() -> None:
    state = more(up(agents=2), exited(0, 5.0, 9), stop(5.0, "rank"))
    state = more(state, ev.AgentDeparted(time=5.1, agent=1, host="b", expected=False))
    assert ("failed", 9, 0) == end(state)


@pytest.mark.parametrize("code", [130, 143])
def test_130_and_143_when_a_person_stopped_it(code: int) -> None:
    state = more(up(), stop(5.0, "person", code), exited(0, 5.1, *TERMINATED), exited(1, 5.2, 1))
    assert ("stopped", code, None) == end(state)


def test_143_when_a_person_gave_no_code() -> None:
    assert ("stopped", 143, None) == end(more(up(), stop(5.0, "person")))


def test_stopped_even_if_every_rank_then_ended_well() -> None:
    state = more(up(), stop(5.0, "person", 130), exited(0, 5.1), exited(1, 5.1))
    assert ("stopped", 130, None) == end(state)


def test_124_at_the_time_limit() -> None:
    state = up()
    assert ask(state, now=59.9, timeout_s=60.0) is None
    asked = ask(state, now=60.0, timeout_s=60.0)
    assert asked is not None
    assert ("limit", 124, 5.0) == (asked.by, asked.exit_code, asked.grace_s)
    assert ("failed", 124, None) == end(more(state, asked, exited(0, 61.0, *TERMINATED)))


def test_each_error_carries_its_exit_code() -> None:
    codes = {
        SpecError: 2,
        RunNotFound: 2,
        CannotPlace: 69,
        RecordError: 70,
        InternalError: 70,
        LauncherError: 70,
        AgentLost: 75,
        TimeLimit: 124,
        RunStopped: 143,
    }
    assert codes == {cls: cls("m").exit_code for cls in codes}
    assert 130 == RunStopped("m", exit_code=130).exit_code
    assert 9 == RankFailed("m", rank=0, host="a", exit_code=9).exit_code


# --- when to stop


def test_a_failure_stops_the_gang_once() -> None:
    state = more(up(), exited(1, 5.0, 7))
    asked = ask(state)
    assert asked is not None
    assert ("rank", "rank 1 failed") == (asked.by, asked.reason)
    assert ask(more(state, asked)) is None


def test_an_exception_stops_the_gang_before_its_process_is_dead() -> None:
    asked = ask(more(up(3), raised(2, 5.1), raised(1, 5.0)))
    assert asked is not None
    assert "rank 1 failed" == asked.reason


@pytest.mark.parametrize("limit", [None, 60.0])
def test_nothing_is_stopped_while_all_is_well(limit: float | None) -> None:
    assert ask(more(up(), exited(0, 5.0)), timeout_s=limit) is None


def test_nothing_is_stopped_after_the_end() -> None:
    ended = ev.RunEnded(time=9.0, state="failed", exit_code=1, why="w", rank=0)
    assert ask(more(up(), exited(0, 5.0, 1), ended), now=1e9, timeout_s=1.0) is None


def test_the_loss_of_the_last_agent_leaves_nothing_to_stop() -> None:
    assert ask(more(up(), ev.AgentDeparted(time=5.0, agent=0, host="a", expected=False))) is None


# --- in which words


def failed(*facts: ev.Event) -> str:
    first = more(up(), *facts).first_failure
    assert first is not None
    return describe_failure(first)


def test_a_failure_is_told_by_rank_host_and_cause() -> None:
    assert "rank 0 on a raised ValueError: no" == failed(raised(0, 5.0, "no\nmore"), exited(0, 5.1, 1))
    assert "rank 0 on a raised ValueError" == failed(raised(0, 5.0, " \n"), exited(0, 5.1, 1))
    assert "rank 0 on a was killed by SIGSEGV" == failed(exited(0, 5.0, 139, "SIGSEGV"))
    assert "rank 0 on a exited with code 3" == failed(exited(0, 5.0, 3))


def test_the_oom_killer_is_named_only_where_the_kernel_counted_it() -> None:
    assert "OOM" in failed(exited(0, 5.0, 137, "SIGKILL", oom=1))
    for oom in (0, None):
        assert "OOM" not in failed(exited(0, 5.0, 137, "SIGKILL", oom=oom))
    assert "OOM" not in failed(exited(0, 5.0, 139, "SIGSEGV", oom=1))


def test_an_end_after_the_value_was_returned_says_so() -> None:
    returned = ev.RankReturned(time=4.0, rank=0, type="int", size=1)
    assert "rank 0 on a exited with code 3, after it had returned its value" == failed(
        returned, exited(0, 5.0, 3)
    )


def test_the_code_of_a_rank_whose_end_is_unknown_is_1() -> None:
    assert 1 == exit_code_of(up().ranks[0])
