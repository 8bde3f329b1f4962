"""Limits: which count, when each is warned of, and what a stop that they call for says."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from launcher.channel.frames import Kind
from launcher.errors import NoProgress
from launcher.job import error_of
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.outcome_rules import next_restart, next_stop, verdict
from launcher.state.run_state import RunState
from launcher.supervisor.supervisor import JOIN_LIMIT_S, Launch, join_limit
from launcher.supervisor.watchdog import (
    PROGRESS,
    STACKS_S,
    START,
    TIME,
    Limit,
    Watchdog,
    limits_of,
    wait_s,
    warnings,
)
from launcher.testing import FakeClock

SUBMITTED = ev.RunSubmitted(time=0.0, name="n", target="t", mode="cluster", num_processes=2)
PLACED = ev.GangPlaced(time=2.0, ranks=tuple(Assignment(r, 2, r, 2, 0, 1, 0, "a") for r in (0, 1)))
WAITING = ev.SlotsAwaited(time=1.0, have=0, need=2, limit_s=600.0)


def spec(**options: Any) -> JobSpec:
    return JobSpec(Target(TargetKind.SCRIPT, "/w/train.py"), num_processes=2, **options)


def up(*facts: ev.Event) -> RunState:
    started = [ev.RankStarted(time=3.0, rank=r, pid=9) for r in (0, 1)]
    return fold_all([SUBMITTED, PLACED, *started, *facts], run="r")


def ask(state: RunState, quiet_s: float | None, *, now: float = 20.0, **limits: Any) -> Any:
    given = {"timeout_s": None, "no_progress_timeout_s": 10.0, **limits}
    return next_stop(state, now=now, grace_s=5.0, quiet_s=quiet_s, **given)


# --- no progress


@pytest.mark.parametrize(("quiet_s", "stops"), [(None, False), (0.0, False), (9.99, False), (10.0, True)])
def test_silence_ends_the_run_when_it_has_lasted_long_enough(quiet_s: float | None, stops: bool) -> None:
    asked = ask(up(), quiet_s)

    assert stops == (asked is not None)
    if asked:
        assert ("limit", "no progress for 10 s", 125) == (asked.by, asked.reason, asked.exit_code)


def test_silence_is_allowed_where_nobody_limits_it() -> None:
    assert ask(up(), 1e9, no_progress_timeout_s=None) is None


def test_a_gang_that_is_through_is_not_hung() -> None:
    ended = up(*(ev.RankExited(time=4.0, rank=r, exit_code=0) for r in (0, 1)))
    assert ask(ended, 1e9) is None


def test_a_failure_comes_before_the_silence_that_it_caused() -> None:
    asked = ask(up(ev.RankExited(time=4.0, rank=1, exit_code=7)), 1e9)
    assert "rank" == asked.by


def test_the_time_limit_comes_before_the_silence() -> None:
    asked = ask(up(), 1e9, timeout_s=5.0)
    assert (124, "the time limit of 5 s") == (asked.exit_code, asked.reason)


def test_a_hang_is_125_and_an_error_of_its_own_and_is_not_started_again() -> None:
    state = up()
    asked = ask(state, 10.0)
    state = fold(state, asked)
    for rank in (0, 1):
        state = fold(state, ev.RankExited(time=21.0, rank=rank, exit_code=143, signal="SIGTERM"))
    assert next_restart(state, now=22.0, max_restarts=5) is None
    state = fold(state, verdict(state, now=22.0))
    error = error_of(state, None)  # type: ignore[arg-type]  # no rank is to blame, so no log is read

    assert ("failed", 125) == (state.phase, state.exit_code)
    assert isinstance(error, NoProgress)
    assert (125, "r") == (error.exit_code, error.run)


# --- which limits count


def test_all_three_limits_are_counted_from_where_they_begin() -> None:
    waiting = fold_all([SUBMITTED, WAITING], run="r")
    chosen = spec(timeout_s=1000.0, no_progress_timeout_s=30.0)

    assert [Limit(TIME, 1000.0, 990.0), Limit(START, 600.0, 591.0)] == list(
        limits_of(waiting, chosen, now=10.0, quiet_s=None)
    )
    assert [Limit(TIME, 1000.0, 990.0), Limit(PROGRESS, 30.0, 25.0)] == list(
        limits_of(up(), chosen, now=10.0, quiet_s=5.0)
    )


def test_waiting_has_no_limit_any_more_once_agents_are_being_started() -> None:
    state = fold_all([SUBMITTED, WAITING, ev.StageSubmitted(time=5.0, tasks=2)], run="r")
    assert () == limits_of(state, spec(), now=10.0, quiet_s=None)


def test_a_restart_waits_by_a_clock_of_its_own() -> None:
    again = ev.GangRestarted(time=500.0, attempt=1, reason="x", in_place=False)
    state = fold_all([SUBMITTED, WAITING, PLACED, again], run="r")
    state = fold(state, replace(WAITING, time=510.0, attempt=1))

    assert [Limit(START, 600.0, 590.0)] == list(limits_of(state, spec(), now=520.0, quiet_s=None))


def test_no_limit_counts_while_the_run_is_being_stopped() -> None:
    state = up(ev.StopRequested(time=5.0, by="person", reason="x"))
    assert () == limits_of(state, spec(timeout_s=1.0, no_progress_timeout_s=1.0), now=9.0, quiet_s=9.0)


# --- when they are told


@pytest.mark.parametrize(
    ("limit_s", "lead_s"),
    [
        (0.0, 0.0),
        (0.1, 0.05),
        (1.0, 0.5),
        (2.0, 1.0),
        (4.0, 1.0),
        (60.0, 12.0),
        (600.0, 60.0),
        (86400.0, 60.0),
    ],
)
def test_the_warning_leaves_time_and_does_not_come_at_once(limit_s: float, lead_s: float) -> None:
    assert lead_s == pytest.approx(Limit(TIME, limit_s, limit_s).lead_s)


@pytest.mark.parametrize(("left_s", "said"), [(12.1, 0), (12.0, 1), (0.1, 1), (0.0, 0), (-5.0, 0)])
def test_a_limit_is_told_when_it_is_near_and_not_when_it_is_over(left_s: float, said: int) -> None:
    told = warnings([Limit(PROGRESS, 60.0, left_s)], (), up(), 100.0)

    assert said == len(told)
    assert all((PROGRESS, 60.0, 100.0 + left_s) == (t.limit, t.limit_s, t.at) for t in told)
    assert [] == warnings([Limit(PROGRESS, 60.0, left_s)], {PROGRESS}, up(), 100.0)


@pytest.mark.parametrize(
    ("limit", "warned", "wait"),
    [
        (Limit(TIME, 60.0, 50.0), (), 38.0),
        (Limit(TIME, 60.0, 12.0), (), 0.0),
        (Limit(TIME, 60.0, 12.0), (TIME,), 12.0),
        (Limit(TIME, 60.0, -3.0), (TIME,), 0.0),
        (Limit(START, 60.0, 50.0), (), 38.0),
        (Limit(START, 60.0, 12.0), (START,), None),  # who waits ends that himself
        (Limit(START, 60.0, -3.0), (), None),
    ],
)
def test_nothing_wakes_before_something_is_due(
    limit: Limit, warned: tuple[str, ...], wait: float | None
) -> None:
    assert wait == (None if wait is None else pytest.approx(wait_s([limit], warned)))
    assert (wait is None) == (wait_s([limit], warned) is None)


def test_agents_on_this_machine_have_their_time_from_when_they_are_started() -> None:
    local, cluster = spec(start_timeout_s=600.0), spec(mode=Mode.CLUSTER, start_timeout_s=600.0)
    queued, begun = Launch(launched=100.0), Launch(launched=100.0, expected=400.0)

    assert (600.0, 700.0) == join_limit(queued, local)
    assert (JOIN_LIMIT_S, 400.0 + JOIN_LIMIT_S) == join_limit(begun, local)
    assert (660.0, 760.0) == join_limit(queued, cluster) == join_limit(begun, cluster)


# --- the watch


@dataclass
class Rooster:
    """As much of a roster as a watch looks at."""

    active_at: float | None
    activity_count: int = 0
    answered: int = 0

    def __post_init__(self) -> None:
        self.sent: list[int] = []
        self.stacked: dict[int, int] = {}

    def send(self, kind: Kind, make: Any) -> None:
        assert Kind.STACKS is kind
        self.sent.append(make(0)["round"])

    def all_stacked(self, number: int) -> bool:
        return self.answered == number


class Book:
    """As much of a writer."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        self.facts: list[ev.Event] = []

    def append(self, fact: ev.Event) -> None:
        self.facts.append(fact)
        self.state = fold(self.state, fact)

    @property
    def tags(self) -> list[str]:
        return [f.tag for f in self.facts]


