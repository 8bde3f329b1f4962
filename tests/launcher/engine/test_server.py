"""The engine's life: one for all clients, started when needed, gone when idle, and what its death means."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from launcher import settings
from launcher.engine import server as engine_module
from launcher.engine.address import key_for
from launcher.engine.client import engines, start_detached, stop_engine, submit
from launcher.engine.protocol import Conversation, Message, pack_request
from launcher.engine.server import TERMINATED, Engine
from launcher.errors import InternalError, SpecError
from launcher.job import Job
from launcher.runs.paths import home as home_folder
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_state, status_of
from launcher.runs.status import process_start
from launcher.runtime_dir import bind, connect, runtime_folder, runtime_place
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.state.host_facts import HostQuestions
from launcher.state.run_state import Phase, RunState
from launcher.supervisor import examination
from launcher.supervisor.control import control_addresses
from tests import commands, survivors
from tests.commands import Foreground, Gate, rankdeck, until
from tests.engines import pids

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

ROOT = Path(__file__).parents[3]


def script(path: Path, *args: object) -> Request:
    return Request(JobSpec(Target(TargetKind.SCRIPT, str(path), args=tuple(map(str, args))), workdir="/"))


def ended(request: Request) -> dict[str, Any]:
    """Submit a run and stay until its end; what the engine said of that."""
    run = submit(request, on_disconnect="stop")
    while not run.done:
        run.wait_for_news()
    run.close()
    assert run.ended is not None
    return run.ended


def place_of(request: Request) -> Path:
    return runtime_folder() / f"engine-{key_for(request).digest}.sock"


def submitting(target: Path, runs: int) -> subprocess.Popen[str]:
    """A client in a process of its own, which submits so many runs one after the other."""
    words = [",", str(target)] * runs
    command = [sys.executable, "-m", "tests.submitting", *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def told(clients: list[subprocess.Popen[str]]) -> list[dict[str, Any]]:
    said = [client.communicate(timeout=120)[0] for client in clients]
    assert [0] * len(clients) == [client.returncode for client in clients]
    return [json.loads(line) for lines in said for line in lines.splitlines()]


# --- its beginning and its end


def test_eight_clients_at_once_start_one_engine(targets: Path) -> None:
    runs = told([submitting(targets / "hello.py", 1) for _ in range(8)])

    assert [["succeeded", 0]] * 8 == [run["told"] for run in runs]
    assert pids() == sorted({run["engine"] for run in runs})
    assert 1 == len(pids())


def test_it_has_no_terminal_and_nothing_of_its_starters(targets: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        start_detached(script(targets / "hello.py"))
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    pid = pids()[0]

    assert pid != os.getsid(pid) != os.getsid(0)
    assert "/" == os.readlink(f"/proc/{pid}/cwd")
    assert "/dev/null" == os.readlink(f"/proc/{pid}/fd/0")
    fields = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    assert "0077" == fields["Umask"]
    assert 0 == int(fields["SigBlk"], 16)
    assert 1 == int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) or _is_reaper(pid)
    os.kill(pid, signal.SIGINT)
    os.kill(pid, signal.SIGHUP)
    assert "succeeded" == ended(script(targets / "hello.py"))["ended"]
    assert [pid] == pids()


def _is_reaper(pid: int) -> bool:
    """Whether what took the engine in is not one of us."""
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return survivors.MARK.encode() not in Path(f"/proc/{parent}/environ").read_bytes()


def test_an_idle_engine_leaves_without_a_trace(targets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKDECK_ENGINE_IDLE_S", "0.3")
    assert 0 == ended(script(targets / "hello.py"))["exit_code"]
    until(lambda: not pids())

    assert {".lock"} == {path.suffix for path in runtime_place().iterdir()}
    log = next((home_folder() / "engine").glob("*.log"))
    until(lambda: log.read_text().endswith(" gone\n"))
    assert 0o600 == log.stat().st_mode & 0o777
    assert " leaves after 0.3 s without work\n" in log.read_text()


def test_clients_that_come_while_it_leaves_get_their_runs(
    targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKDECK_ENGINE_IDLE_S", "0")
    runs = told([submitting(targets / "hello.py", 6) for _ in range(4)])

    assert [["succeeded", 0]] * 24 == [run["told"] for run in runs]
    assert [["succeeded", 0]] * 24 == [run["written"] for run in runs]
    until(lambda: not pids())


def test_an_engine_does_not_take_away_the_address_of_the_next(
    targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = script(targets / "hello.py")
    start_detached(request)
    first = pids()[0]
    for path in runtime_folder().glob("engine-*.[sj]*"):
        path.unlink()
    start_detached(request)
    second = pids()[0]
    assert first != second
    os.kill(first, signal.SIGTERM)
    until(lambda: process_start(first) is None)

    assert [second] == [each["pid"] for each in engines()]


def test_an_idle_engine_whose_folder_is_gone_leaves(targets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKDECK_ENGINE_IDLE_S", "0.5")
    start_detached(script(targets / "hello.py"))
    pid = pids()[0]
    for path in runtime_folder().iterdir():
        path.unlink()
    runtime_folder().rmdir()

    until(lambda: process_start(pid) is None)
    log = next((home_folder() / "engine").glob("*.log")).read_text()
    assert "Traceback" not in log


def test_an_engine_whose_folder_was_emptied_is_found_again(
    targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As happens when its user logs out, and comes back."""
    monkeypatch.setenv("RANKDECK_SESSION_IDLE_S", "0.5")
    gate = Gate(tmp_path / "gate")
    first = rankdeck("run", targets / "waiting.py", "--detach", "--", "gate", gate.path).stdout.strip()
    (engine,) = pids()
    shutil.rmtree(runtime_place())
    until(lambda: pids() == [engine])

    second = rankdeck("run", targets / "waiting.py", "--detach", "--", "stubborn").stdout.strip()
    (known,) = json.loads(rankdeck("engine", "status", "--json").stdout)
    assert (engine, {first, second}) == (known["pid"], {run["id"] for run in known["runs"]})
    assert 0 == rankdeck("stop", second, "--force").returncode
    gate.open()
    assert 0 == rankdeck("logs", "-f", first).returncode


