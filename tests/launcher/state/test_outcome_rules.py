"""What to do next, and how it ended: one test for each promise about exit codes."""

from __future__ import annotations

import pytest

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
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.outcome_rules import (
    describe_failure,
    describe_loss,
    exit_code_of,
    left_before,
    next_restart,
    next_stop,
    verdict,
)
from launcher.state.run_state import RunState


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


def end(state: RunState, failure: LauncherError | None = None) -> tuple[str, int, int | None]:
    ended = verdict(state, now=20.0, failure=failure)
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
    assert ("failed", 70, None) == end(more(up(), exited(0, 5.0), exited(1, 5.0)), InternalError("disk full"))
    assert ("failed", 70, None) == end(more(up(), exited(0, 5.0, 3)), InternalError("disk full"))


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


# --- losses in Spark


def joined(*agents: int, attempt: int = 0) -> list[ev.Event]:
    return [ev.AgentJoined(time=0.5, attempt=attempt, agent=a, host="abcdefgh"[a], pid=1) for a in agents]


def spark_up(n: int = 2) -> RunState:
    """Every rank on a host and in a task of its own."""
    return more(up(n, agents=n), *joined(*range(n)))


def task_lost(task: int, time: float = 5.0, *, by_agent: bool = True, reason: str = "") -> ev.TaskLost:
    words = reason or ("Spark ended the task" if by_agent else "Python worker exited unexpectedly (crashed)")
    return ev.TaskLost(time=time, task=task, reason=words, agent_time=time if by_agent else None)


EXECUTOR = ev.ExecutorLost(
    time=5.2, executor="3", host="b", task=1,
    reason="ExecutorLostFailure (executor 3 exited) Reason: Command exited with code 137\nDriver stacktrace:",
)  # fmt: skip
CANCELLED = ev.JobCancelled(time=5.0, reason="Job 4 cancelled\nas part of group 7")


def test_75_when_an_executor_was_lost_with_spark_s_own_words() -> None:
    state = more(spark_up(), task_lost(1))
    asked = ask(state, now=5.0)
    assert asked is not None
    assert "loss" == asked.by
    state = more(state, asked, exited(1, 5.1, *TERMINATED), EXECUTOR, raised(0, 5.3), exited(0, 5.4, 1))
    assert ("lost", 75, None) == end(state)
    assert "executor 3 on b was lost: Command exited with code 137" == verdict(state, now=9.0).why


def test_75_when_a_task_was_lost_with_the_words_of_whoever_knows_most() -> None:
    """Spark ends every task of a gang that lost one, so the others' agents tell of losses too."""
    state = more(spark_up(), task_lost(1), ask(more(spark_up(), task_lost(1))) or EXECUTOR, task_lost(0, 7.0))
    assert "Spark task 1 on b ended under rank 1: Spark ended the task" == verdict(state, now=9.0).why
    state = more(state, task_lost(1, 7.5, by_agent=False))
    assert ("lost", 75, None) == end(state)
    assert "Spark task 1 on b ended under rank 1: Python worker exited unexpectedly (crashed)" == (
        verdict(state, now=9.0).why
    )


def test_a_loss_before_any_rank_has_a_place() -> None:
    state = fold_all([ev.ExecutorLost(time=1.0, reason="")])
    assert ("lost", 75, None) == end(state)
    assert "an executor was lost" == describe_loss(state)
    asked = ask(state)
    assert asked is not None
    assert ("loss", "an executor was lost") == (asked.by, asked.reason)


def test_a_rank_that_failed_before_its_executor_was_lost_is_the_cause() -> None:
    state = more(spark_up(), exited(0, 4.0, 9))
    asked = ask(state, now=4.1)
    assert asked is not None
    assert ("failed", 9, 0) == end(more(state, asked, EXECUTOR, task_lost(1)))


def test_ranks_that_were_told_to_end_for_a_loss_have_not_succeeded_if_they_end_well() -> None:
    state = more(spark_up(), task_lost(1))
    state = more(state, ask(state, now=5.0) or EXECUTOR, exited(0, 5.2), exited(1, 5.2))
    assert ("lost", 75, None) == end(state)


def test_0_when_the_executor_goes_after_every_rank_has_ended_well() -> None:
    state = more(spark_up(), exited(0, 4.0), exited(1, 4.5), EXECUTOR, task_lost(0), CANCELLED)
    assert ask(state) is None
    assert ("succeeded", 0, None) == end(state)


