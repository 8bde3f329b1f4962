"""Attempts at a gang in a cluster, over scripted agents: the start, restarts, who comes and who goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.base import AgentsExpected, StageOver
from launcher.channel.frames import Kind
from launcher.distributor import launch
from launcher.errors import CannotPlace
from launcher.job import Job
from launcher.spec.files.bundle import Bundle, Manifest
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.ranks import RankPhase
from launcher.state.run_state import RunState
from launcher.supervisor import supervisor as stage_rules
from launcher.testing import Script, ScriptedAgent, ScriptedCluster, ScriptedStage
from tests.commands import until

BUNDLE, PAYLOAD = Bundle(Manifest("/w", main="/w/train.py")), b"payload" * 10


def start(tmp_path: Path, *stages: ScriptedStage, n: int = 2, **options: Any) -> tuple[Job, ScriptedCluster]:
    backend = ScriptedCluster(*stages)
    target = Target(TargetKind.SCRIPT, "/w/train.py")
    spec = JobSpec(target, num_processes=n, mode=Mode.CLUSTER, workdir=str(tmp_path), **options)
    request = Request(spec, environ={}, python="", payload=PAYLOAD, bundle=BUNDLE)
    return launch(request, root=tmp_path / "runs", backend=backend), backend


def ended(job: Job) -> RunState:
    return job.wait(60)


def tags(job: Job) -> list[str]:
    return [e.tag for e in job.events()]


def met(voice: ScriptedAgent, **hello: Any) -> dict[str, Any]:
    """Join, tell that rank 0's host is within reach, and take the order."""
    voice.join(**{"machine": voice.host, "addresses": ["127.0.0.1", voice.host], **hello})
    reach(voice)
    return voice.expect(Kind.START).document()


def reach(voice: ScriptedAgent) -> None:
    asked = voice.expect(Kind.REACH).document()
    voice.send(Kind.REACHED, {"found": dict.fromkeys(asked["addresses"], ("eth0", ""))})


def live(voice: ScriptedAgent, order: dict[str, Any], *, code: int = 0, port: int = 0) -> None:
    """The ranks of an order, from their start to the proof of their end."""
    for rank in map(int, order["ranks"]):
        voice.fact(ev.RankStarted, rank=rank, pid=1000 + rank)
        voice.fact(ev.RankEntered, rank=rank)
    for rank in map(int, order["ranks"]):
        voice.fact(ev.RankExited, rank=rank, exit_code=code)
    voice.fact(ev.CleanupProven)
    voice.send(Kind.IDLE, {"port": port} if port else {})


def fine(voice: ScriptedAgent) -> None:
    live(voice, met(voice))
    voice.expect(Kind.QUIT)


def obeys(voice: ScriptedAgent) -> None:
    """Ranks that run until they are stopped."""
    order = met(voice)
    for rank in order["ranks"]:
        voice.fact(ev.RankEntered, rank=int(rank))
    stopped(voice, order)
    voice.expect(Kind.QUIT)


def stopped(voice: ScriptedAgent, order: dict[str, Any]) -> None:
    voice.expect(Kind.STOP)
    for rank in order["ranks"]:
        voice.fact(ev.RankExited, rank=int(rank), exit_code=143, signal="SIGTERM")
    voice.fact(ev.CleanupProven)
    voice.send(Kind.IDLE, {"port": 40009})


def leaves(voice: ScriptedAgent) -> None:
    voice.join()


def refused(voice: ScriptedAgent) -> None:
    """An agent that is hung up on."""
    try:
        voice.join()
    except ConnectionError:
        return
    with pytest.raises(ConnectionError):
        voice.expect(Kind.REACH)


def environment(voice: ScriptedAgent, attempt: int = 0) -> dict[str, str]:
    """What the first rank of an agent got in one of its orders."""
    orders = [f.document() for f in voice.received if f.kind is Kind.START]
    found: dict[str, str] = next(iter(orders[attempt]["ranks"].values()))
    return found


# --- the start


