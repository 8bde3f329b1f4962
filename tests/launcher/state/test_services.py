"""A run's services as folded from facts, the rules about them, and what people are told."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from launcher.display.service import awaited_line, new_services, service_line
from launcher.spec.places import Assignment
from launcher.state import events as ev
from launcher.state.fold import fold, fold_all
from launcher.state.outcome_rules import may_proceed, may_release, next_restart, next_stop, verdict
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase, RunState

NODE, HEAD = "Ray's node", "Ray's head node"


def submitted(ranks: int = 2) -> list[ev.Event]:
    places = tuple(Assignment(r, ranks, 0, 1, r, ranks, agent=r, host=f"h{r}") for r in range(ranks))
    return [
        ev.RunSubmitted(time=1.0, name="n", target="t", mode="cluster", num_processes=ranks),
        *(ev.AgentJoined(time=1.0, agent=r, host=f"h{r}", pid=1) for r in range(ranks)),
        ev.GangPlaced(time=2.0, ranks=places, roles=("head", *["node"] * (ranks - 1))),
    ]


def started(rank: int, *, is_rank: bool) -> ev.ServiceStarted:
    name = NODE if rank else HEAD
    return ev.ServiceStarted(
        time=3.0, agent=rank, host=f"h{rank}", rank=rank, name=name, pid=9, is_rank=is_rank
    )


def ready(rank: int, url: str = "") -> ev.ServiceReady:
    return ev.ServiceReady(time=4.0, agent=rank, host=f"h{rank}", rank=rank, name="", url=url)


def lost(
    rank: int, reason: str = "its raylet was killed by SIGKILL", *, was_ready: bool = True
) -> ev.ServiceLost:
    name = NODE if rank else HEAD
    return ev.ServiceLost(
        time=9.0, agent=rank, host=f"h{rank}", rank=rank, name=name, reason=reason, started=was_ready
    )


def exited(rank: int, code: int = 0, signal: str | None = None, time: float = 10.0) -> ev.RankExited:
    return ev.RankExited(time=time, rank=rank, exit_code=code, signal=signal)


STARTED = [
    *submitted(),
    started(1, is_rank=True),
    started(0, is_rank=False),
    ev.RankStarted(time=3.0, rank=1, pid=9),
]
RUNNING = [
    *STARTED,
    ready(0, "http://h0:8265"),
    ready(1),
    *(ev.RankEntered(time=5.0, rank=r) for r in range(2)),
]


def after(*facts: ev.Event) -> RunState:
    return fold_all([*RUNNING, *facts])


def stopped(state: RunState) -> RunState:
    stop = next_stop(state, now=9.5, timeout_s=None, grace_s=1.0)
    assert stop is not None
    return fold(state, stop)


def test_ranks_proceed_once_the_services_beside_all_of_them_are_ready() -> None:
    state = fold_all([*STARTED, ready(0)])
    assert not may_proceed(state, {0, 1})
    assert may_proceed(fold(state, ready(1)), {0, 1})
    assert not may_proceed(fold(fold(state, ready(1)), lost(0)), {0, 1})
    assert not may_proceed(fold_all(submitted()), {0})  # nothing is known of it yet


def test_services_are_released_once_the_ranks_that_run_the_target_have_ended() -> None:
    assert not may_release(after())
    assert may_release(after(exited(0)))
    assert not may_release(after(exited(1)))
    assert not may_release(RunState())


def test_a_run_whose_driver_and_nodes_have_ended_well_has_succeeded() -> None:
    state = after(exited(0), exited(1))
    assert (Phase.SUCCEEDED, 0) == (verdict(state, now=11.0).state, verdict(state, now=11.0).exit_code)


@pytest.mark.parametrize("end", [exited(1, 1), exited(1, 137, "SIGKILL")])
def test_a_lost_node_is_the_cause_and_its_rank_is_lost(end: ev.RankExited) -> None:
    state = fold(stopped(after(lost(1), end)), exited(0, 143, "SIGTERM", time=10.5))

    said = verdict(state, now=11.0)
    assert ("lost", 75) == (said.state, said.exit_code)
    assert "Ray's node beside rank 1 on h1 was lost: its raylet was killed by SIGKILL" == said.why
    assert [RankPhase.STOPPED, RankPhase.LOST] == [rank.phase for rank in state.ranks]
    restart = next_restart(state, now=11.0, max_restarts=1)
    assert restart is not None
    assert restart.in_place
    assert not fold(state, restart).services


def test_the_first_node_that_is_lost_gets_the_blame() -> None:
    state = stopped(
        after(lost(0, "its gcs_server was killed by SIGKILL"), lost(1, "its raylet ended with code 1"))
    )
    assert "its gcs_server was killed" in verdict(state, now=11.0).why


def test_an_executor_that_takes_a_service_along_is_the_cause() -> None:
    gone = ev.ExecutorLost(time=9.1, reason="the host is down", executor="3", host="h1", task=1)
    state = stopped(after(lost(1), gone))
    assert "executor 3 on h1 was lost: the host is down" == verdict(state, now=11.0).why
    restart = next_restart(state, now=11.0, max_restarts=1)
    assert restart is not None
    assert not restart.in_place


def test_a_service_that_cannot_be_started_fails_the_run_for_good() -> None:
    refused = lost(1, "Ray is not installed for /py", was_ready=False)
    state = fold(stopped(fold_all([*STARTED, refused])), exited(1, 1))

    said = verdict(state, now=11.0)
    assert ("failed", 1) == (said.state, said.exit_code)
    assert "Ray's node beside rank 1 on h1 could not be started: Ray is not installed for /py" == said.why
    assert next_restart(state, now=11.0, max_restarts=3) is None


def test_nodes_that_end_by_a_stop_have_not_succeeded() -> None:
    stop = ev.StopRequested(time=8.0, by="person", reason="Ctrl-C", exit_code=130)
    state = after(stop, exited(0, 143, "SIGTERM"), exited(1))
    assert [RankPhase.STOPPED] * 2 == [rank.phase for rank in state.ranks]
    assert "stopped" == verdict(state, now=11.0).state


def test_a_stop_after_the_drivers_end_has_no_effect() -> None:
    stop = ev.StopRequested(time=10.5, by="person", reason="Ctrl-C", exit_code=130)
    state = after(exited(0), stop, exited(1, time=11.0))
    assert "succeeded" == verdict(state, now=12.0).state


def test_what_is_told_while_nodes_start_and_once_they_are_ready() -> None:
    states = [fold_all(submitted())]
    for fact in [*STARTED[4:], ready(0, "http://h0:8265"), ready(1)]:
        states.append(fold(states[-1], fact))
    told = [line for one, next_one in itertools.pairwise(states) for line in new_services(one, next_one)]

    assert [
        "waiting for Ray's head node on h0, 0 of 2 ready, at most 180 s",
        f"{HEAD} on h0 and 1 more node, http://h0:8265",
    ] == told
    assert "waiting for Ray's node on h1, 1 of 2 ready, at most 180 s" == awaited_line(states[-2])
    assert "" == awaited_line(states[-1])


def test_a_single_service_without_a_page_is_told_nobody_who_did_not_ask() -> None:
    state = fold_all([*submitted(), started(0, is_rank=False), ready(0)])
    assert [] == list(new_services(fold_all(submitted()), state))
    assert f"{HEAD} on h0" == service_line(state)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "h0:8265"])
def test_what_is_no_page_is_not_shown_as_one(url: str) -> None:
    assert f"{HEAD} on h0 and 1 more node" == service_line(fold_all([*STARTED, ready(0, url), ready(1)]))


def test_facts_about_services_that_nobody_knows_change_nothing() -> None:
    state = fold_all(submitted())
    assert state.services == fold(state, ready(7)).services == ()
    (placed,) = (event for event in submitted() if isinstance(event, ev.GangPlaced))
    assert [""] * 2 == [rank.role for rank in fold(RunState(), replace(placed, roles=())).ranks]