@pytest.mark.parametrize("loss_first", [False, True])
def test_143_when_somebody_cancelled_the_job_in_spark(loss_first: bool) -> None:
    state = more(spark_up(), *([task_lost(0, 5.0), task_lost(1, 5.0)] if loss_first else [CANCELLED]))
    asked = ask(state, now=5.1)
    assert asked is not None
    assert ("loss" if loss_first else "spark") == asked.by
    assert (None if loss_first else 143) == asked.exit_code
    ends = [exited(0, 5.3, *TERMINATED), exited(1, 5.3, *TERMINATED)]
    state = more(state, asked, *([CANCELLED] if loss_first else []), *ends)
    assert ("stopped", 143, None) == end(state)
    assert "stopped: cancelled in Spark: Job 4 cancelled" == verdict(state, now=9.0).why


def test_a_failed_rank_is_told_before_the_cancellation_that_followed() -> None:
    state = more(spark_up(), exited(0, 4.0, 9), stop(4.0, "rank"), CANCELLED, exited(1, 5.5, *TERMINATED))
    assert ("failed", 9, 0) == end(state)


def test_a_start_that_the_infrastructure_broke_is_a_loss() -> None:
    ended = verdict(up(), now=9.0, failure=AgentLost("the session is gone"))
    assert ("lost", 75) == (ended.state, ended.exit_code)
    ended = verdict(up(), now=9.0, failure=CannotPlace("no slots"))
    assert ("failed", 69) == (ended.state, ended.exit_code)


def test_a_monstrous_reason_is_cut_to_a_sentence() -> None:
    state = more(spark_up(), task_lost(1, reason="\n\n" + "x" * 5000 + "\nand more"))
    assert 400 > len(describe_loss(state))
    assert "\n" not in describe_loss(state)


# --- when to start again


def again(state: RunState, *, most: int = 3, now: float = 10.0, timeout_s: float | None = None) -> object:
    restart = next_restart(state, now=now, max_restarts=most, timeout_s=timeout_s)
    return None if restart is None else (restart.attempt, restart.in_place, restart.reason)


def failed_once(n: int = 2) -> RunState:
    state = more(spark_up(n), exited(1, 5.0, 7), stop(5.0, "rank"))
    return more(state, *(exited(r, 5.2, *TERMINATED) for r in range(n) if r != 1))


def placed(attempt: int, n: int = 2) -> ev.GangPlaced:
    ranks = tuple(Assignment(r, n, r, n, 0, 1, agent=r, host="abcdefgh"[r]) for r in range(n))
    return ev.GangPlaced(time=11.0, attempt=attempt, ranks=ranks)


def test_a_failed_gang_is_started_again_with_the_agents_that_are_there() -> None:
    assert (1, True, "rank 1 on b exited with code 7") == again(failed_once())
    assert again(failed_once(), most=0) is None


def test_a_failed_gang_that_has_lost_an_agent_needs_new_ones() -> None:
    departed = ev.AgentDeparted(time=6.0, agent=0, host="a", expected=False)
    for gone in (departed, task_lost(0, 6.0), EXECUTOR):
        assert (1, False, "rank 1 on b exited with code 7") == again(more(failed_once(), gone))


def test_a_gang_that_lost_a_part_is_started_again_with_new_agents() -> None:
    state = more(spark_up(), task_lost(1))
    state = more(state, ask(state) or EXECUTOR, exited(0, 11.0), exited(1, 11.0, *TERMINATED), EXECUTOR)
    assert (1, False, "executor 3 on b was lost: Command exited with code 137") == again(state)
    departed = more(up(), ev.AgentDeparted(time=5.0, agent=0, host="a", expected=False))
    assert (1, False, "the agent on a went away with 2 ranks running") == again(departed)


def test_a_loss_before_any_rank_had_a_place_is_tried_again() -> None:
    assert (1, False, "an executor was lost") == again(fold_all([ev.ExecutorLost(time=1.0, reason="")]))


def test_nothing_is_started_again_that_nothing_happened_to() -> None:
    assert again(more(up(), exited(0, 5.0), exited(1, 5.0))) is None
    assert again(more(spark_up(), exited(0, 5.0), exited(1, 5.0), EXECUTOR)) is None
    assert again(fold_all([])) is None
    assert again(up()) is None


@pytest.mark.parametrize("by", ["person", "limit", "spark"])
def test_a_run_that_was_ended_is_not_started_again(by: str) -> None:
    assert again(more(spark_up(), stop(5.0, by), exited(0, 5.1, *TERMINATED))) is None
    assert again(more(failed_once(), stop(5.5, by))) is None


def test_a_job_that_was_cancelled_in_spark_is_not_started_again() -> None:
    assert again(more(spark_up(), task_lost(0), CANCELLED)) is None