def test_the_plan_is_made_of_what_the_agents_say(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fine, fine]))
    state = ended(job)

    assert ("succeeded", 0) == (state.phase, state.exit_code)
    assert ["host0", "host1"] == [r.host for r in state.ranks]
    assert "host0" == environment(backend.agents[1])["MASTER_ADDR"]
    assert ("eth0", "=eth0") == tuple(
        environment(backend.agents[1])[f"{name}_SOCKET_IFNAME"] for name in ("GLOO", "NCCL")
    )
    order = tags(job)
    assert sorted(order.index(t) for t in ("agent_joined", "gang_placed", "rank_started", "run_ended")) == [
        order.index(t) for t in ("agent_joined", "gang_placed", "rank_started", "run_ended")
    ]
    assert [] == backend.errors
    assert "task_lost" not in order


def test_sources_and_arguments_come_before_the_order(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fine, fine]))
    ended(job)

    heard = backend.agents[0].received
    kinds = [f.kind for f in heard]
    assert kinds.index(Kind.PAYLOAD) < kinds.index(Kind.START) > kinds.index(Kind.BUNDLE)
    assert [BUNDLE.manifest.encode()] == [f.payload for f in heard if f.kind is Kind.BUNDLE]


def test_nothing_starts_before_all_have_come_and_reached_each_other(tmp_path: Path) -> None:
    gate, seen = threading.Event(), threading.Event()

    def early(voice: ScriptedAgent) -> None:
        voice.join(machine="a", addresses=["host0"])
        reach(voice)
        seen.set()
        live(voice, voice.expect(Kind.START).document())
        voice.expect(Kind.QUIT)

    def late(voice: ScriptedAgent) -> None:
        gate.wait(60)
        voice.join(machine="b")
        asked = voice.expect(Kind.REACH)
        assert seen.wait(60)
        voice.send(Kind.REACHED, {"found": dict.fromkeys(asked.document()["addresses"], ("", ""))})
        live(voice, voice.expect(Kind.START).document())
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([early, late]))
    until(lambda: job.state.hosts.keys() == {0})
    assert not job.state.ranks
    gate.set()

    assert "succeeded" == ended(job).phase
    assert [] == backend.errors


def test_hosts_that_cannot_reach_each_other_are_named(tmp_path: Path) -> None:
    def cut_off(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host, addresses=["host0"])
        voice.expect(Kind.REACH)
        voice.send(Kind.REACHED, {"found": {}})
        voice.expect(Kind.START)

    job, backend = start(tmp_path, ScriptedStage([obeys, cut_off]))
    state = ended(job)

    assert ("failed", 69) == (state.phase, state.exit_code)
    assert "host1 cannot reach host0" in state.why
    assert all(Kind.START not in {f.kind for f in v.received} for v in backend.agents)


@pytest.mark.parametrize(
    "found",
    ["text", 7, ["host0"], {"host0": 3}, {"host0": None}, {"host0": ["eth0"]}, {"host0": ["eth0", 3]}, None],
)
def test_nonsense_about_the_way_ends_the_run_in_words(tmp_path: Path, found: object) -> None:
    def talks(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.REACH)
        voice.send(Kind.REACHED, {"found": found})
        voice.expect(Kind.START)

    job, _ = start(tmp_path, ScriptedStage([talks]), n=1)
    state = ended(job)

    assert ("failed", 70) == (state.phase, state.exit_code)
    assert state.why.startswith("the run cannot go on: an agent reached")


@pytest.mark.parametrize("port", ["x", -1, 70000, 1.5, True, None, [1]])
def test_nonsense_about_a_port_ends_the_run_in_words(tmp_path: Path, port: object) -> None:
    def talks(voice: ScriptedAgent) -> None:
        met(voice)
        voice.fact(ev.RankExited, rank=0, exit_code=0)
        voice.send(Kind.IDLE, {"port": port})
        voice.expect(Kind.QUIT)

    job, _ = start(tmp_path, ScriptedStage([talks]), n=1)
    state = ended(job)

    assert ("failed", 70) == (state.phase, state.exit_code)
    assert "cannot go on: an agent reported the port" in state.why


