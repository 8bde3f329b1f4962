"""`rankdeck doctor` on this machine: its lines, its codes, and that nothing is left of it."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
from pathlib import Path

import pytest

from tests.commands import COMMAND, Foreground, rankdeck, runs, until
from tests.fakes.nvml_build import FakeGpu, FakeNvml

pytest_plugins = ("tests.launcher.nvml_fixture",)
pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark", "home")]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text("import beside\nprint('never run')\n")
    (folder / "beside.py").write_text("import json\n")
    return folder


def test_what_can_work_is_told_a_line_a_check(project: Path) -> None:
    done = rankdeck("doctor", "train.py", "-n", "2", "--no-gpu", cwd=project)

    assert done.returncode == 0, done.stdout
    assert {line.split()[0] for line in done.stdout.splitlines()} <= {"pass", "warn", "unknown", "→"}
    assert "target.imports" in done.stdout
    assert "never run" not in done.stdout
    assert "checks pass" in done.stderr
    assert runs() == []


def test_json_has_every_check(project: Path) -> None:
    done = rankdeck("doctor", "train.py", "--no-gpu", "--json", cwd=project)
    report = json.loads(done.stdout)

    assert report.keys() == {"ok", "exit_code", "seconds", "checks"}
    assert report["ok"] is True
    assert all(each.keys() == {"id", "state", "text", "remedy", "hosts"} for each in report["checks"])


def test_a_missing_module_fails_last_with_its_remedy(project: Path) -> None:
    (project / "beside.py").write_text("import no_such_module\n")
    done = rankdeck("doctor", "train.py", "--no-gpu", cwd=project)

    assert done.returncode == 1
    finding, remedy = done.stdout.splitlines()[-2:]
    assert finding.startswith("fail")
    assert "no_such_module is not installed" in finding
    assert "→ install it" in remedy


def test_too_few_open_files_fail(project: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    done = subprocess.run(
        ["/bin/sh", "-c", f"ulimit -S -n 200 && exec {COMMAND} doctor --no-gpu --json"],
        capture_output=True,
        text=True,
        check=False,
        cwd=project,
        timeout=60,
    )
    found = {each["id"]: each for each in json.loads(done.stdout)["checks"]}

    assert hard == resource.RLIM_INFINITY or hard > 200
    assert (done.returncode, found["limits.files"]["state"]) == (1, "fail")
    assert "200 open files" in found["limits.files"]["text"]


def test_gpus_that_are_not_there_are_no_place(project: Path) -> None:
    done = rankdeck("doctor", "train.py", "--gpu", cwd=project, env={"CUDA_VISIBLE_DEVICES": ""})

    assert done.returncode == 69
    assert "CUDA_VISIBLE_DEVICES= hides every GPU" in done.stdout


def test_a_foreign_process_on_a_gpu_is_named(project: Path, nvml_elsewhere: FakeNvml) -> None:
    ours = ((os.getpid(), 30 << 30),)
    nvml_elsewhere.say(FakeGpu("GPU-1", memory=(31 << 30, 80 << 30), compute=ours, ecc=(0, 0), throttle=0))
    done = rankdeck("doctor", "train.py", "--json", cwd=project, env=nvml_elsewhere.environment)
    found = {each["id"]: each for each in json.loads(done.stdout)["checks"]}

    assert done.returncode == 0
    assert found["gpu.processes"]["state"] == "warn"
    assert f"process {os.getpid()} (" in found["gpu.processes"]["text"]
    assert (found["gpus"]["state"], found["gpu.clocks"]["state"]) == ("pass", "pass")


@pytest.mark.parametrize(
    "words",
    [("no_such.py",), ("-n", "0"), ("-m",), ("--master", "nonsense"), ("train.py", "--workdir", "/no")],
)
def test_a_command_that_makes_no_sense_is_refused(project: Path, words: tuple[str, ...]) -> None:
    done = rankdeck("doctor", *words, cwd=project)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.strip()


def test_names_cannot_control_the_terminal(project: Path) -> None:
    (project / "\x1b[31mred.py").write_text("import json\n")
    done = rankdeck("doctor", "\x1b[31mred.py", "--no-gpu", cwd=project)

    assert "\x1b" not in done.stdout + done.stderr


def test_the_ranks_interpreter_is_asked(project: Path) -> None:
    done = rankdeck("doctor", "--no-gpu", "--python", "/bin/false", "--json", cwd=project)
    found = {each["id"]: each for each in json.loads(done.stdout)["checks"]}

    assert done.returncode == 1
    assert "/bin/false cannot be asked" in found["python"]["text"]


def test_ctrl_c_leaves_nothing(project: Path, tmp_path: Path) -> None:
    """The fixture `mark` counts what is left of it."""
    waits = tmp_path / "python"
    begun = tmp_path / "begun"
    waits.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 60\n")
    waits.chmod(0o755)
    words = ("doctor", "--no-gpu", "--python", str(waits))
    with Foreground(*words, folder=tmp_path, env={"TMPDIR": os.fspath(tmp_path)}) as command:
        until(begun.exists)
        command.signal(signal.SIGINT)
        code = command.process.wait(30)

    assert code == 130
    assert "nothing is left running" in command.narrated
    assert list(tmp_path.glob("rankdeck-*")) == []