def test_the_time_limit_counts_over_all_attempts() -> None:
    assert again(failed_once(), now=59.0, timeout_s=60.0) is not None
    assert again(failed_once(), now=60.0, timeout_s=60.0) is None
    restart = next_restart(failed_once(), now=59.0, max_restarts=1)
    assert restart is not None
    asked = ask(more(failed_once(), restart, placed(1)), now=60.0, timeout_s=60.0)
    assert asked is not None
    assert ("limit", 124, 1) == (asked.by, asked.exit_code, asked.attempt)


def test_restarts_are_counted_and_told_when_they_are_used_up() -> None:
    state = failed_once()
    for attempt in (1, 2):
        restart = next_restart(state, now=10.0, max_restarts=2)
        assert restart is not None
        assert attempt == restart.attempt
        failure = ev.RankExited(time=12.0, attempt=attempt, rank=0, exit_code=3)
        state = more(state, restart, placed(attempt), failure)
        asked = ask(state, now=12.0)
        assert asked is not None
        assert attempt == asked.attempt
        ending = ev.RankExited(time=12.5, attempt=attempt, rank=1, exit_code=143, signal="SIGTERM")
        state = more(state, asked, ending)
    assert again(state, most=2) is None
    ended = verdict(state, now=20.0)
    assert ("failed", 3, 0, 2) == (ended.state, ended.exit_code, ended.rank, ended.attempt)
    assert "rank 0 on a exited with code 3, after 2 restarts" == ended.why


def test_a_run_that_was_started_again_may_succeed() -> None:
    restart = next_restart(failed_once(), now=10.0, max_restarts=1)
    assert restart is not None
    ends = [ev.RankExited(time=12.0, attempt=1, rank=r, exit_code=0) for r in (0, 1)]
    state = more(failed_once(), restart, placed(1), *ends)
    assert again(state) is None
    assert "every rank exited with 0, after 1 restart" == verdict(state, now=20.0).why
    assert ("succeeded", 0, None) == end(state)


def test_a_restart_that_finds_no_slots_says_that_it_was_one() -> None:
    restart = next_restart(more(spark_up(), task_lost(0)), now=10.0, max_restarts=1)
    assert restart is not None
    state = more(spark_up(), task_lost(0), restart)
    ended = verdict(state, now=20.0, failure=CannotPlace("1 of 2 slots"))
    assert ("failed", 69, "1 of 2 slots, after 1 restart") == (ended.state, ended.exit_code, ended.why)


CLOSED = "[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:48285"


def raising(rank: int, time: float, message: str = "no") -> ev.RankRaising:
    return ev.RankRaising(time=time, rank=rank, kind="ValueError", message=message, traceback="tb")


def held(state: RunState, doubted_s: float) -> ev.StopRequested | None:
    return next_stop(state, now=10.0, timeout_s=None, grace_s=5.0, doubted_s=doubted_s)


def test_peers_are_kept_for_two_seconds_after_a_failure_that_may_follow_from_theirs() -> None:
    state = more(up(), raised(0, 5.0, CLOSED))

    assert state.undecided
    assert held(state, 1.9) is None
    asked = held(state, 2.0)
    assert asked is not None
    assert "rank 0 failed" == asked.reason


def test_any_other_failure_is_waited_for_no_longer() -> None:
    assert held(more(up(), raised(0, 5.0)), 0.0) is not None


@pytest.mark.parametrize("cause", [exited(1, 5.3, 137, "SIGKILL"), raised(1, 5.3), exited(1, 5.3, 3)])
def test_the_cause_ends_the_wait_and_is_blamed_however_late_it_is_heard_of(cause: ev.Event) -> None:
    state = more(up(), raised(0, 5.0, CLOSED), exited(0, 5.1, 1), cause)

    asked = held(state, 0.0)
    assert asked is not None
    assert "rank 1 failed" == asked.reason


def test_a_wait_ends_when_nobody_is_left_who_could_be_the_cause() -> None:
    state = more(up(), raised(0, 5.0, CLOSED), raised(1, 5.1, CLOSED))

    assert not state.undecided
    asked = held(state, 0.0)
    assert asked is not None
    assert "rank 0 failed" == asked.reason


def test_what_was_seen_on_its_way_is_blamed_where_its_rank_had_to_be_ended() -> None:
    state = more(up(), raising(1, 4.9), raised(0, 5.0, CLOSED), exited(0, 5.1, 1))
    assert held(state, 1.0) is None
    state = more(state, stop(7.0, "rank"), exited(1, 7.1, *TERMINATED))

    assert ("failed", 1, 1) == end(state)
    assert "raised ValueError: no" in verdict(state, now=9.0).why


