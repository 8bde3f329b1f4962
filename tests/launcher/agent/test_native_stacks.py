"""Native frames by a `py-spy` of the test's own, as real ranks are asked for their stacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.agent import native_stacks
from launcher.diagnosis.stacks import stacks_block
from launcher.distributor import Distributor
from launcher.supervisor.control import send_command
from tests.commands import Gate, until

pytestmark = pytest.mark.process

FAKE = """#!/bin/sh
[ "$1 $2 $3" = "dump --native --pid" ] || exit 9
{then}
printf 'Process %s: python train.py\\nThread %s (idle)\\n    futex_wait (libc.so.6)\\n' "$4" "$4"
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program of that name on the path; it prints what the real one does."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / native_stacks.PROGRAM


def write(path: Path, then: str = "") -> None:
    path.write_text(FAKE.format(then=then))
    path.chmod(0o755)


def look(now: float = 0.0) -> native_stacks.NativeDump:
    program = native_stacks.find(os.getpid())
    assert program is not None
    dump = native_stacks.begin(program, os.getpid(), now)
    assert dump is not None
    return dump


def test_what_it_prints_is_taken_once_it_has_ended(fake: Path) -> None:
    write(fake)
    dump = look()
    until(lambda: dump.is_over(0.0))
    assert f"Process {os.getpid()}: python train.py" == dump.close().splitlines()[0]


def test_one_that_is_late_is_killed_and_one_that_fails_says_nothing(fake: Path) -> None:
    write(fake, "exec sleep 600")
    dump = look()
    assert not dump.is_over(native_stacks.LIMIT_S - 0.1)
    assert dump.is_over(native_stacks.LIMIT_S)
    assert dump.process.returncode == -9
    assert "" == dump.close()
    write(fake, "echo half; exit 1")
    failing = look()
    until(lambda: failing.is_over(0.0))
    assert "" == failing.close()


def test_it_is_found_beside_a_ranks_interpreter_and_on_a_ranks_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    for program, env in ((tmp_path / "a" / "python", {}), (Path(sys.executable), {"PATH": f"{tmp_path}/b"})):
        for folder in ("a", "b"):
            (tmp_path / folder).mkdir(exist_ok=True)
        write(tmp_path / ("b" if env else "a") / native_stacks.PROGRAM)
        if not program.exists():
            program.symlink_to(sys.executable)
        code = "import sys; print(flush=True); sys.stdin.read()"
        rank = subprocess.Popen(
            [program, "-Sc", code], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert rank.stdout is not None
        rank.stdout.readline()
        assert str(tmp_path / ("b" if env else "a") / "py-spy") == native_stacks.find(rank.pid)
        rank.communicate()
    assert native_stacks.find(os.getpid()) is None


@pytest.mark.usefixtures("mark")
def test_the_stacks_of_ranks_have_native_frames_where_it_is_installed(
    fake: Path, targets: Path, tmp_path: Path
) -> None:
    write(fake)
    gate = Gate(tmp_path / "gate", ranks=2)
    job = Distributor(2, gpu=False).start(str(targets / "waiting.py"), "gate", str(gate.path))
    until(lambda: len(job.state.ranks) == 2 and all(r.entered for r in job.state.ranks))
    send_command(job.folder, {"stacks": True})
    until(lambda: len(job.state.stacks) == 2 and all(taken.native for taken in job.state.stacks))
    block = stacks_block(job.state)
    assert "with native frames:\n  Process" in block
    assert "    futex_wait (libc.so.6)" in block
    gate.open()
    assert "succeeded" == job.wait(30).phase