def test_an_engine_that_cannot_start_says_why(
    targets: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text("[engine]\nidle_s = -1\n")
    done = rankdeck("run", targets / "hello.py")

    assert 70 == done.returncode
    assert "the engine did not start: " in done.stderr
    assert "engine.idle_s must be a number of at least 0" in done.stderr
    assert 1 == len(done.stderr.splitlines())
    assert [] == pids()


def test_its_log_is_kept_small(targets: Path) -> None:
    request = script(targets / "hello.py")
    log = home_folder() / "engine" / f"{key_for(request).digest}.log"
    log.parent.mkdir(parents=True)
    log.write_bytes(b"x" * (1 << 20))
    assert 0 == ended(request)["exit_code"]

    assert 1 << 20 == log.with_name(log.name + ".1").stat().st_size
    assert "up for local" in log.read_text()
    assert {str(log)} == {os.readlink(f"/proc/{pids()[0]}/fd/{fd}") for fd in (1, 2)}


# --- its death


def test_the_death_of_an_engine_is_the_end_of_its_runs_only(targets: Path, tmp_path: Path, mark: str) -> None:
    with Foreground("run", targets / "waiting.py", "-n", "2", "--", "plain", folder=tmp_path) as run:
        run.await_line("ready"), run.await_line("ready")
        victim, lost = pids()[0], commands.last()
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        assert 75 == run.finish()
        assert {} == survivors.gone(mark, within=killed + 2 - time.monotonic())

    assert f"the engine of run {lost.name} is gone, and the run with it" in run.narrated
    assert "Traceback" not in run.narrated
    left = {path.suffix for path in runtime_place().iterdir()}
    assert {".sock", ".json"} <= left
    for listed in (False, True):  # before another engine has come, and after
        if listed:
            assert 0 == rankdeck("run", targets / "hello.py").returncode
        entry = next(e for e in json.loads(rankdeck("ps", "--json").stdout) if e["id"] == lost.name)
        assert ("lost", 75) == (entry["state"], entry["exit_code"])
        assert ["r0 | ready", "r1 | ready"] == sorted(rankdeck("logs", lost.name).stdout.splitlines())
    assert 1 == len(pids())
    assert victim not in pids()
    assert 75 == rankdeck("logs", "-f", lost.name).returncode


def test_what_killed_engines_left_is_swept_up(targets: Path) -> None:
    identity = start_detached(script(targets / "waiting.py", "plain"))
    os.kill(pids()[0], signal.SIGKILL)
    until(lambda: not pids())
    control, elsewhere = control_addresses(runs_root() / identity)
    bind(elsewhere, socket.SOCK_SEQPACKET).close()  # as where a run's folder takes no socket
    listening = runtime_folder() / "alive.sock"
    assert control.exists()
    os.utime(elsewhere, (1.0, 1.0))
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as other:
        folder = os.open(runtime_folder(), os.O_PATH)
        other.bind(f"/proc/self/fd/{folder}/alive.sock")
        other.listen()
        os.utime(listening, (1.0, 1.0))
        os.close(folder)
        assert 0 == ended(script(targets / "hello.py"))["exit_code"]
        until(lambda: not control.exists() and not elsewhere.exists())
        assert listening.exists()


def test_sigterm_stops_its_runs_and_ends_it(targets: Path, tmp_path: Path, mark: str) -> None:
    with Foreground("run", targets / "waiting.py", "--", "polite", folder=tmp_path) as run:
        run.await_line("ready")
        pid = pids()[0]
        os.kill(pid, signal.SIGTERM)
        assert 143 == run.finish()
    until(lambda: process_start(pid) is None)

    assert "r0 | saved" == run.printed[-1]
    assert f"stopped: {TERMINATED}" in run.narrated
    assert {} == survivors.alive(mark)
    assert (Phase.STOPPED, 143) == (read_state(commands.last()).phase, read_state(commands.last()).exit_code)


class SlowStart:
    """A job whose launch takes until it is let on; it remembers what it was told."""

    def __init__(self) -> None:
        self.id, self.folder, self.done = "slow", Path("/"), False
        self.state = RunState()
        self.begun, self.go, self.stopped = threading.Event(), threading.Event(), ""

    def launch(self, *_: object, **__: object) -> SlowStart:
        self.begun.set()
        assert self.go.wait(60)
        return self

    def stop(self, *, reason: str) -> None:
        self.stopped, self.done = reason, True

    def watch(self, watcher: object) -> None:
        del watcher


def test_a_run_that_is_being_started_when_it_is_told_to_end_is_stopped_too(
    monkeypatch: pytest.MonkeyPatch, targets: Path
) -> None:
    job = SlowStart()
    monkeypatch.setattr(engine_module, "launch", job.launch)
    identity = {"target": "t", "version": "1", "build": "b", "digest": "d", "log": "/l", "pid": 0}
    engine = Engine(identity, runtime_folder() / "engine-d.sock", settings.load())
    packed = pack_request(script(targets / "hello.py"))
    near, far = socket.socketpair()
    asked = Message({**packed.document, "op": "submit", "build": "b"}, packed.blobs)
    client = threading.Thread(target=engine._answer, args=(Conversation(far), asked))
    serving = threading.Thread(target=engine.serve)
    client.start()
    assert job.begun.wait(60)
    engine.leave()
    serving.start()
    serving.join(0.3)
    assert serving.is_alive()  # it waits for what is being started
    job.go.set()
    serving.join(30)

    assert not serving.is_alive()
    assert TERMINATED == job.stopped
    client.join(30)
    near.close()
    far.close()


class NoRoom:
    """A backend whose session other runs fill; it remembers whether it was closed."""

    def __init__(self) -> None:
        self.closed = 0
        self.whole: list[bool] = []

    def reserve(self, request: Request, *, whole: bool) -> bool:
        self.whole.append(whole)
        return whole

    def close(self, timeout_s: float) -> bool:
        self.closed += 1
        return True


def refuse(*_: object, **__: object) -> Job:
    raise SpecError("no such file")


def answered(request: Request, asked: dict[str, Any]) -> dict[str, Any]:
    """What an engine in this process answers to a client's message about a request; it has left then."""
    identity = {"target": "t", "version": "1", "build": "b", "digest": "d", "log": "/l", "pid": 0}
    engine = Engine(identity, runtime_folder() / "engine-d.sock", settings.load())
    packed = pack_request(request)
    near, far = map(Conversation, socket.socketpair())
    engine._answer(far, Message({**packed.document, "build": "b", **asked}, packed.blobs))
    answer = near.receive().document
    engine.leave()
    engine.serve()
    near.close()
    far.close()
    return answer


@pytest.mark.parametrize(
    ("whole", "answer", "closed"),
    [(False, {"full": True}, 1), (True, {"error": "SpecError", "message": "no such file", "hint": None}, 1)],
)
def test_a_run_without_room_is_sent_on_and_one_that_fails_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch, targets: Path, whole: bool, answer: dict[str, object], closed: int
) -> None:
    backend = NoRoom()
    monkeypatch.setattr(engine_module, "make_backend", lambda *_: backend)
    monkeypatch.setattr(engine_module, "launch", refuse)
    said = answered(script(targets / "hello.py"), {"op": "submit", "whole": whole})
    assert (answer, closed, [whole]) == (said, backend.closed, backend.whole)