def test_what_was_seen_on_its_way_and_caught_is_nobodys_failure() -> None:
    state = more(up(), raising(1, 4.9), ev.RankRecovered(time=5.0, rank=1), raised(0, 5.1, CLOSED))
    state = more(state, exited(0, 5.2, 1), stop(7.0, "rank"), exited(1, 7.1, *TERMINATED))

    assert ("failed", 1, 0) == end(state)


def test_what_was_seen_on_its_way_counts_for_nothing_beside_a_failure_of_its_own() -> None:
    state = more(up(), raising(1, 4.0), raised(0, 5.0), stop(5.1, "rank"), exited(1, 5.2, *TERMINATED))

    assert ("failed", 1, 0) == end(more(state, exited(0, 5.3, 1)))


def test_what_was_seen_on_its_way_counts_for_nothing_in_a_rank_that_ended_well() -> None:
    assert ("succeeded", 0, None) == end(more(up(), raising(1, 4.0), exited(0, 5.0), exited(1, 5.0)))


def test_an_exception_that_was_on_its_way_before_the_stop_is_no_consequence() -> None:
    state = more(up(), raising(1, 4.9), raised(0, 5.0, CLOSED), stop(7.0, "rank"), raised(1, 7.5))

    assert ("failed", 1, 1) == end(more(state, exited(1, 7.6, 1), exited(0, 7.6, 1)))


def test_a_lost_host_is_the_cause_of_what_its_peers_raise() -> None:
    state = more(up(agents=2), raised(0, 5.0, CLOSED))
    state = more(state, ev.AgentDeparted(time=5.5, agent=1, host="b", expected=False, reason="gone"))

    asked = held(state, 0.5)
    assert asked is not None
    assert "loss" == asked.by
    assert ("lost", 75, None) == end(more(state, asked, exited(0, 10.5, 1)))


def test_ranks_that_had_left_are_named() -> None:
    where = 'File "/torch/distributed/distributed_c10d.py", line 9, in all_reduce\n'
    failed = ev.RankRaised(time=5.0, rank=1, kind="RuntimeError", message=CLOSED, traceback=where)
    state = more(up(3), failed, exited(0, 5.05), exited(1, 5.1, 1), stop(7.0, "rank"))
    state = more(state, exited(2, 7.1, *TERMINATED))

    assert "rank 0 had left with 0 before rank 1 failed in all_reduce" == left_before(state, state.ranks[1])
    assert verdict(state, now=9.0).why.startswith(
        "rank 0 had left with 0 before rank 1 failed in all_reduce: "
    )
    assert "" == left_before(state, more(up(), raised(0, 5.0)).ranks[0])


def test_a_function_that_never_returned_has_failed() -> None:
    state = more(up(), ev.RankExited(time=5.0, rank=1, exit_code=0, unreturned=True), stop(5.1, "rank"))
    state = more(state, exited(0, 5.2, *TERMINATED))

    assert ("failed", 1, 1) == end(state)
    assert "rank 1 on a never returned" in verdict(state, now=9.0).why


def test_a_function_that_left_has_succeeded_and_its_value_is_said_to_be_missing() -> None:
    state = more(up(), ev.RankExited(time=5.0, rank=1, exit_code=0, left=True), exited(0, 5.2))

    assert ("succeeded", 0, None) == end(state)
    assert verdict(state, now=9.0).why.endswith(
        "rank 1 ended by sys.exit before the function returned, and has no value"
    )


@pytest.mark.parametrize("by", ["person", "limit"])
def test_a_stop_that_comes_when_all_have_ended_well_stops_nothing(by: str) -> None:
    done = more(up(), exited(0, 5.0), exited(1, 6.0))

    assert ("succeeded", 0, None) == end(more(done, stop(6.5, by, 143)))
    assert ("stopped" if by == "person" else "failed", 143, None) == end(
        more(up(), exited(0, 5.0), stop(5.5, by, 143), exited(1, 6.0))
    )


def test_a_connect_server_that_is_gone_is_the_cause_and_nothing_is_started_again() -> None:
    """Agents tell of their tasks' ends first; a new stage would need the server too."""
    gone = ev.ServerLost(time=6.0, server="sc://h:15002")
    state = more(up(2), task_lost(0), gone)
    assert "the Connect server sc://h:15002 is gone" == describe_loss(state)
    assert 75 == end(state)[1]
    assert next_restart(state, now=9.0, max_restarts=3) is None
