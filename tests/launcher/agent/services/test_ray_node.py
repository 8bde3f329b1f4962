"""A Ray node's command, its end, and what people are told of it; Ray is one that only looks like it."""

from __future__ import annotations

import getpass
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from launcher.agent import process
from launcher.agent.services import ray_node
from launcher.agent.services.ray_node import Node
from launcher.backends.spark.launcher_zip import launcher_zip
from launcher.state.outcome_rules import SERVICES_LIMIT_S
from tests.targets import lookalikes


@dataclass
class Line:
    """A line to an agent, whose end the test has."""

    agent: socket.socket
    service: socket.socket
    pages: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    is_ready: threading.Event = field(default_factory=threading.Event)

    def fileno(self) -> int:
        return self.service.fileno()

    def ready(self, url: str = "") -> None:
        self.pages.append(url)
        self.is_ready.set()

    def lost(self, reason: str) -> None:
        self.reasons.append(reason)

    def release(self) -> None:
        self.agent.shutdown(socket.SHUT_WR)


@pytest.fixture
def line() -> Iterator[Line]:
    agent, service = socket.socketpair()
    with agent, service:
        yield Line(agent, service)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    lookalikes.write(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("RAY_NODES", str(tmp_path / "nodes"))
    return tmp_path / "site"


def start(line: Line, folder: Path, *, head: bool = True, python: str = sys.executable) -> threading.Thread:
    """Run a node in a thread."""
    node = Node(
        line,
        head=head,
        cluster="127.0.0.2:5000",
        address="127.0.0.2",
        ports=(5000, 6000, 7000),
        cpus=3,
        gpus=0,
        python=python,
        folder=str(folder),
        imports="/own:/sent",
        options={},
    )

    def run() -> None:
        with node:
            node.run()

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def named(name: str) -> list[int]:
    return [pid for pid in process.descendants(os.getpid()) if ray_node.name_of(pid) == name]


@pytest.mark.process
@pytest.mark.usefixtures("site")
def test_a_node_is_ready_with_its_page_and_ends_with_all_of_it_once_released(
    line: Line, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    thread = start(line, tmp_path / "f")
    assert line.is_ready.wait(20)
    assert (1, 1) == (len(named("raylet")), len(named("gcs_server")))
    line.release()
    thread.join(20)

    assert (["http://127.0.0.2:6000"], []) == (line.pages, line.reasons)
    assert not named("raylet")
    assert "(greet pid=77) hello\n" == capfd.readouterr().out


@pytest.mark.process
@pytest.mark.usefixtures("site")
@pytest.mark.parametrize("name", ["gcs_server", "raylet"])
def test_a_node_that_loses_a_vital_part_names_it(line: Line, tmp_path: Path, name: str) -> None:
    thread = start(line, tmp_path / "f")
    assert line.is_ready.wait(20)
    os.kill(named(name)[0], signal.SIGKILL)
    thread.join(20)

    assert [f"its {name} was killed by SIGKILL"] == line.reasons
    assert not named("raylet")


@pytest.mark.process
@pytest.mark.usefixtures("site")
def test_a_part_that_the_command_has_waited_for_ended_as_that_says(
    line: Line, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ray_node, "how_ended", lambda pid: "")
    thread = start(line, tmp_path / "f")
    assert line.is_ready.wait(20)
    os.kill(named("raylet")[0], signal.SIGKILL)
    thread.join(20)

    assert ["its raylet was killed by SIGKILL"] == line.reasons


@pytest.mark.process
@pytest.mark.usefixtures("site")
def test_a_command_that_is_killed_says_so(line: Line, tmp_path: Path) -> None:
    thread = start(line, tmp_path / "f")
    assert line.is_ready.wait(20)
    command = next(pid for pid in process.descendants(os.getpid()) if b"--block" in _cmdline(pid))
    orphans = [pid for name in ("raylet", "gcs_server") for pid in named(name)]
    os.kill(command, signal.SIGKILL)
    thread.join(20)

    assert ["ray start was killed by SIGKILL"] == line.reasons
    for pid in orphans:  # an agent would end them
        os.kill(pid, signal.SIGKILL)


def _cmdline(pid: int) -> bytes:
    return Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.process
def test_a_node_that_cannot_be_started_says_why(
    line: Line, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_REFUSES", "127.0.0.2")
    start(line, tmp_path / "f", head=False).join(20)

    assert ([], ["ray start ended with code 3: Error: no node can be started here"]) == (
        line.pages,
        line.reasons,
    )
    assert "no node can be started here" in capfd.readouterr().err


@pytest.mark.process
def test_a_node_that_needs_longer_than_ray_waits_is_started_again(
    line: Line, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_IS_SLOW", "2")
    thread = start(line, tmp_path / "f")
    assert line.is_ready.wait(20)
    line.release()
    thread.join(20)

    assert (["http://127.0.0.2:6000"], []) == (line.pages, line.reasons)


@pytest.mark.process
def test_a_node_that_is_never_ready_says_so_in_the_end(
    line: Line, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_IS_SLOW", "100")
    thread = start(line, tmp_path / "f")
    thread.join(20)

    said = "Exception: The current node timed out during startup. This could happen because"
    assert [f"ray start ended with code 1: {said}"] == line.reasons
    assert "xxx" == next((tmp_path / "f").glob("*/tries")).read_text()


@pytest.mark.process
def test_an_interpreter_without_ray_is_named(line: Line, tmp_path: Path) -> None:
    empty = tmp_path / "python"
    empty.write_text(f'#!/bin/sh\nexec {sys.executable} -I "$@"\n')
    empty.chmod(0o755)
    start(line, tmp_path / "f", python=str(empty)).join(20)

    assert [f"Ray is not installed for {empty}"] == line.reasons


def test_options_of_head_and_node() -> None:
    assert [
        "--head",
        "--port=1",
        "--dashboard-host=h",
        "--dashboard-port=2",
        "--ray-client-server-port=3",
    ] == (ray_node.head_options("h", (1, 2, 3)))
    own = ray_node.node_options("10.0.0.2", {"num-cpus": "4", "verbose": ""}, "/f")
    assert {"--node-ip-address=10.0.0.2", "--num-cpus=4", "--verbose", "--temp-dir=/f"} <= {*own}


def test_workers_import_what_the_driver_does_and_the_library_last(tmp_path: Path) -> None:
    own = {"PYTHONPATH": "/site:/own", "RAY_ADDRESS": "10.0.0.9:6379", "A": "b"}
    env = ray_node.environ(own, "10.0.0.1:5000", "/own:/sent", str(tmp_path))
    *path, library = env["PYTHONPATH"].split(":")

    assert (["/own", "/sent", "/site"], "b") == (path, env["A"])
    assert ("10.0.0.1:5000", str(tmp_path)) == (env["RAY_ADDRESS"], env["TMPDIR"])
    assert f"/tmp/torchinductor_{getpass.getuser()}" == env["TORCHINDUCTOR_CACHE_DIR"]
    assert "0" == env["RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S"]
    assert int(env["RAY_NUM_REDIS_GET_RETRIES"]) * 2.0 > SERVICES_LIMIT_S, (
        "a node gives up before its run does"
    )
    assert ["launcher"] == os.listdir(library)
    assert "launcher\n" == imported(env)


def imported(env: Mapping[str, str]) -> str:
    """What a worker prints that has no packages but those of `PYTHONPATH`."""
    code = "import launcher; launcher.report(step=1); print(launcher.__name__)"
    command = [sys.executable, "-S", "-c", code]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=True).stdout


def test_workers_on_executors_import_the_library_from_the_zip_that_those_have(tmp_path: Path) -> None:
    descriptor = os.memfd_create("zip")
    with open(descriptor, "wb") as file:
        file.write(launcher_zip())
        file.flush()
        packages = f"/proc/{os.getpid()}/fd/{descriptor}"
        code = "from launcher.agent.services import ray_node; print(ray_node.library('absent'))"
        node = subprocess.run(
            [sys.executable, "-S", "-c", code],
            env={"PYTHONPATH": packages},
            cwd="/",
            capture_output=True,
            text=True,
            check=True,
        )

        assert (f"{packages}\n", "") == (node.stdout, node.stderr)
        assert "launcher\n" == imported({"PYTHONPATH": packages})


def test_how_a_process_ended_is_known_before_anybody_waits_for_it() -> None:
    for code, expected in (("kill -9 $$", "was killed by SIGKILL"), ("exit 3", "ended with code 3")):
        child = subprocess.Popen(["sh", "-c", code])
        descriptor = os.pidfd_open(child.pid)
        select.select([descriptor], [], [], 20)
        os.close(descriptor)
        assert expected == ray_node.how_ended(child.pid)
        child.wait()
        assert "" == ray_node.how_ended(child.pid)


@pytest.mark.parametrize(
    ("said", "code", "started", "expected"),
    [
        (["  raylet [exit code=-9]"], 1, True, "its raylet was killed by SIGKILL"),
        (["now\tERR scripts.py:87 -- \x1b[31m\x1b[1mgcs_server\x1b[22m [exit code=1]\x1b[0m"], 1, True,
         "its gcs_server ended with code 1"),
        (["log_monitor [exit code=2]", "raylet [exit code=-6]"], 1, True,
         "its log_monitor ended with code 2"),
        (["ModuleNotFoundError: No module named 'ray'"], 1, False, "Ray is not installed for /py"),
        (["/py: Error … (No module named 'ray')"], 1, False, "Ray is not installed for /py"),
        ([], -15, True, "ray start was killed by SIGTERM"),
        (["a", "  Error: b ", ""], 2, False, "ray start ended with code 2: Error: b"),
        (["a"], 2, True, "ray start ended with code 2"),
        ([], 0, False, "ray start ended with code 0"),
    ],
)  # fmt: skip
def test_words_tell_why(said: list[str], code: int, started: bool, expected: str) -> None:
    assert expected == ray_node.reason(said, code, ray_node.exits(said), python="/py", started=started)
