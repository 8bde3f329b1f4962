"""Folding facts: who failed first, who was only told to end, and what must change nothing."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase, RunState

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
    ],
    ids=lambda fact: f"{fact.tag}-{getattr(fact, 'rank', '')}",
)
def test_ranks_that_are_not_there_are_ignored(fact: ev.Event) -> None:
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


def test_of_a_ranks_messages_the_last_is_kept() -> None:
    messages = [ev.MessageLogged(time=5.0, rank=0, text=text) for text in ("first", "last")]
    state = fold_all([*started(), *messages, ev.MessageLogged(time=5.0, rank=9, text="nobody's")])
    assert "last" == state.ranks[0].message
    assert {""} == {rank.message for rank in state.ranks[1:]}


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


# --- attempts


def joined(agent: int, attempt: int = 0) -> ev.AgentJoined:
    return ev.AgentJoined(time=2.0, attempt=attempt, agent=agent, host="ab"[agent], pid=7 + attempt)


def restart(attempt: int = 1, *, in_place: bool = True, time: float = 10.0) -> ev.GangRestarted:
    return ev.GangRestarted(time=time, attempt=attempt, reason="rank 1 failed", in_place=in_place)


def again(facts: list[ev.Event], attempt: int = 1, *, later: float = 10.0) -> list[ev.Event]:
    """The same facts in a later attempt."""
    return [dataclasses.replace(fact, attempt=attempt, time=fact.time + later) for fact in facts]


SPLIT = placed(2, hosts="ab")
FAILED_ONCE: list[ev.Event] = [
    SUBMITTED, joined(0), joined(1), SPLIT,
    ev.RankStarted(time=3.0, rank=0, pid=1), ev.RankStarted(time=3.0, rank=1, pid=2),
    ev.RankEntered(time=4.0, rank=0), ev.RankReported(time=4.5, rank=0, step=7, metrics={"loss": 1.0}),
    exited(1, 5.0, 7), stop(5.0), exited(0, 5.1, 143, "SIGTERM"),
    ev.CleanupProven(time=5.2, agent=0, host="a"),
]  # fmt: skip


def test_a_restart_in_place_keeps_the_agents_and_forgets_what_became_of_the_ranks() -> None:
    state = fold_all([*FAILED_ONCE, restart()])
    assert (1, Phase.STARTING, 0, None, None) == (
        state.attempt, state.phase, len(state.ranks), state.stop, state.first_failure,
    )  # fmt: skip
    assert {0: (True, None), 1: (True, None)} == {a: (h.present, h.cleanup) for a, h in state.hosts.items()}
    assert [restart()] == list(state.restarts)

    placed_again = fold(state, again([SPLIT])[0])
    assert ["placed", "placed"] == phases(placed_again)
    assert [(None, {}), (None, {})] == [(r.step, r.metrics) for r in placed_again.ranks]
    expected = [("starting", 10.0), ("running", 14.0)]
    running = fold(placed_again, ev.RankEntered(time=14.0, attempt=1, rank=0))
    assert expected == [(p.value, t) for p, t in running.attempt_since]
    assert [("submitted", 1.0), ("starting", 2.0), ("running", 4.0), ("stopping", 5.0), *expected] == [
        (p.value, t) for p, t in running.since
    ]


def test_a_restart_says_so_even_if_the_gang_never_came_further_than_starting() -> None:
    departed = ev.AgentDeparted(time=3.0, agent=0, host="a", expected=False)
    state = fold_all([SUBMITTED, joined(0), placed(1), departed, restart(in_place=False)])
    assert ((Phase.STARTING, 10.0),) == state.attempt_since


def test_a_new_stage_waits_for_slots_again_and_may_be_smaller() -> None:
    state = fold_all(
        [
            *FAILED_ONCE,
            restart(in_place=False),
            ev.SlotsAwaited(time=11.0, attempt=1, have=1, need=2, limit_s=60.0),
        ]
    )
    assert (Phase.WAITING, 2) == (state.phase, state.num_processes)
    submitted = fold(state, ev.StageSubmitted(time=12.0, attempt=1, tasks=1))
    assert Phase.STARTING is submitted.phase
    smaller = fold(submitted, again([placed(1)])[0])
    assert (1, 2, None) == (smaller.num_processes, smaller.requested, smaller.waiting)
    largest = fold(smaller, restart(2, in_place=False, time=20.0))
    assert 2 == largest.num_processes


def test_slots_that_are_told_of_late_do_not_make_a_gang_wait() -> None:
    state = fold_all(started())
    for late in (ev.SlotsAwaited(time=5.0, have=2, need=2), ev.StageSubmitted(time=5.0, tasks=2)):
        assert state == fold(state, late)


@pytest.mark.parametrize("late", [False, True])
def test_agents_of_an_old_stage_are_forgotten_when_they_leave(late: bool) -> None:
    left: list[ev.Event] = [ev.AgentDeparted(time=6.0, agent=a, host="x", expected=True) for a in (0, 1)]
    between: list[ev.Event] = [restart(in_place=False)]
    state = fold_all([*FAILED_ONCE, *(between + left if late else left + between)])
    assert {} == state.hosts


def test_an_old_agent_that_leaves_late_does_not_take_the_new_one_of_its_number_along() -> None:
    facts = [*FAILED_ONCE, restart(in_place=False), *again([joined(0, 1), joined(1, 1), SPLIT])]
    state = fold_all(facts)
    late = ev.AgentDeparted(time=30.0, agent=0, host="a", expected=False)
    assert state == fold(state, late)
    assert (1, 8, None) == (state.hosts[0].attempt, state.hosts[0].pid, state.hosts[0].cleanup)


@pytest.mark.parametrize("by", ["person", "limit", "spark"])
def test_who_ends_a_run_ends_it_in_any_attempt(by: str) -> None:
    state = fold_all([*FAILED_ONCE, restart(), *again([SPLIT]), stop(15.0, by)])
    assert Phase.STOPPING is state.phase
    assert state.stop == state.final_stop == stop(15.0, by)


def test_a_person_who_comes_after_a_failure_is_heard_too() -> None:
    state = fold_all([*FAILED_ONCE, stop(5.3, "person")])
    assert (stop(5.0), stop(5.3, "person")) == (state.stop, state.final_stop)


@pytest.mark.parametrize("fact", [restart(0), restart(1), restart(1, in_place=False)])
def test_an_attempt_begins_once(fact: ev.GangRestarted) -> None:
    state = fold_all([*FAILED_ONCE, restart(), *again([SPLIT])])
    assert state == fold(state, fact)


def test_nothing_is_started_again_after_the_end() -> None:
    over = fold_all([*FAILED_ONCE, ev.RunEnded(time=9.0, state="failed", exit_code=7, why="w", rank=1)])
    assert over == fold(over, restart())


LATE: list[ev.Event] = [
    *FAILED_ONCE[1:],
    *started(2)[2:],
    raised(1, 4.0),
    exited(0, 4.0, 137, "SIGKILL"),
    stop(4.0, "loss"),
    ev.SlotsAwaited(time=4.0, have=0, need=2),
    ev.StageSubmitted(time=4.0, tasks=2),
    ev.AgentDeparted(time=4.0, agent=1, host="b", expected=False),
    ev.RankReturned(time=4.0, rank=0, type="int", size=1),
    ev.Sampled(time=4.0, agent=0, host="a", ranks=(ev.RankSample(rank=0, cpu=1.0),)),
    ev.ExecutorLost(time=4.0, reason="gone", task=0),
    ev.TaskLost(time=4.0, reason="gone", task=1),
    ev.JobCancelled(time=4.0, reason="cancelled"),
]


@CALM
@given(st.data(), st.booleans())
def test_facts_of_an_attempt_that_is_over_change_nothing(data: st.DataObject, in_place: bool) -> None:
    anew: list[ev.Event] = [*([] if in_place else [joined(0), joined(1)]), *started()[1:], exited(0, 9.0, 0)]
    facts = [*FAILED_ONCE, restart(in_place=in_place), *again(anew)]
    at = len(FAILED_ONCE) + 1
    untouched = fold_all(facts)
    mixed = list(facts)
    for fact in data.draw(st.lists(st.sampled_from(LATE), max_size=8)):
        mixed.insert(data.draw(st.integers(at, len(mixed))), fact)
    assert untouched == fold_all(mixed)


def life(agent: int, *, code: int) -> list[ev.Event]:
    """What one agent tells of an attempt with one rank."""
    return [
        joined(agent),
        ev.RankStarted(time=3.0, rank=agent, pid=9 + agent),
        ev.RankEntered(time=4.0, rank=agent),
        ev.RankReported(time=4.5, rank=agent, step=3, metrics={"loss": 0.5}),
        ev.Sampled(time=4.6, agent=agent, host="ab"[agent], ranks=(ev.RankSample(rank=agent, cpu=3.0),)),
        *([raised(agent, 5.0 + agent / 10)] if code else []),
        exited(agent, 5.5 + agent / 10, code),
        ev.CleanupProven(time=6.0, agent=agent, host="ab"[agent]),
        ev.AgentDeparted(time=6.5, agent=agent, host="ab"[agent], expected=True),
    ]


@CALM
@given(st.data())
def test_two_agents_over_two_attempts_may_mix_in_any_way(data: st.DataObject) -> None:
    """Each agent's facts stay in order; what is left of the first attempt may come after the restart."""
    codes = data.draw(st.tuples(st.sampled_from([0, 1]), st.sampled_from([0, 1])), label="codes")

    def told(
        first: list[list[ev.Event]], turns: list[int], second: list[list[ev.Event]], again_: list[int]
    ) -> Any:
        lanes = [[iter(lane) for lane in lanes] for lanes in (first, second)]
        begun = [SUBMITTED, SPLIT, *(next(lanes[0][i]) for i in turns)]
        late = [fact for lane in lanes[0] for fact in lane]
        anew = [next(lanes[1][i]) for i in again_]
        cuts = sorted(data.draw(st.lists(st.integers(0, len(anew)), min_size=len(late), max_size=len(late))))
        for offset, (cut, fact) in enumerate(zip(cuts, late, strict=True)):
            anew.insert(cut + offset, fact)
        facts = [*begun, restart(in_place=False), dataclasses.replace(SPLIT, attempt=1, time=12.0), *anew]
        state = fold_all(facts)
        return state.phase, state.attempt, state.ranks, state.hosts, first_of(state), state.all_ended

    def first_of(state: RunState) -> int | None:
        return first(state)

    one = [life(agent, code=1) for agent in (0, 1)]
    two = [again(life(agent, code=codes[agent])) for agent in (0, 1)]
    heard = data.draw(st.permutations([i for i, lane in enumerate(one) for _ in lane]))
    before = heard[: data.draw(st.integers(0, len(heard)))]
    after = data.draw(st.permutations([i for i, lane in enumerate(two) for _ in lane]))
    straight = (
        [i for i, lane in enumerate(one) for _ in lane],
        [i for i, lane in enumerate(two) for _ in lane],
    )
    assert told(one, straight[0], two, straight[1]) == told(one, before, two, after)