def test_an_agent_that_leaves_before_the_others_have_come_ends_the_wait(tmp_path: Path) -> None:
    def waits(voice: ScriptedAgent) -> None:
        voice.join(machine="b")
        voice.expect(Kind.START)

    job, backend = start(tmp_path, ScriptedStage([leaves, waits], expect=3), n=3)
    state = ended(job)

    assert ("lost", 75) == (state.phase, state.exit_code)
    assert "Spark task 0 ended too early: its agent went away" in state.why
    assert Kind.START not in {f.kind for v in backend.agents for f in v.received}


def test_an_agent_that_leaves_between_the_plan_and_the_start_is_a_loss(tmp_path: Path) -> None:
    def goes(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.REACH)

    job, backend = start(tmp_path, ScriptedStage([obeys, goes]))
    state = ended(job)

    assert ("lost", 75) == (state.phase, state.exit_code)
    assert "host1" in state.why
    assert Kind.START not in {f.kind for v in backend.agents for f in v.received}


def test_who_leaves_too_early_is_replaced_where_restarts_are_allowed(tmp_path: Path) -> None:
    job, backend = start(
        tmp_path, ScriptedStage([leaves, obeys], expect=3), ScriptedStage([fine, fine]), max_restarts=1
    )
    state = ended(job)

    assert ("succeeded", 0, 1) == (state.phase, state.exit_code, state.attempt)
    assert 2 == backend.launches
    assert "1" == environment(backend.agents[2])["TORCHELASTIC_RESTART_COUNT"]


def test_fewer_agents_than_expected_are_not_waited_for_once_the_stage_is_over(tmp_path: Path) -> None:
    def waits(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([waits], expect=2, stuck=True))
    until(lambda: len(job.state.hosts) == 1)
    backend.box.put(StageOver(CannotPlace("the stage went wrong")))
    state = ended(job)

    assert ("failed", 69, "the stage went wrong") == (state.phase, state.exit_code, state.why)
    assert [] == backend.errors


def test_an_agent_too_many_takes_no_part_and_is_let_go(tmp_path: Path) -> None:
    started = threading.Event()

    def plays(voice: ScriptedAgent) -> None:
        order = met(voice)
        started.set()
        live(voice, order)
        voice.expect(Kind.QUIT)

    def one_more(voice: ScriptedAgent) -> None:
        started.wait(60)
        refused(voice)

    job, backend = start(tmp_path, ScriptedStage([plays, one_more], expect=1), n=1)
    state = ended(job)

    assert ("succeeded", 0) == (state.phase, state.exit_code)
    assert {0} == state.hosts.keys()
    assert [] == backend.errors


def test_a_second_agent_of_one_number_does_not_take_the_firsts_place(tmp_path: Path) -> None:
    def impostor(voice: ScriptedAgent) -> None:
        refused(voice)

    gate = threading.Event()

    def waits(voice: ScriptedAgent) -> None:
        voice.join(machine="a", addresses=["host0"])
        assert gate.wait(60)
        reach(voice)
        live(voice, voice.expect(Kind.START).document())
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([waits], expect=1), n=1)
    until(lambda: bool(job.state.hosts))
    backend._begin(0, "evil", impostor)
    until(lambda: not backend._threads[-1].is_alive())
    gate.set()
    state = ended(job)

    assert ("succeeded", ["host0"]) == (state.phase, [r.host for r in state.ranks])
    assert [] == backend.errors


def test_agents_that_cannot_hold_the_gang_are_sent_away_with_numbers(tmp_path: Path) -> None:
    def goes(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.START)

    job, _ = start(tmp_path, ScriptedStage([goes]), n=2)
    state = ended(job)

    assert ("failed", 69) == (state.phase, state.exit_code)
    assert "2 ranks need 2 slots at once, and there are 1" in state.why


def test_what_a_stage_ends_with_is_the_verdict_if_nothing_else_is(tmp_path: Path) -> None:
    stage = ScriptedStage([], expect=2, error=CannotPlace("no room", hint="make some"))
    job, backend = start(tmp_path, stage)
    until(lambda: backend.launches == 1)
    backend.end()
    state = ended(job)

    assert ("failed", 69, "no room (make some)") == (state.phase, state.exit_code, state.why)


