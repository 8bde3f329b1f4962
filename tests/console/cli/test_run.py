"""The options of `rankdeck run`: each reaches the spec, and what has no effect is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from console.cli.run import given_options, launch_options, request_from, run
from launcher.engine.client import engines
from launcher.errors import SpecError
from launcher.spec.job import JobSpec, SparkSpec
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from tests.commands import rankdeck, runs


@click.command()
@launch_options
@click.pass_context
def parse(context: click.Context, /, **_: Any) -> dict[str, Any]:
    return given_options(context)


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("def main(lr: float = 0.1): ...\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def request(*words: str, target: str = "train.py", args: tuple[str, ...] = ()) -> Request:
    given = parse.main(list(words), standalone_mode=False)
    return request_from(target, args, given)


def spec(*words: str, **more: Any) -> JobSpec:
    return request(*words, **more).spec


CLUSTER = ("--mode", "cluster")


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["-n", "4"], "num_processes", 4),
        (["--num-processes", "2:4"], "num_processes", 4),
        (["-n", "2:4"], "min_processes", 2),
        (["-n", " 2 : 4 "], "min_processes", 2),
        (["-n", "4"], "min_processes", None),
        (["--mode", "connect"], "mode", Mode.CONNECT),
        (["--gpu"], "gpu", True),
        (["--no-gpu"], "gpu", False),
        ([], "gpu", None),
        (["--gpus-per-rank", "2"], "gpus_per_rank", 2),
        (["--ranks-per-gpu", "2"], "ranks_per_gpu", 2),
        ([*CLUSTER, "-n", "2", "--gpus-per-task", "2"], "gpus_per_task", 2),
        (["--max-restarts", "3"], "max_restarts", 3),
        (["--start-timeout", "1.5"], "start_timeout_s", 1.5),
        (["--timeout", "9"], "timeout_s", 9.0),
        (["--grace", "0"], "grace_s", 0.0),
        (["--sample-interval", "0.5"], "sample_s", 0.5),
        (["--name", "a name"], "name", "a name"),
        (["--env", "A=1", "--env", "B="], "env", {"A": "1", "B": ""}),
        (["--workdir", "/"], "workdir", "/"),
    ],
)
def test_each_option_reaches_the_spec(train: Path, words: list[str], field: str, value: object) -> None:
    assert getattr(spec(*words), field) == value


@pytest.mark.parametrize(
    ("words", "field", "value"),
    [
        (["--master", "spark://h:7077"], "master", "spark://h:7077"),
        (["--remote", "sc://h:15002"], "remote", "sc://h:15002"),
        ([*CLUSTER, "--conf", "a.b=c=d", "--conf", "e="], "conf", {"a.b": "c=d", "e": ""}),
        ([*CLUSTER, "--listen", "0.0.0.0:4000-4010"], "listen", "0.0.0.0:4000-4010"),
        ([*CLUSTER, "--spool", "/shared"], "spool", "/shared"),
        ([*CLUSTER, "--lost-after", "3"], "lost_after_s", 3.0),
    ],
)
def test_each_option_of_spark_reaches_it(train: Path, words: list[str], field: str, value: object) -> None:
    assert getattr(spec(*words).spark, field) == value


def test_files_to_send_are_named_from_here(train: Path) -> None:
    other = train / "other"
    other.mkdir()
    files = (train / "a.py", other / "b.zip")
    for file in files:
        file.touch()
    found = spec(*CLUSTER, "--py-files", "a.py", "--py-files", str(files[1]), "--workdir", "other").py_files

    assert found == tuple(map(str, files))


def test_files_to_send_must_be_there(train: Path) -> None:
    with pytest.raises(SpecError, match=r"there is no .*/a\.py"):
        spec(*CLUSTER, "--py-files", "a.py")


@pytest.mark.parametrize(
    ("words", "mode"),
    [
        ([], Mode.LOCAL),
        (["--master", "local[4]"], Mode.CLUSTER),
        (["--remote", "sc://h"], Mode.CONNECT),
        (["--mode", "cluster", "--master", "spark://h:1"], Mode.CLUSTER),
        (["--mode", "connect", "--remote", "sc://h"], Mode.CONNECT),
    ],
)
def test_the_mode_follows_from_the_spark_that_is_named(train: Path, words: list[str], mode: Mode) -> None:
    assert spec(*words).mode is mode


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--mode", "local", "--master", "spark://h:1"], "--master is for Spark"),
        (["--mode", "local", "--remote", "sc://h"], "--remote is for Spark"),
        (["--conf", "a=b"], "--conf is for Spark, and the mode is local"),
        (["--listen", "h"], "--listen is for Spark"),
        (["--spool", "/s"], "--spool is for Spark"),
        (["--py-files", "a.py"], "--py-files is for Spark"),
        (["--gpus-per-task", "2"], "--gpus-per-task is for Spark"),
        (["--lost-after", "2"], "--lost-after is for Spark"),
        (["--mode", "cluster", "--remote", "sc://h"], "use --mode connect"),
        (["--mode", "connect", "--master", "spark://h:1"], "use --mode cluster, or --remote"),
        (["--master", "spark://h:1", "--remote", "sc://h"], "names"),
        (["--master", "sc://h"], "give it with --remote"),
        ([*CLUSTER, "--conf", "ab"], "--conf takes NAME=VALUE, not 'ab'"),
        ([*CLUSTER, "--conf", "a=1", "--conf", "a=2"], "--conf a is given twice"),
        ([*CLUSTER, "--lost-after", "0"], "silence of an agent must be more than 0 seconds"),
        (["-n", "4:2"], "1 to 2, not 4"),
        (["-n", ":2"], "MIN:MAX"),
        (["--start-timeout", "-1"], "start limit must be 0 or more"),
        (["--start-timeout", "nan"], "start limit must be 0 or more"),
        (
            [*CLUSTER, "-n", "3", "--gpus-per-task", "2"],
            "cannot be divided among tasks of 2 ranks",
        ),
        ([*CLUSTER, "-n", "3", "--ranks-per-gpu", "2"], "cannot be divided among tasks of 2 ranks"),
        (["--ranks-per-gpu", "0"], "a GPU can have 1 rank or more, not 0"),
        (["--ranks-per-gpu", "2", "--gpus-per-rank", "2"], "a rank cannot have 2 GPUs and share one"),
    ],
)
def test_what_makes_no_sense_is_told(train: Path, words: list[str], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        spec(*words)
    assert said in str(caught.value)


@pytest.mark.parametrize("words", [["--mode", "yarn"], ["--gpus-per-rank", "x"], ["--max-restarts", "1.5"]])
def test_what_has_no_such_form_is_a_usage_error(train: Path, words: list[str]) -> None:
    with pytest.raises(click.UsageError):
        spec(*words)


def test_without_options_a_run_is_what_the_library_starts_without_any(train: Path) -> None:
    made = spec()

    assert made == JobSpec(made.target, workdir=str(train))
    assert made.spark == SparkSpec()
    assert request("--param", "lr=0.5", target="train.py:main").spec.target.kwargs == (("lr", "0.5"),)
    assert spec(args=("--lr", "1")).target.args == ("--lr", "1")


@pytest.mark.parametrize(
    ("words", "stage"),
    [
        (["-n", "1"], "1 barrier task of 1 rank, each with 1 GPU where there are any"),
        (["-n", "4", "--gpus-per-task", "2", "--gpu"], "2 barrier tasks of 2 ranks, each with 2 GPUs"),
        (["-n", "4", "--ranks-per-gpu", "2", "--gpu"], "2 barrier tasks of 2 ranks, each with 1 GPU"),
        (["-n", "2", "--no-gpu"], "2 barrier tasks of 1 rank, each with no GPUs"),
    ],
)
def test_a_dry_run_counts_as_people_do(train: Path, words: list[str], stage: str) -> None:
    told = [*("train.py", "--master", "spark://h:7077", "--dry-run"), *words]
    done = CliRunner().invoke(run, told, standalone_mode=False, catch_exceptions=False)

    assert f"stage    {stage}" in done.stdout.splitlines()
    assert "sent     1 file, " in done.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "environ"),
    [
        (["--remote", "127.0.0.1:1"], {}),
        (["--master", "127.0.0.1:1"], {}),
        (["--mode", "cluster", "--conf", "spark.master=h:1"], {}),
        (["--mode", "connect"], {"SPARK_REMOTE": "127.0.0.1:1"}),
    ],
)
def test_an_address_without_its_scheme_is_refused_and_leaves_no_engine(
    train: Path, words: list[str], environ: dict[str, str]
) -> None:
    done = rankdeck("run", "train.py", *words, env=environ)

    assert (2, "") == (done.returncode, done.stdout)
    assert "did you mean" in done.stderr
    assert 1 == len(done.stderr.splitlines())
    assert [] == runs()
    assert [] == list(engines())