def watched(state: RunState | None = None, **options: Any) -> tuple[Watchdog, Book, Rooster, FakeClock]:
    clock, book = FakeClock(3.0), Book(state or up())
    rooster = Rooster(active_at=3.0)
    return Watchdog(spec(**options), book, rooster, clock, monotonic=clock), book, rooster, clock  # type: ignore[arg-type]


def test_silence_is_told_once_and_again_after_a_sign_of_life() -> None:
    watch, book, rooster, clock = watched(no_progress_timeout_s=60.0)
    for second in range(1, 120):
        clock.advance(1.0)
        if second == 50:  # told at 48
            rooster.active_at, rooster.activity_count = clock.now, 1
        watch.warn()
        if second == 50:
            assert book.state.near is None
        if watch.due_stop():
            break

    assert ["limit_near", "progress_resumed", "limit_near"] == book.tags
    assert 110 == second
    assert [51.0, 101.0] == [f.time for f in book.facts if isinstance(f, ev.LimitNear)]
    assert [63.0, 113.0] == [f.at for f in book.facts if isinstance(f, ev.LimitNear)]


def test_a_gang_that_never_falls_silent_is_never_warned() -> None:
    watch, book, rooster, clock = watched(no_progress_timeout_s=60.0)
    for _ in range(1000):
        clock.advance(30.0)
        rooster.active_at, rooster.activity_count = clock.now, rooster.activity_count + 1
        watch.warn()
        assert watch.due_stop() is None
    assert [] == book.facts