def test_what_a_stage_ends_with_does_not_undo_a_success(tmp_path: Path) -> None:
    job, _ = start(tmp_path, ScriptedStage([fine, fine], error=CannotPlace("too late")))

    assert ("succeeded", 0) == (ended(job).phase, job.state.exit_code)


def test_a_stage_that_ends_without_a_word_before_the_start_is_a_defect(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([], expect=2))
    until(lambda: backend.launches == 1)
    backend.end()
    state = ended(job)

    assert ("failed", 70, "the agents ended before the ranks could start") == (
        state.phase,
        state.exit_code,
        state.why,
    )


@pytest.mark.parametrize(
    "fact",
    [
        {"event": "rank_started", "time": "noon", "rank": 0, "pid": 1},
        {"event": "rank_started", "time": 1e999, "rank": 0, "pid": 1},
        {"event": "rank_exited"},
        {"event": "sampled", "time": 1.0, "devices": 7},
        {"event": "rank_raised", "rank": 0, "frames": [1], "kind": "", "message": "", "traceback": ""},
        {"event": "gang_restarted", "attempt": 7},
        {"event": ["rank_exited"]},
        {},
    ],
)
def test_a_fact_that_makes_no_sense_ends_the_run_in_words(tmp_path: Path, fact: dict[str, object]) -> None:
    def talks(voice: ScriptedAgent) -> None:
        met(voice)
        voice.send(Kind.FACT, fact)
        voice.expect(Kind.QUIT)

    job, _ = start(tmp_path, ScriptedStage([talks]), n=1)
    state = ended(job)

    assert ("failed", 70) == (state.phase, state.exit_code)
    assert state.why.startswith("the run cannot go on: an agent sent an invalid fact")


# --- a stop at every point of the start


def _before_hello(voice: ScriptedAgent, stop: Callable[[], None]) -> None:
    stop()
    voice.join()


def _after_hello(voice: ScriptedAgent, stop: Callable[[], None]) -> None:
    voice.join(machine=voice.host)
    stop()


def _while_reaching(voice: ScriptedAgent, stop: Callable[[], None]) -> None:
    voice.join(machine=voice.host)
    voice.expect(Kind.REACH)
    stop()


@pytest.mark.parametrize("moment", [_before_hello, _after_hello, _while_reaching])
def test_a_stop_during_the_start_starts_nothing(
    tmp_path: Path, moment: Callable[[ScriptedAgent, Callable[[], None]], None]
) -> None:
    jobs: list[Job] = []

    def stop() -> None:
        until(lambda: bool(jobs))
        jobs[0].stop(reason="enough")
        until(lambda: jobs[0].state.stop is not None)

    def stops(voice: ScriptedAgent) -> None:
        moment(voice, stop)
        voice.expect(Kind.QUIT)

    def waits(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([stops, waits]), max_restarts=3)
    jobs.append(job)
    state = ended(job)

    assert ("stopped", 143, "stopped: enough") == (state.phase, state.exit_code, state.why)
    assert Kind.START not in {f.kind for v in backend.agents for f in v.received}
    assert 1 == backend.launches
    assert "task_lost" not in tags(job)


def test_a_stop_after_the_start_is_told_to_every_agent(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([obeys, obeys]), max_restarts=3)
    until(lambda: [r.phase for r in job.state.ranks] == [RankPhase.RUNNING] * 2)
    job.stop()
    state = ended(job)

    assert ("stopped", 143, 0) == (state.phase, state.exit_code, state.attempt)
    assert [] == backend.errors


# --- restarts


def fails_then(*codes: int) -> Script:
    """Attempt after attempt with these exit codes, in place."""

    def script(voice: ScriptedAgent) -> None:
        order = met(voice)
        for index, code in enumerate(codes):
            if code and int(next(iter(order["ranks"]))):
                stopped(voice, order)
            else:
                live(voice, order, code=code, port=41000 + index)
            if index + 1 < len(codes):
                order = voice.expect(Kind.START).document()
        voice.expect(Kind.QUIT)

    return script


