"""Asking hosts before a run: by scripted agents that misbehave, and by real agents on this machine."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.channel.frames import Kind
from launcher.diagnosis.checks.facts import Examined
from launcher.errors import CannotPlace, RunStopped, SpecError
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.host_facts import HostQuestions
from launcher.supervisor import examination
from launcher.supervisor.examination import Examination
from launcher.testing import ScriptedAgent, ScriptedCluster, ScriptedStage
from tests.agents import Agents

QUESTIONS = HostQuestions(limit_s=0.2)


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its temporary folder is gone afterwards, and hosts that say nothing cost little time."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(examination, "SPARE_S", 0.1)
    yield
    assert list(tmp_path.glob("rankdeck-doctor-*")) == []


def request(ranks: int = 2) -> Request:
    target = Target(TargetKind.SCRIPT, "/w/train.py")
    return Request(JobSpec(target, num_processes=ranks, mode=Mode.CLUSTER, workdir="/w"), environ={})


def answers(agent: ScriptedAgent) -> None:
    agent.join()
    agent.expect(Kind.CHECK)
    agent.send(Kind.CHECKED, {"memory_free": 7, "paths": [{"path": "/p", "exists": True}]})
    agent.expect(Kind.QUIT)


def sends(document: dict[str, Any]) -> Any:
    def script(agent: ScriptedAgent) -> None:
        agent.join()
        agent.expect(Kind.CHECK)
        agent.send(Kind.CHECKED, document)
        agent.expect(Kind.QUIT)

    return script


def says_nothing(agent: ScriptedAgent) -> None:
    agent.join()
    agent.expect(Kind.QUIT)


def leaves(agent: ScriptedAgent) -> None:
    agent.join()
    agent.expect(Kind.CHECK)
    agent.sock.close()


def examine(*scripts: Any, **stage: Any) -> tuple[Examined, ScriptedCluster]:
    cluster = ScriptedCluster(ScriptedStage(scripts, **stage))
    found = Examination(request(), None, cluster, QUESTIONS).run()
    assert cluster.errors == []
    return found, cluster


def test_every_host_is_asked_and_dismissed() -> None:
    found, cluster = examine(answers, answers)

    assert [(h.host, h.facts.memory_free if h.facts else None) for h in found.hosts] == [
        ("host0", 7),
        ("host1", 7),
    ]
    assert (found.expected, found.error) == (2, None)
    asked = [next(f for f in a.received if f.kind is Kind.CHECK).document() for a in cluster.agents]
    assert [[p["agent"] for p in each["peers"]] for each in asked] == [[1], [0]]
    assert asked[0]["nonce"] == asked[1]["nonce"] != ""


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"driver": "x" * 16384}, "a text of 16,384 characters"),
        ({"limits": {"n" * 16384: 1}}, "a text of 16,384 characters"),
        ({"paths": [{"path": "/p"}] * 5000}, "a list of 5,000"),
        ({"memory_free": -1}, "memory_free"),
        ({"gpus": [{"index": 0, "used": "much"}]}, "gpus"),
        ({"installed": 7}, "installed"),
    ],
)
def test_an_answer_without_sense_is_told_and_costs_no_other_host(document: dict[str, Any], why: str) -> None:
    found, _ = examine(sends(document), answers)

    assert found.hosts[0].facts is None
    assert "makes no sense" in found.hosts[0].trouble
    assert why in found.hosts[0].trouble
    assert found.hosts[1].facts is not None


@pytest.mark.parametrize(
    ("script", "why"), [(says_nothing, "has not answered within"), (leaves, "went away")]
)
def test_a_host_that_says_nothing_is_told(script: Any, why: str) -> None:
    found, _ = examine(script, answers)

    assert why in found.hosts[0].trouble
    assert found.hosts[1].facts is not None


def test_those_that_came_are_asked_if_another_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "JOIN_S", 0.3)
    found, _ = examine(answers, expect=2)

    assert found.expected == 2
    assert [h.facts is not None for h in found.hosts] == [True]


class Failing(ScriptedCluster):
    """A cluster whose stage ends before an agent comes."""

    def launch(self, *args: Any, **more: Any) -> None:
        super().launch(*args, **more)
        self.end()


def test_a_stage_that_fails_is_told() -> None:
    stage = ScriptedStage((), expect=1, error=CannotPlace("no room", hint="make some"))
    found = Examination(request(), None, Failing(stage), QUESTIONS).run()

    assert found.error is not None
    assert (found.error.kind, found.error.message, found.error.hint) == (
        "CannotPlace",
        "no room",
        "make some",
    )


class Waiting(ScriptedCluster):
    """A cluster whose slots somebody else holds."""

    def launch(self, *_: Any, **__: Any) -> None:
        self.box.put(ev.SlotsAwaited(time=1.0, have=1, need=2, limit_s=60.0, reason="1 of 2 is free"))


def test_slots_that_others_hold_are_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination, "SLOTS_S", 0.2)
    found = Examination(request(), None, Waiting(ScriptedStage(())), QUESTIONS).run()

    assert (found.waiting, found.expected, found.hosts) == ("1 of 2 is free", None, ())


class Refusing(ScriptedCluster):
    """A backend that cannot begin."""

    def offers(self, request: Request) -> Any:
        raise SpecError("--listen makes no sense")


def test_a_launch_that_is_not_allowed_is_refused() -> None:
    with pytest.raises(SpecError, match="makes no sense"):
        Examination(request(), None, Refusing(ScriptedStage(())), QUESTIONS).run()


def test_nobody_waits_for_the_answer_any_more() -> None:
    ours, theirs = os.pipe()
    cluster = ScriptedCluster(ScriptedStage([says_nothing]))
    os.close(theirs)  # as a client's socket is closed

    with pytest.raises(RunStopped):
        Examination(request(), None, cluster, HostQuestions(limit_s=60.0), gone=ours).run()
    os.close(ours)
    assert all(agent.sock.fileno() == -1 for agent in cluster.agents)


def test_it_can_be_stopped_from_another_thread() -> None:
    joined = threading.Event()

    def waits(agent: ScriptedAgent) -> None:
        agent.join()
        agent.expect(Kind.CHECK)
        joined.set()
        agent.expect(Kind.QUIT)

    running = Examination(
        request(), None, ScriptedCluster(ScriptedStage([waits])), HostQuestions(limit_s=60.0)
    )

    def stop() -> None:
        joined.wait(10)
        running.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    with pytest.raises(RunStopped):
        running.run()
    stopper.join()


class Closing(ScriptedCluster):
    """A cluster that remembers whether it was closed."""

    closed = False

    def close(self, timeout_s: float) -> bool:
        self.closed = True
        return super().close(timeout_s)


def test_a_disk_without_room_for_its_folder_leaves_no_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(prefix: str) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), prefix)

    monkeypatch.setattr("tempfile.mkdtemp", full)
    cluster = Closing(ScriptedStage([answers]))
    with pytest.raises(OSError, match="No space left"):
        Examination(request(), None, cluster, QUESTIONS).run()
    assert cluster.closed


def test_one_that_has_ended_writes_into_no_descriptor_of_others() -> None:
    running = Examination(request(), None, ScriptedCluster(ScriptedStage([answers])), QUESTIONS)
    number = running._wake
    running.run()
    other = os.eventfd(0, os.EFD_NONBLOCK)
    os.dup2(other, number)  # a file that was opened since has the number
    running.stop()
    with pytest.raises(BlockingIOError):
        os.eventfd_read(number)
    for each in {other, number}:
        os.close(each)


@pytest.mark.process
def test_real_agents_look_at_their_host_and_leave(mark: str, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    backend = Agents(2, env={"SURVIVOR": mark})
    questions = HostQuestions(
        modules=("json", "no_such_module"), paths=(str(there), "/no/such"), limit_s=20.0
    )
    found = Examination(request(), None, backend, questions).run()

    assert backend.errors == []
    assert [process.returncode for process in backend.processes] == [0, 0]
    for each in found.hosts:
        assert each.facts is not None
        assert each.facts.unanswered == {}
        assert each.facts.installed.modules == {"json": True, "no_such_module": False}
        assert [p.exists for p in each.facts.paths] == [True, False]
        assert each.facts.memory_free
        assert each.facts.shm is not None
        assert each.facts.scratch
