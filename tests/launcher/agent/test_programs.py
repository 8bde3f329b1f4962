"""Targets that are no Python script: a shell script, a binary, a module as ``python -m`` runs it."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed
from launcher.runs import paths
from tests.commands import Foreground, rankdeck

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

MODULE = """
import launcher, multiprocessing, os, sys
class Kept: ...
if __name__ == "__main__":
    spec = __spec__.name
    launcher.publish([__name__, __package__, spec, sys.argv, sys.path[0], Kept.__module__, __file__])
"""


def program(folder: Path, text: str, name: str = "run.sh") -> Path:
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


def output(folder: Path, rank: int, stream: int = paths.STDOUT) -> str:
    return paths.log_file(folder, 0, rank, stream).read_text()


def test_a_shell_script_has_its_place_its_arguments_and_its_exit_code(tmp_path: Path) -> None:
    first = 'echo "$RANK of $WORLD_SIZE: $*"; pwd; touch said; exec sleep 60'
    script = program(
        tmp_path, f"if [ $RANK = 0 ]; then {first}; fi; until [ -e said ]; do sleep 0.05; done; exit 7"
    )
    job = Distributor(2, workdir=tmp_path, grace_s=1).start(str(script), "--lr", "0.1")
    with pytest.raises(RankFailed) as caught:
        job.result()

    assert (1, 7, None) == (caught.value.rank, caught.value.exit_code, caught.value.traceback)
    assert f"0 of 2: --lr 0.1\n{tmp_path}\n" == output(job.folder, 0)


@pytest.mark.parametrize("target", ["./here", "/bin/echo", "echo"])
def test_a_binary_is_found_by_its_path_or_its_name(tmp_path: Path, target: str) -> None:
    (tmp_path / "here").symlink_to("/bin/echo")
    job = Distributor(1, workdir=tmp_path).start(target, "a  b", "-x")
    job.wait(60)

    assert "a  b -x\n" == output(job.folder, 0)


def test_a_program_sees_the_signals_of_a_shell(tmp_path: Path) -> None:
    """Python ignores SIGPIPE: `yes` would complain of it, and never end by it."""
    script = program(tmp_path, "yes | head -1; grep SigIgn /proc/$$/status | cut -f2")
    job = Distributor(1).start(str(script))

    assert 0 == job.wait(60).exit_code
    assert not paths.log_file(job.folder, 0, 0, paths.STDERR).exists()
    first, ignored = output(job.folder, 0).splitlines()
    assert ("y", 0) == (first, int(ignored, 16) & 1 << signal.SIGPIPE - 1)


def test_the_interpreter_of_ranks_leads_a_program_s_path(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(sys.executable)
    script = program(tmp_path, "command -v python")
    job = Distributor(1, python=python).start(str(script))
    job.wait(60)

    assert f"{python}\n" == output(job.folder, 0)


def test_a_program_that_cannot_be_executed_fails_by_name(tmp_path: Path) -> None:
    broken = tmp_path / "run.sh"
    broken.write_text("#!/no/such/shell\n")
    broken.chmod(0o755)
    done = rankdeck("run", broken)

    assert 1 == done.returncode
    assert "raised FileNotFoundError: [Errno 2] No such file or directory" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_program_outlives_its_run(tmp_path: Path, number: signal.Signals) -> None:
    script = program(
        tmp_path, "trap '' TERM; (trap '' TERM; setsid sleep 600) & echo ready; while :; do sleep 600; done"
    )
    with Foreground("run", script, "-n", "2", "--grace", "0.2", folder=tmp_path) as command:
        for _ in range(2):
            command.await_line("ready")
        command.signal(number)
        assert command.finish() == (130 if number is signal.SIGINT else -9)
    # the fixture `mark` proves that nothing is left


def test_its_stacks_cannot_be_taken_and_that_is_told(tmp_path: Path) -> None:
    script = program(tmp_path, "echo ready; exec sleep 600")
    with Foreground("run", script, folder=tmp_path) as command:
        command.await_line("ready")
        done = rankdeck("stacks", "last")
        command.signal(signal.SIGINT)
        command.finish()

    assert "it has become another program" in done.stdout


@pytest.fixture
def module(tmp_path: Path) -> Path:
    (tmp_path / "pkg" / "sub").mkdir(parents=True)
    for name in ("__init__.py", "sub/__init__.py"):
        (tmp_path / "pkg" / name).touch()
    for name in ("mod.py", "sub/__main__.py"):
        (tmp_path / "pkg" / name).write_text(MODULE)
    (tmp_path / "pkg" / "bad.py").write_text("def go():\n    raise ValueError('of mine')\ngo()\n")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "file", "spec"),
    [("pkg.mod", "pkg/mod.py", "pkg.mod"), ("pkg.sub", "pkg/sub/__main__.py", "pkg.sub.__main__")],
)
def test_a_module_is_what_python_m_would_make_of_it(module: Path, name: str, file: str, spec: str) -> None:
    path = str(module / file)
    done = rankdeck("run", "-m", name, "-n", "2", "--workdir", module, "--", "--lr", "0.1", cwd=Path("/"))

    assert 0 == done.returncode, done.stderr
    package = spec.rpartition(".")[0]
    expected = ["__main__", package, spec, [path, "--lr", "0.1"], str(module), "__main__", path]
    assert expected == json.loads(rankdeck("result", "last", "--json").stdout)["value"]
    assert f"target   -m {name} --lr 0.1" in rankdeck("show", "last").stdout
    assert 0 == rankdeck("rerun", "last").returncode
    assert expected == json.loads(rankdeck("result", "last", "--json").stdout)["value"]


def test_a_module_s_failure_has_the_lines_of_the_module_alone(module: Path) -> None:
    with pytest.raises(RankFailed) as caught:
        Distributor(1, workdir=module).run("-m pkg.bad")

    lines = (caught.value.traceback or "").splitlines()
    assert f'  File "{module}/pkg/bad.py", line 3, in <module>' == lines[1]
    assert "ValueError: of mine" == lines[-1]
    assert not any("rank_main" in line or "runpy" in line for line in lines)


def test_what_a_form_makes_of_one_is_the_same_command(module: Path) -> None:
    from console.data.launch.draft import command_words, draft_of
    from launcher.spec.job import JobSpec
    from launcher.spec.target import resolve

    program(module, "exit 0")
    for text, words in (("-m pkg.mod", ["-m", "pkg.mod"]), ("run.sh", ["run.sh"]), ("sh", ["sh"])):
        target = resolve(text, params={}, args=[], workdir=module)
        draft = draft_of(JobSpec(target, workdir=str(module)), module)

        assert text == draft.target
        assert target == draft.resolved().target
        assert [*words, "-n"] == command_words(draft)[2 : 3 + len(words)]


def test_a_notebook_is_refused_with_the_two_ways_there_are(home: Path, tmp_path: Path) -> None:
    (tmp_path / "train.ipynb").write_text("{}")
    done = rankdeck("run", tmp_path / "train.ipynb", "-n", "2")

    assert 2 == done.returncode
    assert "rankdeck help notebooks" in done.stderr
    assert "jupyter nbconvert --to script" in done.stderr
    assert not (home / "runs").exists()
