"""Files of ranks on their way home: what the supervisor takes, asks for, tells, and does not wait for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from launcher.channel import frames
from launcher.channel.frames import Kind
from launcher.distributor import launch
from launcher.job import Job
from launcher.runs import artifacts
from launcher.runs.artifacts import read_artifacts
from launcher.spec.files.bundle import Bundle, Manifest
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.supervisor import collection
from launcher.testing import Script, ScriptedAgent, ScriptedCluster, ScriptedStage

Begin = Callable[..., tuple[Job, ScriptedCluster]]


@pytest.fixture
def begin(tmp_path: Path) -> Begin:
    def start(*scripts: Script, **spec: Any) -> tuple[Job, ScriptedCluster]:
        backend = ScriptedCluster(ScriptedStage(scripts))
        target = Target(TargetKind.SCRIPT, "/w/train.py")
        job = JobSpec(target, num_processes=len(scripts), mode=Mode.CLUSTER, workdir=str(tmp_path), **spec)
        manifest = Manifest(str(tmp_path), main=f"{tmp_path}/train.py")
        request = Request(job, environ={"PATH": "/bin"}, bundle=Bundle(manifest))
        return launch(request, root=tmp_path / "runs", backend=backend), backend

    return start


def prepare(agent: ScriptedAgent, *, collects: bool = True) -> Manifest:
    """Act as an agent that has got its files; what it was sent."""
    agent.expect(Kind.PREPARE)
    manifest = b"".join(f.payload for f in agent.received if f.kind is Kind.BUNDLE)
    agent.received.clear()
    agent.send(Kind.PREPARED, {"folder": "/scratch", "collects": collects})
    return Manifest.decode(manifest)


def join(agent: ScriptedAgent, *, collects: bool = True, **hello: Any) -> Manifest:
    """Act as an agent until its rank is to start."""
    agent.join(**hello)
    manifest = prepare(agent, collects=collects)
    reach(agent)
    agent.expect(Kind.START)
    return manifest


def reach(agent: ScriptedAgent) -> None:
    """Act as an agent that reaches rank 0's host."""
    addresses = agent.expect(Kind.REACH).document()["addresses"]
    agent.send(Kind.REACHED, {"found": dict.fromkeys(addresses, ("eth0", ""))})


def send_file(agent: ScriptedAgent, path: str, data: bytes, **more: Any) -> None:
    """Send a file."""
    agent.send(Kind.FILE_BEGIN, {"path": path, "size": len(data), "time": 5.0, "rank": None, **more})
    for start in range(0, len(data), 4):
        piece = data[start : start + 4]
        agent.sock.sendall(frames.header(Kind.FILE_DATA, len(piece)) + piece)
    agent.send(Kind.FILE_END, {"digest": hashlib.sha256(data).hexdigest()})


def end(agent: ScriptedAgent, *, code: int = 0, **more: Any) -> None:
    """Act as an agent whose rank has ended."""
    agent.fact(ev.RankStarted, rank=agent.agent, pid=1)
    agent.fact(ev.RankExited, rank=agent.agent, exit_code=code, **more)
    agent.fact(ev.CleanupProven)
    agent.send(Kind.IDLE, {"port": 1})


def sweep(agent: ScriptedAgent, **answer: Any) -> dict[str, Any]:
    """Act as an agent that has nothing more to send; what it was told."""
    asked = agent.expect(Kind.SWEEP).document()
    agent.send(Kind.SWEPT, {"left": {}, "left_count": 0, **answer})
    return asked


def leave(agent: ScriptedAgent) -> None:
    """Act as an agent that is dismissed."""
    agent.expect(Kind.QUIT)
    agent.sock.close()


def content(job: Job) -> dict[tuple[str, str], bytes]:
    """All files that came home, by host and path."""
    return {
        (each.host, each.path): artifacts.place_of(job.folder, each).read_bytes()
        for each in read_artifacts(job.folder)
    }


def test_files_come_while_ranks_run_and_after_their_end(begin: Begin) -> None:
    def alpha(agent: ScriptedAgent) -> None:
        join(agent)
        send_file(agent, "early.pt", b"while they run")
        end(agent)
        agent.expect(Kind.SWEEP)
        agent.send(Kind.SWEEPING, {"files": 1, "bytes": 5})
        send_file(agent, "late.pt", b"after")
        agent.send(Kind.SWEPT, {"left": {}, "left_count": 0})
        leave(agent)

    def beta(agent: ScriptedAgent) -> None:
        join(agent)
        end(agent)
        send_file(agent, "early.pt", b"of another host")
        sweep(agent)
        leave(agent)

    job, backend = begin(alpha, beta)
    state = job.wait(20)

    assert [] == backend.errors
    assert state.exit_code == 0
    assert content(job) == {
        ("host0", "early.pt"): b"while they run",
        ("host0", "late.pt"): b"after",
        ("host1", "early.pt"): b"of another host",
    }
    found = {(a.host, a.path): (a.rank, a.first_rank) for a in read_artifacts(job.folder)}
    assert found == {
        ("host0", "early.pt"): (0, 0),
        ("host0", "late.pt"): (0, 0),
        ("host1", "early.pt"): (1, 1),
    }
    assert state.came_home is not None
    assert (state.came_home.total_files, state.came_home.total_size) == (3, 34)
    assert state.coming == ()