def no_descriptor(*_: object, **__: object) -> Job:
    raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))


def test_a_check_that_cannot_begin_gives_its_room_back(
    monkeypatch: pytest.MonkeyPatch, targets: Path
) -> None:
    backend = NoRoom()
    monkeypatch.setattr(engine_module, "make_backend", lambda *_: backend)
    monkeypatch.setattr(examination, "Examination", no_descriptor)
    asked = {"op": "examine", "whole": True, "questions": to_plain(HostQuestions())}
    assert "Too many open files" in answered(script(targets / "hello.py"), asked)["message"]
    assert backend.closed == 1


BAD = [
    *(("--master", "spark://127.0.0.1:1"), ("--master", "spark://no.such.host.invalid:7077")),
    *(("--master", "spork://h:1"), ("--master", "local[x]"), ("--remote", "sc://127.0.0.1:1")),
]


def test_a_spark_that_cannot_be_reached_leaves_no_engine(targets: Path) -> None:
    for option, address in BAD:
        done = rankdeck("run", targets / "hello.py", option, address)
        assert done.returncode in (2, 69), done.stderr
    until(lambda: not pids())

    until(lambda: {".lock"} >= {path.suffix for path in runtime_place().iterdir()})
    assert "no engine" in rankdeck("engine", "status").stderr