def test_a_failed_gang_starts_again_in_place(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fails_then(3, 4, 0)] * 2), max_restarts=2)
    state = ended(job)

    assert ("succeeded", 0, 2) == (state.phase, state.exit_code, state.attempt)
    assert 1 == backend.launches
    assert [] == backend.errors
    for voice in backend.agents:
        given = [environment(voice, attempt) for attempt in range(3)]
        assert ["0", "1", "2"] == [env["TORCHELASTIC_RESTART_COUNT"] for env in given]
        assert {"2"} == {env["TORCHELASTIC_MAX_RESTARTS"] for env in given}
        assert ["40000", "41000", "41001"] == [env["MASTER_PORT"] for env in given]


def test_a_restart_is_told_before_its_places(tmp_path: Path) -> None:
    job, _ = start(tmp_path, ScriptedStage([fails_then(3, 0)]), n=1, max_restarts=1)
    ended(job)

    told = [e for e in job.events() if isinstance(e, (ev.GangPlaced, ev.GangRestarted))]
    assert ["gang_placed", "gang_restarted", "gang_placed"] == [e.tag for e in told]
    assert [0, 1, 1] == [e.attempt for e in told]
    assert isinstance(told[1], ev.GangRestarted)
    assert ("rank 0 on host0 exited with code 3", True) == (told[1].reason, told[1].in_place)


def test_sources_travel_once_and_arguments_with_every_order(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fails_then(3, 0)]), n=1, max_restarts=1)
    ended(job)

    kinds = [f.kind for f in backend.agents[0].received]
    assert (1, 2, 2) == tuple(map(kinds.count, (Kind.BUNDLE, Kind.PAYLOAD, Kind.START)))
    assert 1 == kinds.count(Kind.REACH)


def test_the_failure_counts_when_the_restarts_are_used_up(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fails_then(3, 4)]), n=1, max_restarts=1)
    state = ended(job)

    assert ("failed", 4) == (state.phase, state.exit_code)
    assert "rank 0 on host0 exited with code 4, after 1 restart" == state.why
    assert [] == backend.errors


def test_a_stop_by_a_person_is_not_followed_by_a_restart(tmp_path: Path) -> None:
    """Neither before nor while a failed gang ends."""
    gate = threading.Event()

    def fails(voice: ScriptedAgent) -> None:
        order = met(voice)
        voice.fact(ev.RankExited, rank=0, exit_code=3)
        voice.expect(Kind.STOP)
        assert gate.wait(60)
        live(voice, {"ranks": {k: {} for k in order["ranks"] if k != "0"}})
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([fails]), n=1, max_restarts=5)
    until(lambda: job.state.stop is not None)
    job.stop(reason="enough")
    until(lambda: job.state.final_stop is not None)
    gate.set()
    state = ended(job)

    assert ("failed", 3, 0) == (state.phase, state.exit_code, state.attempt)
    assert [] == backend.errors


def vanishes(voice: ScriptedAgent) -> None:
    order = met(voice)
    for rank in order["ranks"]:
        voice.fact(ev.RankStarted, rank=int(rank), pid=1)


def test_a_loss_is_followed_by_a_new_stage(tmp_path: Path) -> None:
    lost = ev.ExecutorLost(time=time.time(), reason="it burnt", executor="7", host="host1", task=1)
    job, backend = start(
        tmp_path,
        ScriptedStage([obeys, vanishes], facts=[lost]),
        ScriptedStage([fine, fine]),
        max_restarts=1,
    )
    state = ended(job)

    assert ("succeeded", 0, 1) == (state.phase, state.exit_code, state.attempt)
    assert [] == backend.errors
    restart = state.restarts[0]
    assert ("executor 7 on host1 was lost: it burnt", False) == (restart.reason, restart.in_place)
    first, *later = backend.agents[2:]
    assert "1" == environment(first)["TORCHELASTIC_RESTART_COUNT"]
    assert [BUNDLE.manifest.encode()] * 2 == [
        f.payload for v in (first, *later) for f in v.received if f.kind is Kind.BUNDLE
    ]
    assert 2 == [f.kind for v in backend.agents[2:] for f in v.received].count(Kind.REACH)