def test_of_several_ranks_on_a_host_the_agent_may_know_which_has_written(begin: Begin) -> None:
    def first(agent: ScriptedAgent) -> None:
        join(agent, host="both", address="both")
        send_file(agent, "known", b"1", rank=1)
        send_file(agent, "unknown", b"1")
        end(agent)
        sweep(agent)
        leave(agent)

    def second(agent: ScriptedAgent) -> None:
        agent.join(host="both", address="both")
        reach(agent)  # it gets its files once the first agent of the host has them
        prepare(agent, collects=False)
        agent.expect(Kind.START)
        end(agent)
        leave(agent)

    job, backend = begin(first, second)
    job.wait(20)
    assert [] == backend.errors
    assert {each.path: each.rank for each in read_artifacts(job.folder)} == {"known": 1, "unknown": None}


def test_nothing_is_asked_of_agents_that_do_not_collect(begin: Begin) -> None:
    def shares(agent: ScriptedAgent) -> None:
        join(agent, collects=False)
        end(agent)
        leave(agent)

    job, backend = begin(shares)
    assert job.wait(20).exit_code == 0
    assert Kind.SWEEP not in {frame.kind for frame in backend.agents[0].received}


def test_a_host_is_told_when_its_ranks_were_killed_on_its_own_clock(begin: Begin) -> None:
    asked: dict[str, Any] = {}

    def killed(agent: ScriptedAgent) -> None:
        join(agent)
        end(agent, code=137, signal="SIGKILL")
        asked.update(sweep(agent, left={"half.pt": "a rank was killed while it wrote it"}, left_count=1))
        leave(agent)

    def ends(agent: ScriptedAgent) -> None:
        join(agent)
        agent.expect(Kind.STOP)
        end(agent, code=1)
        sweep(agent)
        leave(agent)

    job, backend = begin(killed, ends)
    state = job.wait(20)
    assert [] == backend.errors
    assert len(asked["deaths"]) == 1
    [note] = [each.text for each in state.notes if "half.pt" in each.text]
    assert note == "half.pt on host0 did not come home: a rank was killed while it wrote it"


def test_the_next_attempt_gets_what_came_home_last(begin: Begin, tmp_path: Path) -> None:
    manifests: list[Manifest] = []

    def restarted(agent: ScriptedAgent) -> None:
        manifests.append(join(agent))
        send_file(agent, "snapshot.pt", b"first")
        send_file(agent, "snapshot.pt", b"second")
        agent.send(Kind.FILE_BEGIN, {"path": "latest", "size": 0, "time": 1.0, "link": "snapshot.pt"})
        agent.send(Kind.FILE_END, {"digest": ""})
        end(agent, code=3)
        sweep(agent)
        manifests.append(prepare(agent))
        agent.expect(Kind.START)
        end(agent)
        sweep(agent)
        leave(agent)

    job, backend = begin(restarted, max_restarts=1)
    assert job.wait(20).exit_code == 0
    assert [] == backend.errors
    first, second = manifests
    assert first.returned == ()
    [file] = second.returned
    assert (file.place, file.size) == (f"src{tmp_path}/snapshot.pt", 6)
    assert Path(file.origin).read_bytes() == b"second"
    assert second.links == ((f"src{tmp_path}/latest", "snapshot.pt"),)


def test_what_home_refuses_is_told_to_the_agent_and_to_people(begin: Begin) -> None:
    def writes_much(agent: ScriptedAgent) -> None:
        join(agent)
        send_file(agent, "large", b"x" * 100)
        assert agent.expect(Kind.REFUSE).document() == {"path": "large"}
        send_file(agent, "small", b"x")
        send_file(agent, "../../out", b"x")
        assert agent.expect(Kind.REFUSE).document() == {"path": "../../out"}
        end(agent)
        sweep(agent)
        leave(agent)

    job, backend = begin(writes_much, artifacts_limit=50)
    state = job.wait(20)
    assert [] == backend.errors
    assert content(job) == {("host0", "small"): b"x"}
    notes = [each.text for each in state.notes]
    assert "1 file did not come home, --artifacts-limit is reached: large" in notes
    assert "1 file did not come home, its name cannot be used here: ../../out" in notes


