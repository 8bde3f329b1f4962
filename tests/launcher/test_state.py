"""Folding facts: who failed first, who was only told to end, and what must change nothing."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher import events as ev
from launcher.fold import fold, fold_all
from launcher.spec import Assignment, Device
from launcher.state import Phase, RankPhase, RunState

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect
SUBMITTED = ev.RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=2)


def placed(n: int = 2, *, hosts: str = "aabb") -> ev.GangPlaced:
    ranks = tuple(
        Assignment(r, n, r, n, 0, 1, agent=ord(hosts[r]) - ord("a"), host=hosts[r]) for r in range(n)
    )
    return ev.GangPlaced(time=2.0, ranks=ranks)


def started(n: int = 2) -> list[ev.Event]:
    up: list[ev.Event] = [SUBMITTED, placed(n)]
    for rank in range(n):
        up += [ev.RankStarted(time=3.0, rank=rank, pid=100 + rank), ev.RankEntered(time=4.0, rank=rank)]
    return up


def raised(rank: int, time: float) -> ev.RankRaised:
    return ev.RankRaised(time=time, rank=rank, kind="ValueError", message="no", traceback="tb")


def exited(rank: int, time: float, code: int = 1, signal: str | None = None) -> ev.RankExited:
    return ev.RankExited(time=time, rank=rank, exit_code=code, signal=signal)


def stop(time: float, by: str = "rank", grace_s: float = 10.0) -> ev.StopRequested:
    return ev.StopRequested(time=time, by=by, reason="r", grace_s=grace_s)


def phases(state: RunState) -> list[str]:
    return [r.phase.value for r in state.ranks]


def first(state: RunState) -> int | None:
    return state.first_failure.rank if state.first_failure else None


# --- an ordinary life


def test_a_run_passes_through_its_phases_and_says_when() -> None:
    facts = [
        SUBMITTED,
        ev.SlotsAwaited(time=1.5, have=1, need=2),
        *started()[1:],
        exited(0, 5.0, 0),
        exited(1, 6.0, 0),
        ev.RunEnded(time=7.0, state="succeeded", exit_code=0, why="every rank exited with 0"),
    ]
    state = fold_all(facts, run="r")
    expected = [("submitted", 1.0), ("waiting", 1.5), ("starting", 2.0), ("running", 4.0), ("succeeded", 7.0)]
    assert expected == [(p.value, t) for p, t in state.since]
    assert (1.0, 7.0, 0) == (state.started, state.ended, state.exit_code)
    assert state.all_ended


def test_a_gang_that_is_not_placed_has_not_ended() -> None:
    assert not fold_all([SUBMITTED]).all_ended


def test_a_state_is_never_changed_in_place() -> None:
    before = fold_all(started())
    copy = dataclasses.replace(before)
    fold(before, ev.RankReported(time=5.0, rank=0, step=1, metrics={"loss": 1.0}))
    assert copy == before


# --- first cause and victims


def test_the_first_exception_is_the_cause_however_late_its_process_dies() -> None:
    facts = [*started(), raised(0, 5.0), raised(1, 5.2), exited(1, 5.3), exited(0, 9.0)]
    assert 0 == first(fold_all(facts))


def test_a_crash_without_an_exception_comes_before_the_victims_exceptions() -> None:
    facts = [*started(), exited(1, 5.0, 139, "SIGSEGV"), raised(0, 5.1), exited(0, 5.2)]
    assert 1 == first(fold_all(facts))


@pytest.mark.parametrize("order", list(itertools.permutations(range(4))))
def test_the_cause_does_not_depend_on_which_agent_is_heard_first(order: tuple[int, ...]) -> None:
    """Facts of one rank stay in order; those of different agents mix in any way."""
    lanes: list[list[ev.Event]] = [
        [raised(0, 5.1), exited(0, 5.3)],
        [exited(1, 5.0, 137, "SIGKILL")],
        [raised(2, 5.2), exited(2, 5.4)],
        [exited(3, 5.5)],
    ]
    facts = [fact for lane in order for fact in lanes[lane]]
    assert 1 == first(fold_all([*started(4), *facts]))


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGSEGV", None])
def test_a_crash_that_is_told_after_the_stop_but_happened_before_is_the_cause(signal: str | None) -> None:
    """The kernel kills rank 1 on one host; its victim on another is heard first and stops the gang."""
    facts = [
        *started(),
        raised(0, 5.1),
        stop(5.15),
        exited(1, 5.0, 137 if signal else 3, signal),
        exited(0, 5.4),
    ]
    state = fold_all(facts)
    assert (["failed", "failed"], 1) == (phases(state), first(state))


def test_a_rank_that_was_told_to_end_did_not_fail() -> None:
    facts = [*started(), exited(0, 5.0), stop(5.1), exited(1, 5.2, 143, "SIGTERM")]
    state = fold_all(facts)
    assert (["failed", "stopped"], 0) == (phases(state), first(state))


def test_a_clock_that_is_a_little_ahead_makes_no_failure_of_a_stopped_rank() -> None:
    state = fold_all([*started(), stop(5.1, "person"), exited(1, 5.09, 143, "SIGTERM")])
    assert RankPhase.STOPPED is state.ranks[1].phase


def test_a_clock_that_is_a_little_behind_makes_no_stopped_rank_of_the_cause() -> None:
    """The stop follows the exception within a millisecond; clocks of two hosts agree no better than that."""
    state = fold_all([*started(), raised(0, 5.02), stop(5.0), exited(1, 5.1, 143, "SIGTERM"), exited(0, 5.2)])
    assert (["failed", "stopped"], 0) == (phases(state), first(state))


def test_an_exception_that_the_stop_caused_is_no_failure() -> None:
    state = fold_all([*started(), stop(5.0, "person"), raised(0, 5.1), exited(0, 5.2)])
    assert RankPhase.STOPPED is state.ranks[0].phase


def test_a_rank_that_raised_has_failed_whatever_its_exit_code_says() -> None:
    state = fold_all([*started(), raised(0, 5.0), exited(0, 5.1, 0)])
    assert (RankPhase.FAILED, 0) == (state.ranks[0].phase, first(state))


def test_a_rank_that_ends_well_while_the_gang_is_stopped_has_succeeded() -> None:
    state = fold_all([*started(), stop(5.0, "person"), exited(0, 5.1, 0)])
    assert RankPhase.SUCCEEDED is state.ranks[0].phase


def test_of_equal_times_the_lowest_rank_is_blamed() -> None:
    assert 0 == first(fold_all([*started(), exited(1, 5.0), exited(0, 5.0)]))


def test_only_the_first_stop_counts() -> None:
    state = fold_all([*started(), stop(5.0, "person"), stop(6.0, "limit")])
    assert state.stop == stop(5.0, "person")
    assert 1 == [p for p, _ in state.since].count(Phase.STOPPING)


def test_a_lost_agent_takes_only_its_own_living_ranks_with_it() -> None:
    departed = ev.AgentDeparted(time=6.0, agent=0, host="a", expected=False)
    state = fold_all([*started(3), exited(0, 5.0, 0), departed])
    assert ["succeeded", "lost", "running"] == phases(state)
    assert not state.all_ended
    assert first(state) is None


# --- what must change nothing


@pytest.mark.parametrize(
    "fact",
    [
        ev.RankStarted(time=5.0, rank=9, pid=1),
        ev.RankEntered(time=5.0, rank=9),
        ev.RankReported(time=5.0, rank=9, step=1),
        raised(9, 5.0),
        ev.RankReturned(time=5.0, rank=9, type="int", size=1),
        exited(9, 5.0),
        ev.RankEntered(time=5.0, rank=-1),
        exited(-1, 5.0),
        raised(-2, 5.0),
        ev.RankReported(time=5.0, rank=-1, step=1),
        ev.Sampled(time=5.0, agent=7, host="x", ranks=(ev.RankSample(rank=9, cpu=1.0),)),
        ev.Unrecognised(time=5.0, name="rank_levitated", data={}),
    ],
    ids=lambda fact: f"{fact.tag}-{getattr(fact, 'rank', '')}",
)
def test_ranks_that_are_not_there_and_unknown_facts_are_ignored(fact: ev.Event) -> None:
    state = fold_all(started())
    assert state == fold(state, fact)


def test_facts_before_the_gang_is_placed_are_ignored() -> None:
    state = fold_all([SUBMITTED])
    for fact in (exited(0, 2.0), raised(0, 2.0), ev.RankReported(time=2.0, rank=0, step=1)):
        assert state == fold(state, fact)


def test_nothing_revives_a_run_that_has_ended() -> None:
    over = fold_all([*started(), ev.RunEnded(time=9.0, state="failed", exit_code=1, why="w", rank=0)])
    for fact in (stop(10.0), placed(), ev.SlotsAwaited(time=10.0, have=0, need=2), SUBMITTED):
        assert Phase.FAILED is fold(over, fact).phase


def test_an_end_that_a_newer_version_invented_is_final_all_the_same() -> None:
    state = fold_all([*started(), ev.RunEnded(time=9.0, state="evaporated", exit_code=3, why="heat")])
    assert state.phase.final
    assert (3, "heat") == (state.exit_code, state.why)


# --- telemetry


def test_reports_are_merged_and_a_report_without_a_step_keeps_the_last() -> None:
    state = fold_all(
        [
            *started(),
            ev.RankReported(time=5.0, rank=0, step=3, metrics={"loss": 2.0, "lr": 0.1}),
            ev.RankReported(time=6.0, rank=0, metrics={"loss": 1.0}),
        ]
    )
    rank = state.ranks[0]
    assert (3, {"loss": 1.0, "lr": 0.1}, 6.0) == (rank.step, rank.metrics, rank.reported_at)


def test_a_sample_reaches_its_host_and_its_ranks() -> None:
    gpu = ev.DeviceSample(uuid="g", util=50.0)
    facts = [
        *started(),
        ev.AgentJoined(time=2.5, agent=0, host="a", pid=1, devices=(Device(0, "g"),)),
        ev.Sampled(time=5.0, agent=0, host="a", devices=(gpu,), ranks=(ev.RankSample(rank=1, rss=7),)),
    ]
    state = fold_all(facts)
    assert ({"g": gpu}, 5.0) == (state.hosts[0].devices, state.hosts[0].sampled_at)
    assert [None, 7] == [r.sample.rss if r.sample else None for r in state.ranks]


def test_a_rank_that_has_ended_keeps_its_last_living_sample() -> None:
    alive = ev.Sampled(time=5.0, agent=0, host="a", ranks=(ev.RankSample(rank=0, rss=7),))
    dead = ev.Sampled(time=6.0, agent=0, host="a", ranks=(ev.RankSample(rank=0),))
    state = fold_all([*started(), alive, exited(0, 5.5, 0), dead])
    assert (ev.RankSample(rank=0, rss=7), 5.0) == (state.ranks[0].sample, state.ranks[0].sampled_at)


LANES: list[list[ev.Event]] = [
    [ev.RankStarted(time=3.0, rank=0, pid=1), ev.RankEntered(time=4.0, rank=0), exited(0, 9.0, 0)],
    [
        ev.RankStarted(time=3.0, rank=1, pid=2),
        ev.RankEntered(time=4.0, rank=1),
        raised(1, 6.0),
        exited(1, 8.0),
    ],
    [ev.RankReported(time=5.0, rank=0, step=1), ev.RankReported(time=6.0, rank=0, step=2)],
    [ev.AgentJoined(time=2.5, agent=0, host="a", pid=1), ev.CleanupProven(time=9.5, agent=0, host="a")],
]


@CALM
@given(st.permutations([i for i, lane in enumerate(LANES) for _ in lane]))
def test_facts_of_different_ranks_may_mix_in_any_way(turns: list[int]) -> None:
    def view(facts: list[ev.Event]) -> Any:
        state = fold_all([SUBMITTED, placed(), *facts])
        return state.phase, state.ranks, state.hosts, first(state)

    lanes = [iter(lane) for lane in LANES]
    mixed = [next(lanes[i]) for i in turns]
    assert view([fact for lane in LANES for fact in lane]) == view(mixed)