# --- what it says, and being told to end


def test_it_says_what_it_holds(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    run = start_detached(script(targets / "waiting.py", "gate", gate.path))
    until(lambda: status_of(runs_root() / run).state is Phase.RUNNING)
    known = json.loads(rankdeck("engine", "status", "--json").stdout)[0]

    assert [{"id": run, "state": "running"}] == known["runs"]
    assert (pids()[0], "local", 0) == (known["pid"], known["target"], known["clients"])
    assert 1 == known["slots"]["local_runs"]
    assert known["session"] is None
    assert 5e6 < known["memory"] < 5e8
    assert known["version"] in rankdeck("--version").stdout
    row = rankdeck("engine", "status").stdout.splitlines()[1].split()
    assert [str(known["pid"]), "local", known["version"]] == row[:3]
    gate.open()


def test_it_is_not_ended_under_its_runs_without_force(targets: Path, mark: str) -> None:
    run = start_detached(script(targets / "waiting.py", "polite"))
    until(lambda: status_of(runs_root() / run).state is Phase.RUNNING)
    refused = rankdeck("engine", "stop")
    assert 2 == refused.returncode
    assert f"runs are going on: {run} (--force stops them too)" in refused.stderr
    known = next(engines())
    with pytest.raises(SpecError, match="1 run is going on"):
        stop_engine(known, force=False)
    assert Phase.RUNNING is status_of(runs_root() / run).state

    done = rankdeck("engine", "stop", "--force")
    assert (0, f"engine {known['pid']} for local has ended\n") == (done.returncode, done.stderr)
    assert {} == survivors.alive(mark, engines=True)
    assert (Phase.STOPPED, 143) == (read_state(commands.last()).phase, read_state(commands.last()).exit_code)
    assert "no engine" in rankdeck("engine", "status").stderr
    stop_engine(known, force=False)  # it has gone by itself while we asked


def test_one_that_does_not_answer_is_told(targets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_detached(script(targets / "hello.py"))
    pid = pids()[0]
    monkeypatch.setattr("launcher.engine.client.CONNECT_S", 0.3)
    os.kill(pid, signal.SIGSTOP)
    try:
        with pytest.raises(InternalError, match=rf"the engine, process {pid}, has not answered for 0.3 s"):
            start_detached(script(targets / "hello.py"))
        assert [pid] == [each["pid"] for each in engines() if "has not answered" in each["silent"]]
    finally:
        os.kill(pid, signal.SIGCONT)
    assert [pid] == pids()


def test_one_that_was_stopped_does_not_act_later_on_what_nobody_waits_for(targets: Path) -> None:
    request = script(targets / "hello.py")
    start_detached(request)
    until(lambda: status_of(commands.last()).state.final)
    pid, before = pids()[0], commands.runs()
    talks = [Conversation(connect(place_of(request), socket.SOCK_STREAM, 5)) for _ in (0, 1)]
    greetings = [talk.receive().document for talk in talks]
    packed = pack_request(request)
    os.kill(pid, signal.SIGSTOP)
    try:
        until(lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
        for talk, op in zip(talks, ("submit", "stop"), strict=True):
            talk.send({**packed.document, "op": op, "force": True, **greetings[0]}, *packed.blobs)
            talk.close()
    finally:
        os.kill(pid, signal.SIGCONT)
    until(lambda: next(engines())["clients"] == 0)

    assert (before, [pid]) == (commands.runs(), pids())


@pytest.mark.parametrize("op", ["submit", "status", "stop"])
def test_a_client_of_another_version_is_told_so_in_one_sentence(targets: Path, op: str) -> None:
    request = script(targets / "hello.py")
    start_detached(request)
    talk = Conversation(connect(place_of(request), socket.SOCK_STREAM, 5))
    greeting = talk.receive().document
    talk.send({"op": op, "version": "9.9", "build": "other"})
    answer = talk.receive().document
    talk.close()

    assert "SpecError" == answer["error"]
    assert (
        f"this engine is rankdeck {greeting['version']} ({greeting['build']}) and the client is rankdeck 9.9 "
        "(other): stop it with `rankdeck engine stop`"
    ) == answer["message"]
    assert [greeting["pid"]] == pids()


def test_another_build_gets_another_engine(targets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    start_detached(script(targets / "hello.py"))
    monkeypatch.setattr("launcher.engine.address.fingerprint", lambda: "edited")
    start_detached(script(targets / "hello.py"))

    assert 2 == len(pids())
    assert {"edited"} < {each["build"] for each in engines()}