def test_a_loss_without_restarts_is_the_verdict(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([obeys, vanishes]))
    state = ended(job)

    assert ("lost", 75) == (state.phase, state.exit_code)
    assert [] == backend.errors


def test_a_stage_that_does_not_notice_is_told_to_end_and_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stage_rules, "DESERTED_S", 0.1)
    job, backend = start(
        tmp_path, ScriptedStage([vanishes], stuck=True), ScriptedStage([fine]), n=1, max_restarts=1
    )
    state = ended(job)

    assert ("succeeded", 1, 2) == (state.phase, state.attempt, backend.launches)


def test_a_stage_that_never_ends_is_given_up_and_not_followed_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit in ("DESERTED_S", "ABORTED_S"):
        monkeypatch.setattr(stage_rules, limit, 0.1)

    class Deaf(ScriptedCluster):
        def _end(self, stage: ScriptedStage, threads: Sequence[threading.Thread]) -> None:
            """Say nothing, ever."""

    backend = Deaf(ScriptedStage([vanishes]), ScriptedStage([fine]))
    target = Target(TargetKind.SCRIPT, "/w/train.py")
    spec = JobSpec(target, mode=Mode.CLUSTER, workdir=str(tmp_path), max_restarts=1)
    job = launch(Request(spec, environ={}, bundle=BUNDLE), root=tmp_path / "runs", backend=backend)
    state = ended(job)

    assert ("lost", 75, 1) == (state.phase, state.exit_code, backend.launches)


def test_facts_of_an_old_attempt_do_not_disturb_the_next(tmp_path: Path) -> None:
    def fails(voice: ScriptedAgent) -> None:
        order = met(voice)
        live(voice, order, code=3, port=41000)
        voice.output(0, 1, b"late\n")
        order = voice.expect(Kind.START).document()
        live(voice, order)
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, ScriptedStage([fails]), n=1, max_restarts=1)

    assert ("succeeded", 1) == (ended(job).phase, job.state.attempt)
    assert [] == backend.errors


def test_the_time_limit_covers_all_attempts(tmp_path: Path) -> None:
    def fails_slowly(voice: ScriptedAgent) -> None:
        order = met(voice)
        stopped(voice, order)
        voice.expect(Kind.QUIT)

    job, _ = start(tmp_path, ScriptedStage([fails_slowly]), n=1, max_restarts=9, timeout_s=0.2)
    state = ended(job)

    assert ("failed", 124, 0) == (state.phase, state.exit_code, state.attempt)


# --- elastic gangs


def test_an_elastic_gang_goes_on_with_as_many_as_came(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fine] * 3), n=4, min_processes=2)
    state = ended(job)

    assert ("succeeded", 3) == (state.phase, len(state.ranks))
    assert any("3 ranks of at most 4" in note.text for note in state.notes)
    assert {"3"} == {environment(v)["WORLD_SIZE"] for v in backend.agents}


def test_an_elastic_gang_can_shrink_and_grow_between_attempts(tmp_path: Path) -> None:
    job, backend = start(
        tmp_path,
        ScriptedStage([obeys, obeys, vanishes]),
        ScriptedStage([obeys, vanishes]),
        ScriptedStage([fine] * 4),
        n=4,
        min_processes=2,
        max_restarts=2,
    )
    state = ended(job)

    assert ("succeeded", 2, 4) == (state.phase, state.attempt, len(state.ranks))
    sizes = [len(e.ranks) for e in job.events() if isinstance(e, ev.GangPlaced)]
    assert [3, 2, 4] == sizes
    assert [] == backend.errors


def test_an_elastic_gang_with_too_few_cannot_be_placed(tmp_path: Path) -> None:
    def goes(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.START)

    job, _ = start(tmp_path, ScriptedStage([goes]), n=4, min_processes=2)

    assert ("failed", 69) == (ended(job).phase, job.state.exit_code)


def test_news_of_numbers_may_change(tmp_path: Path) -> None:
    job, backend = start(tmp_path, ScriptedStage([fine, fine], expect=3))
    until(lambda: len(job.state.hosts) == 2)
    assert not job.state.ranks
    backend.box.put(AgentsExpected(2))

    assert "succeeded" == ended(job).phase
