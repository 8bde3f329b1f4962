"""What ranks have is their own caller's, not that of whoever started the engine."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.engine.client import submit
from launcher.runs import paths
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from tests import commands
from tests.commands import COMMAND, rankdeck
from tests.engines import pids

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


def from_shell(setup: str, target: Path, folder: Path, **env: str) -> subprocess.Popen[str]:
    """Launch the target from a shell that has been set up so."""
    command = f"{setup}; exec {shlex.join([COMMAND, 'run', str(target), '--', str(folder / 'written')])}"
    return subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    )


def told(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, _ = process.communicate(timeout=60)
    assert 0 == process.returncode
    line = next(line for line in out.splitlines() if line.startswith("r0 | {"))
    found: dict[str, Any] = json.loads(line.removeprefix("r0 | "))
    return found


def test_two_clients_of_one_engine_get_what_is_theirs(targets: Path, tmp_path: Path) -> None:
    script = targets / "inheriting.py"
    rankdeck("run", targets / "hello.py", env={"ONLY_ENGINE": "yes", "FLAVOUR": "engine"})
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
    cores = sorted(os.sched_getaffinity(0))
    few = f"umask 027; ulimit -Sn 333; ulimit -Sc 0; taskset -cp {cores[-1]} $$ >/dev/null"
    nicer = f"renice -n {os.nice(0) + 5} $$ >/dev/null"
    first = from_shell(f"{few}; {nicer}", script, folders[0], FLAVOUR="sour")
    second = from_shell("umask 002; ulimit -Sn 444; trap '' INT HUP", script, folders[1])
    a, b = told(first), told(second)

    assert 1 == len(pids())
    assert ("sour", None) == (a["flavour"], b["flavour"])
    assert (None, None) == (a["only_engine"], b["only_engine"])
    assert list(map(str, folders)) == [a["folder"], b["folder"]]
    assert (0o027, 0o002) == (a["umask"], b["umask"])
    assert (0o640, 0o664) == (a["written"], b["written"])
    assert (333, 444) == (a["descriptors"], b["descriptors"])
    assert 0 == a["core"]
    assert ([cores[-1]], cores) == (a["cores"], b["cores"])
    assert (os.nice(0) + 5, os.nice(0)) == (a["nice"], b["nice"])
    for rank in (a, b):
        assert ([], True, True) == (rank["mask"], rank["interrupt"], rank["hangup"])


def test_what_an_engine_was_started_under_is_laid_on_nobody_else(targets: Path, tmp_path: Path) -> None:
    """An engine started where little was allowed, and a client that may do more."""
    cores = sorted(os.sched_getaffinity(0))
    limits = "ulimit -Sn 64; ulimit -Sf 100000; ulimit -St 50; umask 0; "
    setup = f"{limits} taskset -cp {cores[0]} $$ >/dev/null; renice -n 3 $$ >/dev/null"
    folder = tmp_path / "a"
    folder.mkdir()
    told(from_shell(setup, targets / "inheriting.py", folder))
    limits_now = Path(f"/proc/{pids()[0]}/limits").read_text().splitlines()
    for name in ("Max open files", "Max file size", "Max cpu time"):
        soft, hard = next(line for line in limits_now if line.startswith(name))[26:].split()[:2]
        assert hard == soft
    (folder / "written").unlink()
    free = told(from_shell("true", targets / "inheriting.py", folder))

    assert 1 == len(pids())
    assert cores == free["cores"]
    if os.getuid() == 0:  # only root may become less nice again
        assert os.nice(0) == free["nice"]
    assert free["descriptors"] > 64
    assert 0o600 == (commands.last() / paths.SPEC).stat().st_mode & 0o777


def test_a_run_has_its_own_interpreter(targets: Path, tmp_path: Path) -> None:
    base = Path(sys.base_prefix) / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert os.path.realpath(base) != sys.executable
    rankdeck("run", targets / "hello.py")
    spec = JobSpec(
        Target(TargetKind.SCRIPT, str(targets / "inheriting.py"), args=(str(tmp_path / "w"),)), workdir="/"
    )
    run = submit(Request(spec, python=str(base)), on_disconnect="stop")
    while not run.done:
        run.wait_for_news()
    run.close()

    assert 1 == len(pids())
    written = json.loads(paths.log_file(run.folder, 0, 0, paths.STDOUT).read_text())
    assert str(base) == written["python"]
