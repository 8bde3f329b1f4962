"""`launcher.doctor`: the checks of a launch from Python, with a real agent on this machine."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest

import launcher
from launcher import settings
from launcher.diagnosis.checks.check import CheckState
from launcher.engine import client, server
from launcher.engine.address import key_for
from launcher.engine.protocol import Conversation
from launcher.errors import SpecError
from launcher.preflight import captured, prepare
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runtime_dir import runtime_folder
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from tests.agents import Agents

LOCK = threading.Lock()
TABLE = list(range(1000))


def locks() -> object:
    return LOCK


def script(folder: Path, source: str = "import json\n") -> str:
    (folder / "train.py").write_text(source)
    return str(folder / "train.py")


@pytest.mark.process
def test_a_launch_that_can_work(mark: str, home: Path, tmp_path: Path) -> None:
    report = launcher.doctor(script(tmp_path), num_processes=2, gpu=False)

    assert report.ok, report
    assert {"slots", "hosts", "python", "memory", "disk.scratch", "target.imports"} <= {
        c.id for c in report.checks
    }
    assert repr(report).splitlines()[-1] == report.summary
    assert run_ids(runs_root()) == []


@pytest.mark.process
def test_without_a_target_only_the_places_are_checked(mark: str, home: Path) -> None:
    checks = {c.id for c in launcher.doctor(gpu=False).checks}

    assert "slots" in checks
    assert not {"target", "target.imports", "target.size"} & checks


@pytest.mark.process
def test_a_missing_module_is_found_by_its_agent(mark: str, home: Path, tmp_path: Path) -> None:
    report = launcher.doctor(script(tmp_path, "import no_such_module\n"), gpu=False)

    assert not report.ok
    assert report.exit_code == 1
    assert "no_such_module is not installed" in report["target.imports"].text


@pytest.mark.process
def test_a_function_that_cannot_be_pickled_is_a_finding(mark: str, home: Path) -> None:
    def trains(lock: object = threading.Lock()) -> object:
        return lock

    report = launcher.doctor(trains, gpu=False)

    assert report["target"].state == CheckState.FAIL
    assert "cannot be pickled" in report["target"].text


@pytest.mark.process
def test_gpus_that_are_missing_leave_no_place(
    mark: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    report = launcher.doctor(script(tmp_path), gpu=True)

    assert report.exit_code == 69
    assert report["slots"].state == CheckState.FAIL
    assert report["memory"].state in (CheckState.PASS, CheckState.WARN)


@pytest.mark.process
def test_an_engine_asks_for_its_client(
    mark: str, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a cluster, whose session it keeps; here, its agents are started on this machine."""
    target = Target(TargetKind.SCRIPT, script(tmp_path, "import no_such_module\n"))
    spec = JobSpec(target, 2, gpu=False, workdir=str(tmp_path), mode=Mode.CLUSTER)
    prepared = prepare(Request(replace(spec, spark=SparkSpec(master="spark://h:7077"))))
    backend = Agents(2, env={"SURVIVOR": mark})
    monkeypatch.setattr(server, "make_backend", lambda *_: backend)
    key = key_for(prepared.asking)
    identity = {"target": key.target, "version": key.version, "build": key.build, "digest": "d", "log": "/l"}
    engine = server.Engine({**identity, "pid": 0}, runtime_folder() / "engine-d.sock", settings.load())
    near, far = map(Conversation, socket.socketpair())
    serving = threading.Thread(target=lambda: engine._answer(far, far.receive()))
    serving.start()
    monkeypatch.setattr(client, "engine_for", lambda _: near)
    report = prepared.judge(client.examine(prepared.asking, prepared.questions))
    serving.join()
    engine.leave()
    engine.serve()
    far.close()

    assert report["hosts"].state == CheckState.PASS
    assert report["target.imports"].state == CheckState.FAIL
    assert run_ids(runs_root()) == []


def test_a_target_that_does_not_exist_is_refused(home: Path) -> None:
    with pytest.raises(SpecError):
        launcher.doctor("no_such_script.py")


def test_an_unknown_option_is_refused(home: Path) -> None:
    with pytest.raises(SpecError):
        launcher.doctor(None, gpus=2)  # type: ignore[call-arg]


def test_the_largest_values_that_a_function_takes_along() -> None:
    small = "x"

    def train() -> object:
        return TABLE, small, LOCK

    found = captured(train)

    assert [each.name for each in found] == ["TABLE", "small", "LOCK"]
    assert found[0].size > 1000
    assert (found[2].kind, found[2].size) == ("lock", 0)


def test_paths_of_options_and_arguments_are_asked_for(tmp_path: Path) -> None:
    data, own, cache = tmp_path / "data", tmp_path / "work", tmp_path / "cache"
    for folder in (data, own, cache):
        folder.mkdir()
    (own / "train.py").write_text("")
    args = (f"--data={data}", "--out", str(own / "out"), "/no/such", "--lr=0.1")
    spec = JobSpec(
        Target(TargetKind.SCRIPT, str(own / "train.py"), args=args),
        mode=Mode.CLUSTER,
        workdir=str(own),
        spark=SparkSpec(spool="/spool"),
        env={"PYTHONPATH": "/opt/lib:relative", "CACHE": str(cache), "API_TOKEN": str(cache)},
    )
    prepared = prepare(Request(spec, environ={"PATH": "/none"}))

    assert prepared.questions.paths == ("/spool", str(data), str(cache))
    assert prepared.questions.folders == ("/opt/lib",)
    assert prepared.caller.option_paths == {"/spool": "--spool"}
    assert prepared.asking.spec.fresh
    assert "no java" in (prepared.caller.java or "")
