"""The engine's part in the life of services, over scripted agents: ports, addresses, who waits for whom."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from launcher.channel.frames import Kind
from launcher.distributor import launch
from launcher.job import Job
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.run_state import RunState
from launcher.supervisor import attempt
from launcher.testing import Script, ScriptedAgent, ScriptedCluster, ScriptedStage
from tests.commands import until

HELD: Mapping[str, int] = {"horovod": 1, "tensorflow": 1, "ray": 3, "torch": 0}


def start(
    tmp_path: Path, *scripts: Script, framework: str = "ray", stages: int = 1, **options: Any
) -> tuple[Job, ScriptedCluster]:
    backend = ScriptedCluster(*[ScriptedStage(scripts)] * stages)
    target = Target(TargetKind.MODULE, "train")
    spec = JobSpec(
        target,
        num_processes=len(scripts),
        mode=Mode.CLUSTER,
        workdir=str(tmp_path),
        framework=framework,
        **options,
    )
    request = Request(spec, environ={}, python="")
    return launch(request, root=tmp_path / "runs", backend=backend), backend


def ended(job: Job) -> RunState:
    return job.wait(60)


def ports(voice: ScriptedAgent, count: int) -> list[int]:
    return [50000 + 100 * voice.agent + n for n in range(count)]


def hold(voice: ScriptedAgent) -> None:
    asked = voice.expect(Kind.HOLD).document()["count"]
    voice.send(Kind.HELD, {"ports": ports(voice, asked)})


def reach(voice: ScriptedAgent) -> None:
    asked = voice.expect(Kind.REACH).document()["addresses"]
    voice.send(Kind.REACHED, {"found": dict.fromkeys(asked, ("eth0", f"10.0.0.{voice.agent}"))})


def met(voice: ScriptedAgent) -> dict[str, Any]:
    """Join, hold the ports and take the order."""
    voice.join(machine=voice.host, addresses=[f"10.0.0.{voice.agent}"])
    hold(voice)
    reach(voice)
    return voice.expect(Kind.START).document()


def begin(voice: ScriptedAgent, order: dict[str, Any]) -> None:
    """The services of an order are ready, and its ranks may start."""
    for rank, service in order["services"].items():
        known = {"rank": int(rank), "name": service["name"]}
        voice.fact(ev.ServiceStarted, **known, is_rank=service["is_rank"])
        if service["is_rank"]:
            voice.fact(ev.RankStarted, rank=int(rank), pid=1)
        voice.fact(ev.ServiceReady, **known)
    voice.expect(Kind.PROCEED)
    for rank in order["ranks"]:
        voice.fact(ev.RankEntered, rank=int(rank))


def leads(order: dict[str, Any]) -> list[int]:
    return [int(rank) for rank in order["ranks"] if not order["services"].get(rank, {}).get("is_rank")]


def finish(voice: ScriptedAgent, order: dict[str, Any], *, code: int = 0) -> None:
    """The ranks that run the target end, and the others once they are released."""
    own = leads(order)
    for rank in own:
        voice.fact(ev.RankExited, rank=rank, exit_code=code)
    voice.expect(Kind.RELEASE)
    for rank in order["ranks"]:
        if int(rank) not in own:
            voice.fact(ev.RankExited, rank=int(rank), exit_code=0)
    voice.fact(ev.CleanupProven)
    voice.send(Kind.IDLE, {"port": 45000})


def works(voice: ScriptedAgent) -> None:
    order = met(voice)
    begin(voice, order)
    finish(voice, order)
    voice.expect(Kind.QUIT)


def taking(
    orders: dict[int, dict[str, Any]], then: Callable[[ScriptedAgent, dict[str, Any]], None]
) -> Script:
    def script(voice: ScriptedAgent) -> None:
        orders[voice.agent] = met(voice)
        then(voice, orders[voice.agent])

    return script


def works_on(voice: ScriptedAgent, order: dict[str, Any]) -> None:
    begin(voice, order)
    finish(voice, order)
    voice.expect(Kind.QUIT)


def test_nodes_get_the_ports_that_are_held_and_the_addresses_that_others_reach(tmp_path: Path) -> None:
    orders: dict[int, dict[str, Any]] = {}
    job, backend = start(tmp_path, *[taking(orders, works_on)] * 2)
    state = ended(job)

    assert ("succeeded", []) == (state.phase, backend.errors)
    assert ["head", "node"] == [rank.role for rank in state.ranks]
    settings = [orders[agent]["services"][str(agent)]["settings"] for agent in range(2)]
    assert [[50000, 50001, 50002], [50100, 50101, 50102]] == [each["ports"] for each in settings]
    assert [("10.0.0.0", True), ("10.0.0.1", False)] == [(each["address"], each["head"]) for each in settings]
    assert ["10.0.0.0:50000"] * 2 == [each["cluster"] for each in settings]
    assert [True, True] == [order["awaits"] for order in orders.values()]


def test_workers_of_tensorflow_know_each_others_ports_and_wait_for_no_service(tmp_path: Path) -> None:
    orders: dict[int, dict[str, Any]] = {}

    def plain(voice: ScriptedAgent, order: dict[str, Any]) -> None:
        for rank in order["ranks"]:
            voice.fact(ev.RankEntered, rank=int(rank))
            voice.fact(ev.RankExited, rank=int(rank), exit_code=0)
        voice.leave()

    job, backend = start(tmp_path, *[taking(orders, plain)] * 2, framework="tensorflow", roles={"chief": 1})

    assert ("succeeded", []) == (ended(job).phase, backend.errors)
    config = orders[1]["ranks"]["1"]["TF_CONFIG"]
    assert '"chief": ["10.0.0.0:50000"], "worker": ["10.0.0.1:50100"]' in config
    assert ["chief", "worker"] == [rank.role for rank in job.state.ranks]
    assert [({}, False)] * 2 == [(order["services"], order["awaits"]) for order in orders.values()]
    frames = [frame.kind for voice in backend.agents for frame in voice.received]
    assert Kind.PROCEED not in frames
    assert Kind.RELEASE not in frames


def test_torch_needs_no_further_ports(tmp_path: Path) -> None:
    def plain(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        reach(voice)
        voice.expect(Kind.START)
        voice.fact(ev.RankExited, rank=voice.agent, exit_code=0)
        voice.leave()

    job, backend = start(tmp_path, plain, plain, framework="torch")
    assert ("succeeded", []) == (ended(job).phase, backend.errors)
    assert all(Kind.HOLD not in {frame.kind for frame in voice.received} for voice in backend.agents)


def test_no_rank_proceeds_before_the_last_service_is_ready(tmp_path: Path) -> None:
    told: list[str] = []
    jobs: SimpleQueue[Job] = SimpleQueue()

    def early(voice: ScriptedAgent) -> None:
        order = met(voice)
        begin(voice, order)
        told.append("proceeds")
        finish(voice, order)
        voice.expect(Kind.QUIT)

    def late(voice: ScriptedAgent) -> None:
        order = met(voice)
        voice.fact(ev.NoteMade, text="not yet")
        job = jobs.get(timeout=60)
        until(lambda: any(note.text == "not yet" for note in job.state.notes))
        told.append("ready")
        begin(voice, order)
        finish(voice, order)
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, early, late)
    jobs.put(job)
    assert ("succeeded", []) == (ended(job).phase, backend.errors)
    assert ["ready", "proceeds"] == told


def test_the_store_of_horovod_is_released_after_the_last_rank(tmp_path: Path) -> None:
    job, backend = start(tmp_path, works, works, framework="horovod")
    assert ("succeeded", []) == (ended(job).phase, backend.errors)


def test_an_attempt_in_place_holds_other_ports(tmp_path: Path) -> None:
    seen: list[list[int]] = []

    def again(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host, addresses=[f"10.0.0.{voice.agent}"])
        for number in range(2):
            voice.expect(Kind.HOLD)
            voice.send(Kind.HELD, {"ports": [51000 + 10 * number + n for n in range(3)]})
            if not number:
                reach(voice)
            order = voice.expect(Kind.START).document()
            seen.append(order["services"]["0"]["settings"]["ports"])
            begin(voice, order)
            finish(voice, order, code=1 - number)
        voice.expect(Kind.QUIT)

    job, backend = start(tmp_path, again, max_restarts=1)
    state = ended(job)
    assert ("succeeded", 1, []) == (state.phase, state.attempt, backend.errors)
    assert [[51000, 51001, 51002], [51010, 51011, 51012]] == seen


def test_a_service_that_is_lost_stops_the_gang(tmp_path: Path) -> None:
    def loses(voice: ScriptedAgent) -> None:
        order = met(voice)
        begin(voice, order)
        if voice.agent == 1:
            reason = "its raylet was killed by SIGKILL"
            voice.fact(ev.ServiceLost, rank=1, name="Ray's node", reason=reason)
            voice.fact(ev.RankExited, rank=1, exit_code=1)
        voice.expect(Kind.STOP)
        if voice.agent == 0:
            voice.fact(ev.RankExited, rank=0, exit_code=143, signal="SIGTERM")
        voice.leave()

    job, backend = start(tmp_path, loses, loses)
    state = ended(job)
    assert ("lost", 75, []) == (state.phase, state.exit_code, backend.errors)
    assert "Ray's node beside rank 1 on host1 was lost: its raylet was killed by SIGKILL" == state.why
    assert ["stopped", "lost"] == [rank.phase.value for rank in state.ranks]


def test_a_stop_before_services_are_ready_starts_no_rank(tmp_path: Path) -> None:
    jobs: SimpleQueue[Job] = SimpleQueue()

    def waits(voice: ScriptedAgent) -> None:
        met(voice)
        jobs.get(timeout=60).stop()
        voice.expect(Kind.STOP)
        voice.leave()

    job, backend = start(tmp_path, waits)
    jobs.put(job)
    assert ("stopped", []) == (ended(job).phase, backend.errors)
    assert Kind.PROCEED not in {frame.kind for frame in backend.agents[0].received}


def test_services_that_are_never_ready_end_the_run_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempt, "SERVICES_LIMIT_S", 0.2)

    def never(voice: ScriptedAgent) -> None:
        met(voice)
        voice.fact(ev.ServiceStarted, rank=0, name="Ray's head node")
        voice.expect(Kind.PROCEED)

    job, _ = start(tmp_path, never)
    state = ended(job)
    assert ("failed", 69, "ray was not ready within 0.2 s beside rank 0") == (
        state.phase,
        state.exit_code,
        state.why,
    )


@pytest.mark.parametrize("found", [None, "50000", [1.5], [70000, 1, 2], [True, 1, 2]])
def test_nonsense_about_ports_ends_the_run_in_words(tmp_path: Path, found: object) -> None:
    def talks(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.HOLD)
        voice.send(Kind.HELD, {"ports": found})
        voice.expect(Kind.START)

    job, _ = start(tmp_path, talks)
    state = ended(job)
    assert "failed" == state.phase
    assert "the run cannot go on: an agent " in state.why


def test_an_agent_that_holds_too_few_ports_ends_the_run_in_words(tmp_path: Path) -> None:
    def talks(voice: ScriptedAgent) -> None:
        voice.join(machine=voice.host)
        voice.expect(Kind.HOLD)
        voice.send(Kind.HELD, {"ports": [50000]})
        voice.expect(Kind.START)

    job, _ = start(tmp_path, talks)
    assert "the run cannot go on: agent 0 holds 1 port of 3" == ended(job).why