def test_a_sign_of_life_moves_no_time_limit() -> None:
    watch, book, rooster, clock = watched(timeout_s=100.0)
    clock.advance(90.0)
    watch.warn()
    rooster.activity_count += 1
    watch.warn()

    assert ["limit_near"] == book.tags
    assert book.state.near is not None


def test_the_silence_of_an_attempt_is_forgotten_with_it_but_not_the_time() -> None:
    watch, book, rooster, clock = watched(no_progress_timeout_s=60.0, timeout_s=100.0)
    clock.advance(59.0)
    watch.warn()
    clock.advance(22.0)
    rooster.active_at = clock.now
    watch.warn()
    book.append(ev.GangRestarted(time=84.0, attempt=1, reason="x", in_place=True))
    watch.warn()
    assert ["limit_near", "limit_near", "gang_restarted"] == book.tags
    assert book.state.near is not None
    assert TIME == book.state.near.limit


def test_the_run_waits_for_nothing_without_a_limit() -> None:
    watch, *_ = watched()
    assert watch.wait_s() is None


def test_a_stop_waits_until_all_have_answered() -> None:
    watch, _, rooster, clock = watched()
    done: list[float] = []
    watch.take_stacks(then=lambda: done.append(clock.now))
    clock.advance(STACKS_S / 2)
    watch.poll_stacks()
    assert [] == done
    watch.take_stacks()  # somebody asks meanwhile: that neither replaces the stop nor puts it off
    rooster.answered = rooster.sent[-1]
    watch.poll_stacks()
    watch.poll_stacks()

    assert [3.0 + STACKS_S / 2] == done
    assert [1] == rooster.sent
    assert watch.wait_s() is None


def test_a_stop_does_not_wait_for_ever() -> None:
    watch, _, _, clock = watched()
    done: list[float] = []
    watch.take_stacks(then=lambda: done.append(clock.now))
    wait = watch.wait_s()
    assert wait is not None
    clock.advance(wait)
    watch.poll_stacks()
    assert [3.0 + STACKS_S] == done


def test_a_stop_takes_over_a_round_that_somebody_asked_for() -> None:
    watch, _, rooster, _ = watched()
    done: list[str] = []
    watch.take_stacks()
    watch.take_stacks(then=lambda: done.append("stopped"))
    rooster.answered = 1
    watch.poll_stacks()
    assert [] == done
    rooster.answered = 2
    watch.poll_stacks()
    assert ["stopped"] == done


def test_stacks_are_kept_by_rank_the_newest_of_each_and_go_with_their_attempt() -> None:
    def taken(rank: int, text: str) -> ev.StacksTaken:
        return ev.StacksTaken(time=9.0, rank=rank, text=text)

    state = up(taken(1, "a"), taken(0, "b"), taken(1, "c"))
    assert [(0, "b"), (1, "c")] == [(s.rank, s.text) for s in state.stacks]
    again = fold(state, ev.GangRestarted(time=10.0, attempt=1, reason="x", in_place=True))
    assert () == again.stacks
    assert () == fold(again, taken(0, "late")).stacks  # of the attempt before


def test_a_warning_is_no_more_where_the_run_goes_on_or_ends() -> None:
    near = ev.LimitNear(time=5.0, limit=START, limit_s=600.0, at=601.0)
    waiting = fold_all([SUBMITTED, WAITING, near], run="r")
    assert waiting.near == near
    assert fold(waiting, PLACED).near is None

    late = up(replace(near, limit=TIME))
    assert late.near is not None
    assert fold(late, ev.StopRequested(time=6.0, by="person", reason="x")).near is None
    assert fold(late, ev.RunEnded(time=6.0, state="succeeded", exit_code=0, why="")).near is None