def test_an_agent_that_goes_away_leaves_whole_files_and_a_note(begin: Begin) -> None:
    def dies(agent: ScriptedAgent) -> None:
        join(agent)
        send_file(agent, "whole", b"1")
        agent.send(Kind.FILE_BEGIN, {"path": "half", "size": 9, "time": 1.0})
        agent.sock.sendall(frames.header(Kind.FILE_DATA, 1) + b"x")
        agent.sock.close()

    job, _ = begin(dies)
    state = job.wait(20)
    assert content(job) == {("host0", "whole"): b"1"}
    assert [p.name for p in (job.folder / "artifacts").iterdir()] == ["host0"]
    assert "what ranks on host0 wrote last may be lost: its agent is gone" in [n.text for n in state.notes]


def test_a_request_to_stop_ends_the_wait_for_files(begin: Begin) -> None:
    jobs: SimpleQueue[Job] = SimpleQueue()

    def endless(agent: ScriptedAgent) -> None:
        join(agent)
        end(agent)
        agent.expect(Kind.SWEEP)
        agent.send(Kind.SWEEPING, {"files": 1, "bytes": 1 << 40})
        jobs.get(timeout=20).stop()
        leave(agent)

    job, backend = begin(endless)
    jobs.put(job)
    state = job.wait(20)
    assert [] == backend.errors
    assert state.exit_code == 0  # the ranks had ended
    assert any(n.text.startswith("files of host0 did not come home: ") for n in state.notes)


def test_a_host_that_sends_nothing_is_not_waited_for(begin: Begin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collection, "SILENCE_S", 0.2)

    def silent(agent: ScriptedAgent) -> None:
        join(agent)
        end(agent)
        agent.expect(Kind.SWEEP)
        leave(agent)

    job, backend = begin(silent)
    state = job.wait(20)
    assert [] == backend.errors
    assert "files of host0 did not come home: nothing came for 0.2 s" in [n.text for n in state.notes]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"path": 5, "size": 1, "time": 1.0},
        {"path": "a", "size": -1, "time": 1.0},
        {"path": "a", "size": True, "time": 1.0},
        {"path": "a", "size": 1, "time": float("nan")},
        {"path": "a", "size": 1, "time": 1.0, "rank": "0"},
    ],
)
def test_an_invalid_announcement_ends_the_run_with_a_sentence(begin: Begin, document: dict[str, Any]) -> None:
    def broken(agent: ScriptedAgent) -> None:
        join(agent)
        agent.send(Kind.FILE_BEGIN, document)
        with pytest.raises(ConnectionError):
            agent.expect(Kind.QUIT)

    job, _ = begin(broken)
    state = job.wait(20)
    assert "an agent announced an invalid file" in state.why


def test_pieces_without_an_announcement_are_dropped(begin: Begin) -> None:
    def confused(agent: ScriptedAgent) -> None:
        join(agent)
        agent.sock.sendall(frames.header(Kind.FILE_DATA, 1) + b"x")
        agent.send(Kind.FILE_END, {"digest": "0"})
        agent.send(Kind.FILE_ABORT, {})
        agent.send(Kind.FILES_GONE, {"paths": "no list"})
        end(agent)
        sweep(agent, left="no table")
        leave(agent)

    job, backend = begin(confused)
    assert job.wait(20).exit_code == 0
    assert [] == backend.errors
    assert read_artifacts(job.folder) == []


def test_many_files_are_few_facts(begin: Begin) -> None:
    def writes_many(agent: ScriptedAgent) -> None:
        join(agent)
        for i in range(500):
            send_file(agent, f"{i}.bin", b"x")
        end(agent)
        sweep(agent)
        leave(agent)

    job, _ = begin(writes_many)
    state = job.wait(20)
    assert state.came_home is not None
    assert state.came_home.total_files == 500
    told = [e for e in job.events() if isinstance(e, ev.ArtifactsKept)]
    assert len(told) < 50
    assert sum(e.files for e in told) == 500


@pytest.mark.parametrize(("limit", "collect"), [(0, False), (1, True)])
def test_with_a_limit_of_zero_nothing_is_collected(begin: Begin, limit: int, collect: bool) -> None:
    ordered: list[object] = []

    def asked(agent: ScriptedAgent) -> None:
        agent.join()
        ordered.append(agent.expect(Kind.PREPARE).document()["collect"])
        agent.send(Kind.PREPARED, {"folder": "/scratch", "collects": False})
        reach(agent)
        agent.expect(Kind.START)
        end(agent)
        leave(agent)

    job, backend = begin(asked, artifacts_limit=limit)
    assert job.wait(20).exit_code == 0
    assert [] == backend.errors
    assert ordered == [collect]
