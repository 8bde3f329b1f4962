"""A run from elsewhere, run again: told and asked about first, and given nothing that is ours."""

from __future__ import annotations

import os
import pickle
import sys
import zipfile
from pathlib import Path

import pexpect
import pytest

from console.data.launch.rerun import is_own, request_again, what_would_run
from launcher.errors import SpecError
from launcher.runs.catalog import create_folder
from launcher.runs.paths import runs_root
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from tests import commands
from tests.commands import COMMAND, rankdeck

ID = "20260101-120000-000abc"


class Evil:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace: Path) -> None:
        self._trace = trace

    def __reduce__(self) -> tuple[object, ...]:
        return os.system, (f"touch {self._trace}",)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return tmp_path / "trace"


@pytest.fixture
def foreign(tmp_path: Path, trace: Path) -> Path:
    """A folder that somebody else has made, with a pickle that acts, and secrets that we may have too."""
    folder = tmp_path / "inbox" / ID
    folder.mkdir(parents=True, mode=0o700)
    target = Target(TargetKind.CALLABLE, "/theirs/train.py", "train", pickled=True)
    spec = JobSpec(target, workdir=str(tmp_path), env={"HF_TOKEN": "their-own", "A\x1b]0;x\x07": "1"})
    RunWriter(folder, spec, payload=pickle.dumps(Evil(trace))).close()
    return folder


@pytest.mark.process
@pytest.mark.parametrize("packed", [False, True], ids=["folder", "zip"])
def test_without_a_terminal_it_is_refused_and_only_told(foreign: Path, trace: Path, *, packed: bool) -> None:
    place = zipped(foreign) if packed else foreign
    done = rankdeck("rerun", place, env={"HF_TOKEN": "ours"})

    assert (2, "") == (done.returncode, done.stdout)
    assert "was not launched here, and running it again runs its code as you" in done.stderr
    assert "--yes" in done.stderr
    for told in (
        "target   /theirs/train.py:train",
        "pickle   code and data",
        "env      HF_TOKEN=*** A\\x1b]0;x\\x07=1",
    ):
        assert told in done.stderr
    assert not trace.exists()
    assert [] == commands.runs()


@pytest.mark.process
def test_yes_runs_it_but_never_with_our_secrets(foreign: Path, trace: Path) -> None:
    refused = rankdeck("rerun", foreign, "--yes", env={"HF_TOKEN": "ours"})
    assert (2, True) == (refused.returncode, "give --env HF_TOKEN=…" in refused.stderr)
    assert not trace.exists()

    given = ("--env", "HF_TOKEN=mine")
    planned = rankdeck("rerun", foreign, "--dry-run", env={"HF_TOKEN": "ours"})
    assert (0, True) == (planned.returncode, "HF_TOKEN=***" in planned.stdout), planned.stderr
    assert not trace.exists()
    rankdeck("rerun", foreign, "--yes", *given)
    assert trace.exists()
    assert 1 == len(commands.runs())


@pytest.mark.process
@pytest.mark.parametrize(("answer", "begun"), [("n", False), ("", False), ("y", True)])
def test_a_person_is_asked(foreign: Path, trace: Path, answer: str, *, begun: bool) -> None:
    words = ["rerun", str(foreign), "--env", "HF_TOKEN=mine"]
    asked = pexpect.spawn(COMMAND, words, encoding="utf-8", timeout=60)
    asked.expect_exact("Run its code?")
    assert "\x1b]0;" not in (asked.before or "")
    asked.sendline(answer)
    asked.expect(pexpect.EOF)
    asked.close()

    assert begun == trace.exists()
    assert begun or 130 == asked.exitstatus


def zipped(folder: Path) -> Path:
    file = folder.with_suffix(".zip")
    with zipfile.ZipFile(file, "w") as packed:
        for path in folder.rglob("*"):
            if path.is_file():
                packed.write(path, f"{folder.name}/{path.relative_to(folder)}")
        packed.writestr(f"{folder.name}/private.json", '{"env HF_TOKEN": "planted"}')
    return file


def test_what_lies_beside_a_foreign_record_is_not_believed(foreign: Path) -> None:
    (foreign / "private.json").write_text('{"env HF_TOKEN": "planted"}')

    with pytest.raises(SpecError, match="--env HF_TOKEN"):
        request_again(foreign, environ={"HF_TOKEN": "ours"})


def test_a_run_is_own_by_its_place(foreign: Path, tmp_path: Path) -> None:
    own = create_folder(runs_root(), 1_767_261_600.0)
    link = runs_root() / ID
    link.symlink_to(foreign)
    linked_root = tmp_path / "linked"
    linked_root.symlink_to(runs_root())

    assert is_own(own)
    assert is_own(linked_root / own.name)
    assert not is_own(foreign)
    assert not is_own(link)
    assert not is_own(own / "logs")


def test_all_that_decides_what_happens_is_told_and_nothing_hides() -> None:
    target = Target(TargetKind.SCRIPT, "/p/ok.py\rrm", args=("--token", "s3cret-x", "a\nrank 0 host"))
    spark = SparkSpec(master="spark://evil:7077", conf={"spark.jars": "http://evil/x.jar"}, spool="/shared")
    lines = what_would_run(
        JobSpec(target, 4, mode=Mode.CLUSTER, workdir="/p\u202e", env={"LD_PRELOAD": "/x.so"}, spark=spark)
    )
    told = "\n".join(lines)

    assert "s3cret-x" not in told
    assert len(lines) == len(told.splitlines())
    assert "ok.py\\rrm" in told
    assert "a\\nrank 0 host" in told
    for text in ("spark://evil:7077", "spark.jars=http://evil/x.jar", "LD_PRELOAD", "/p\\u202e", "/shared"):
        assert text in told
    assert sys.executable not in told