# --- losses


def lost(task: int, time: float = 5.0) -> ev.TaskLost:
    return ev.TaskLost(time=time, task=task, reason="Spark ended the task")


def test_ranks_of_a_lost_task_are_lost_and_those_of_others_are_its_victims() -> None:
    facts: list[ev.Event] = [
        SUBMITTED, joined(0), joined(1), SPLIT, lost(1), exited(1, 5.1, 143, "SIGTERM"),
        raised(0, 5.2), exited(0, 5.3),
    ]  # fmt: skip
    state = fold_all(facts)
    assert (["stopped", "lost"], None) == (phases(state), first(state))


def test_a_rank_that_failed_before_the_loss_was_told_stays_the_cause() -> None:
    state = fold_all([SUBMITTED, joined(0), joined(1), SPLIT, raised(0, 4.9), lost(1), exited(0, 5.3)])
    assert 0 == first(state)


@pytest.mark.parametrize(
    "loss",
    [
        lost(1),
        ev.ExecutorLost(time=5.0, task=1, reason="gone"),
        ev.AgentDeparted(time=5.0, agent=1, host="b", expected=False),
    ],
    ids=lambda fact: fact.tag,
)
@pytest.mark.parametrize(("signal", "phase"), [("SIGTERM", "lost"), ("SIGSEGV", "failed")])
def test_a_rank_that_was_told_to_end_by_what_took_its_place_did_not_fail(
    loss: ev.Event, signal: str, phase: str
) -> None:
    state = fold_all([SUBMITTED, joined(0), joined(1), SPLIT, exited(1, 4.9, 143, signal), loss])
    assert phase == phases(state)[1]


def test_a_rank_that_is_told_to_end_before_the_loss_is_heard_of_did_not_fail_either() -> None:
    state = fold_all([SUBMITTED, joined(0), joined(1), SPLIT, lost(1), exited(1, 4.9, 143, "SIGTERM")])
    assert "lost" == phases(state)[1]


def test_what_is_known_of_spark_stays_over_all_attempts() -> None:
    ready = ev.SparkReady(time=1.1, application="app-1", master="spark://m:1", version="4.0")
    way = ev.DeliveryChosen(time=1.2, way="spool", reason="no way back")
    state = fold_all([SUBMITTED, ready, way, *FAILED_ONCE[1:], lost(1), restart(in_place=False)])
    assert (ready, way, (), frozenset()) == (state.spark, state.delivery, state.losses, state.lost_tasks)


def test_a_rank_has_left_early_if_it_ended_well_before_anything_ended_the_gang() -> None:
    before = [exited(0, 5.0, code=0), exited(1, 6.0, code=1)]
    gone = fold_all([*started(4), *before, stop(7.0), exited(2, 6.5, code=0)])
    assert [0] == [rank.rank for rank in gone.left_early]
    assert () == fold_all(started()).left_early
