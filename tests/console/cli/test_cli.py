"""The command line at its edges: wrong input, one sentence, the right code, and nothing left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import commands
from tests.commands import Gate, rankdeck

pytestmark = pytest.mark.process


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something right and something wrong in it."""
    work = tmp_path / "work"
    (work / "package").mkdir(parents=True)
    (work / "train.py").write_text("def fn(lr: float, n: int = 1): return lr\n")
    (work / "broken.py").write_text("def fn(:\n")
    (work / "notes.txt").touch()
    return work


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence on stderr; click puts a word on usage before it."""
    said = [line for line in done.stderr.splitlines() if line.startswith(("rankdeck: ", "Error: "))]
    assert 1 == len(said), done.stderr
    return said[0].partition(": ")[2]


WRONG = [
    (["missing.py"], "there is no file missing.py"),
    (["package"], "package is a folder"),
    (["./package"], "./package is a folder"),
    (["notes.txt"], "notes.txt is not a Python file"),
    (["broken.py"], "broken.py:1 is not valid Python: invalid syntax"),
    (["broken.py:fn"], "broken.py:1 is not valid Python: invalid syntax"),
    (["train.py:fm"], "train.py has no function fm (it has fn)"),
    (["train.py:"], "'train.py:' is half a target"),
    (["no_such_module_here:fn"], "there is no module no_such_module_here"),
    (["train.py:fn"], "fn needs lr (add --param lr=…)"),
    (["train.py:fn", "--param", "lr=fast"], "parameter 'lr' takes float, not 'fast'"),
    (["train.py:fn", "--param", "lr=1", "--param", "n=1.5"], "parameter 'n' takes int, not '1.5'"),
    (["train.py:fn", "--param", "lr=1", "--param", "m=1"], "fn has no parameter 'm'"),
    (["train.py:fn", "--param", "lr"], "--param takes NAME=VALUE, not 'lr'"),
    (["train.py:fn", "--param", "lr=1", "--param", "lr=2"], "--param lr is given twice"),
    (["train.py", "--param", "lr=1"], "train.py is a script, and --param is for functions"),
    (["train.py", "-n", "0"], "the number of processes must be at least 1, not 0"),
    (["train.py", "-n", "-2"], "the number of processes must be at least 1, not -2"),
    (["train.py", "-n", "two"], "the number of processes must be a whole number, or MIN:MAX, not 'two'"),
    (["train.py", "-n", "3:2"], "the least number of processes must be 1 to 2, not 3"),
    (["train.py", "-n", "0:2"], "the least number of processes must be 1 to 2, not 0"),
    (["train.py", "-n", "2:"], "a whole number, or MIN:MAX, not '2:'"),
    (["train.py", "--max-restarts", "-1"], "the number of restarts must be 0 or more, not -1"),
    (["train.py", "--gpus-per-rank", "0"], "a rank can have 1 GPU or more, not 0"),
    (["train.py", "--conf", "a=b"], "--conf is for Spark, and the mode is local"),
    (["train.py", "--spool", "."], "--spool is for Spark, and the mode is local"),
    (["train.py", "--mode", "local", "--master", "spark://h:1"], "--master is for Spark"),
    (["train.py", "--mode", "connect", "--master", "spark://h:1"], "--master names a cluster"),
    (["train.py", "--mode", "cluster", "--remote", "sc://h"], "--remote names a Connect server"),
    (["train.py", "--master", "sc://h:1"], "sc://h:1 is a Connect server, not a master"),
    (["train.py", "--mode", "cluster", "--conf", "a"], "--conf takes NAME=VALUE, not 'a'"),
    (
        ["train.py", "--mode", "cluster", "--lost-after", "0"],
        "the silence of an agent must be more than 0 seconds, not 0.0",
    ),
    (["train.py", "--mode", "cluster", "--listen", "h:x"], "--listen takes HOST, HOST:PORT"),
    (["train.py", "--mode", "cluster", "--listen", "h:0"], "--listen takes ports from 1 to 65535"),
    (
        ["train.py", "--mode", "cluster", "--gpus-per-task", "3", "--gpus-per-rank", "2"],
        "the GPUs of a task must be a multiple of a rank's 2, and not 3",
    ),
    (
        ["train.py", "--mode", "cluster", "-n", "3", "--gpus-per-task", "2"],
        "3 ranks cannot be divided among tasks of 2 ranks each",
    ),
    (["train.py", "--mode", "cluster", "--py-files", "gone.py"], "there is no"),
    (["train.py", "--mode", "cluster", "--py-files", "notes.txt"], "--py-files"),
    (["train.py", "--gpu"], "--gpu needs 1 GPU, one a rank, and there is none"),
    (["train.py", "--lr=0.1"], "No such option"),
    (["train.py", "--mode", "cloud"], "'cloud' is not one of 'local', 'cluster', 'connect'"),
    (["train.py", "--env", "UNSET_HERE"], "--env: UNSET_HERE is not set here"),
    (["train.py", "--env", "=1"], "--env takes NAME=VALUE, not '=1'"),
    (["train.py", "--env", "=1"], "--env takes NAME=VALUE, not '=1'"),
    (["train.py", "--workdir", "nowhere"], "nowhere does not exist"),
    (["train.py", "--workdir", "train.py"], "train.py is not a folder"),
    (["train.py", "--ranks", "some"], "--ranks takes all, none, or ranks such as 0,3-5, not 'some'"),
    (["train.py", "--ranks", "0,2", "-n", "2"], "there is no rank 2: the run has ranks 0 to 1"),
    (["train.py", "--timeout", "-1"], "the time limit must be 0 or more seconds, not -1.0"),
    (["train.py", "--timeout", "nan"], "the time limit must be 0 or more seconds, not nan"),
    (["train.py", "--timeout", "soon"], "'soon' is not a valid float"),
    (["train.py", "--sample-interval", "0"], "the sample interval must be more than 0 seconds, not 0.0"),
    (["train.py", "--detach", "--ranks", "0"], "--detach prints no output: --ranks has no meaning with it"),
    (
        ["train.py", "--detach", "--output", "jsonl"],
        "--detach prints no output: --output has no meaning with it",
    ),
    (["train.py", "--output", "xml"], "'xml' is not one of 'text', 'jsonl'"),
    ([], "Missing argument 'TARGET'"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) or "nothing" for words, _ in WRONG])
def test_wrong_input_is_one_clear_sentence_and_starts_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # a machine without GPUs, wherever this runs
    done = rankdeck("run", *words, cwd=folder)

    assert said in sentence(done)
    assert (2, "") == (done.returncode, done.stdout)
    assert "Traceback" not in done.stderr
    assert [] == commands.runs()


def test_wrong_input_is_refused_when_detached_or_only_planned(folder: Path) -> None:
    for option in ("--detach", "--dry-run"):
        done = rankdeck("run", "train.py", option, "--workdir", "nowhere", cwd=folder)
        assert (2, "") == (done.returncode, done.stdout)
        assert "nowhere does not exist" in sentence(done)
    assert [] == commands.runs()


def test_an_option_that_was_meant_for_the_script_is_explained(folder: Path) -> None:
    assert "A script's own arguments go after --" in rankdeck("run", "train.py", "--lr=1", cwd=folder).stderr


@pytest.mark.parametrize("words", [("run", "train.py"), ("run", "train.py", "--detach"), ("ps",)])
@pytest.mark.parametrize("home", ["/proc/rankdeck", "{}/work/notes.txt/home"])
def test_a_home_that_cannot_be_used_is_told_with_70(
    folder: Path, tmp_path: Path, words: tuple[str, ...], home: str
) -> None:
    done = rankdeck(*words, cwd=folder, env={"RANKDECK_HOME": home.format(tmp_path)})

    if words == ("ps",) and home.startswith("/proc"):
        assert 0 == done.returncode  # a home that does not exist yet holds no runs
        return
    assert 70 == done.returncode
    assert "cannot" in sentence(done)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [("show",), ("logs",), ("result",), ("stop",), ("rm",), ("attach",)])
def test_a_run_that_does_not_exist_is_told_with_2(words: tuple[str, ...]) -> None:
    for wanted, said in (("last", "there is no run yet"), ("2020", "no run is called '2020'")):
        done = rankdeck(*words, wanted)
        assert (2, "") == (done.returncode, done.stdout)
        assert said in sentence(done)


def test_the_version_is_the_librarys() -> None:
    import launcher

    assert f"rankdeck {launcher.__version__}\n" == rankdeck("--version").stdout


@pytest.mark.parametrize("words", [(), ("--help",), ("-h",), ("run", "--help")])
def test_help_is_data_and_success(words: tuple[str, ...]) -> None:
    done = rankdeck(*words)

    assert 0 == done.returncode
    assert done.stdout.startswith("Usage: rankdeck")
    assert "" == done.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_printed(shell: str) -> None:
    done = rankdeck("completion", shell)

    assert 0 == done.returncode
    assert "_RANKDECK_COMPLETE" in done.stdout


def test_a_shell_accepts_the_completion_script() -> None:
    script = rankdeck("completion", "bash").stdout
    check = subprocess.run(["bash", "-n"], input=script, text=True, capture_output=True, check=False)

    assert (0, "") == (check.returncode, check.stderr)


def test_the_package_runs_as_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "console", "--version"], capture_output=True, text=True, check=False
    )

    assert (0, "") == (done.returncode, done.stderr)


@pytest.mark.usefixtures("mark")
def test_a_plan_is_printed_and_nothing_is_started(folder: Path) -> None:
    words = ("-n", "2", "--dry-run", "--env", "API_TOKEN=hunter2", "--env", "COLOUR=red", "--no-gpu")
    done = rankdeck("run", "train.py", *words, "--", "--lr=0.1", "a b", cwd=folder)

    assert 0 == done.returncode
    assert f"target   {folder}/train.py --lr=0.1 'a b'" in done.stdout
    assert ["rank 0", "rank 1"] == [line[:6] for line in done.stdout.splitlines() if line.startswith("rank ")]
    assert "env      COLOUR=red" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert [] == commands.runs()


@pytest.mark.usefixtures("mark")
def test_a_module_is_looked_for_where_the_ranks_will_import_it(folder: Path, tmp_path: Path) -> None:
    (folder / "package" / "steps.py").write_text("def fn(): return 'found'\n")

    assert '"found"\n' == rankdeck("run", "package.steps:fn", "--workdir", folder, cwd=tmp_path).stdout
    missing = rankdeck("run", "package.steps:fn", "--workdir", tmp_path, cwd=folder)
    assert 2 == missing.returncode
    assert "there is no module package" in sentence(missing)


@pytest.mark.usefixtures("mark")
def test_a_file_is_looked_for_from_here(folder: Path, tmp_path: Path) -> None:
    done = rankdeck("run", "train.py:fn", "--param", "lr=2", "--workdir", tmp_path, cwd=folder)

    assert "2.0\n" == done.stdout


@pytest.mark.usefixtures("mark")
def test_a_terminal_without_utf8_gets_question_marks(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import os\nos.write(1, '\\u4f60\\u597d\\n'.encode())\nraise ValueError('\\u4f60')\n")
    done = rankdeck("run", script, env={"PYTHONIOENCODING": "latin-1"})

    assert 1 == done.returncode
    assert "r0 | ??\n" in done.stdout
    assert "rank 0 on" in done.stderr
    assert "UnicodeEncodeError" not in done.stderr


@pytest.mark.usefixtures("mark")
def test_removing_several_is_all_or_nothing(targets: Path, tmp_path: Path) -> None:
    done = [rankdeck("run", targets / "functions.py:nothing").returncode for _ in range(2)]
    ended = commands.runs()
    gate = Gate(tmp_path / "gate")
    running = rankdeck("run", targets / "waiting.py", "--detach", "--", "gate", gate.path).stdout.strip()

    refused = rankdeck("rm", *ended, running)
    assert [0, 0] == done
    assert (2, "") == (refused.returncode, refused.stdout)
    assert f"run {running} is " in sentence(refused)
    assert f"rankdeck stop {running}" in sentence(refused)
    assert {*ended, running} == set(commands.runs())

    gate.open()
    assert 0 == rankdeck("logs", "-f", running).returncode
    removed = rankdeck("rm", *ended, "last")
    assert [*ended, running] == removed.stdout.split()
    assert [] == commands.runs()
    assert not os.listdir(Path(os.environ["RANKDECK_HOME"]) / "runs")
