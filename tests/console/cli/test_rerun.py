"""A recorded run once more: as it was, or with some of it otherwise."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from console.cli import rerun
from console.data.launch.rerun import changed, request_again, restored
from launcher.distributor import Distributor, launch
from launcher.errors import SpecError
from launcher.runs.catalog import create_folder
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_spec
from launcher.runs.writer import RunWriter
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode

CLUSTER = JobSpec(
    Target(TargetKind.SCRIPT, "/p/train.py", args=("--lr", "0.1")),
    num_processes=4,
    min_processes=2,
    mode=Mode.CLUSTER,
    workdir="/p",
    env={"A": "1"},
    py_files=("/p/more.zip",),
    gpus_per_task=2,
    gpus_per_rank=2,
    spark=SparkSpec(master="spark://head:7077", conf={"spark.a": "1"}, lost_after_s=7.0),
)


def recorded(spec: JobSpec, payload: bytes | None = None) -> Path:
    """The folder of a run that was asked for, and no more."""
    folder = create_folder(runs_root(), 1_767_261_600.0)
    RunWriter(folder, spec, payload=payload).close()
    return folder


def script(project: Path, **known: Any) -> JobSpec:
    target = Target(TargetKind.SCRIPT, str(project / "score.py"), args=("--lr", "0.1"))
    return replace(JobSpec(target, num_processes=2, workdir=str(project), name="named"), **known)


def function(project: Path) -> JobSpec:
    target = Target(
        TargetKind.FUNCTION, str(project / "train.py"), "main", kwargs=(("lr", "0.1"), ("steps", "3"))
    )
    return JobSpec(target, workdir=str(project))


def called(*words: str | Path) -> Result:
    return CliRunner().invoke(
        rerun.rerun, [*map(str, words)], standalone_mode=False, catch_exceptions=False, obj={}
    )


def test_a_run_is_asked_for_again_as_it_was(project: Path) -> None:
    for spec in (script(project, env={"A": "1"}, timeout_s=9.0), function(project)):
        request = request_again(recorded(spec))
        assert (spec, None, ()) == (request.spec, request.payload, request.path)


def test_text_is_run_again_without_more_quotes(project: Path) -> None:
    target = Target(TargetKind.FUNCTION, str(project / "train.py"), "evaluate", kwargs=(("path", "'a b'"),))
    spec = JobSpec(target, workdir=str(project))

    assert request_again(recorded(spec)).spec == spec
    again = request_again(recorded(spec), {"param": {"path": "'c'"}}).spec
    assert again.target.kwargs == (("path", "\"'c'\""),)


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ({"num_processes": (None, 8)}, {"num_processes": 8, "min_processes": None}),
        ({"num_processes": (4, 8)}, {"num_processes": 8, "min_processes": 4}),
        ({"gpu": False, "timeout_s": 5.0, "name": "n"}, {"gpu": False, "timeout_s": 5.0, "name": "n"}),
        ({"env": {"A": "2", "B": "3"}}, {"env": {"A": "2", "B": "3"}}),
        ({"workdir": "/q"}, {"workdir": "/q"}),
        ({"py_files": ("/q/x.zip",)}, {"py_files": ("/q/x.zip",)}),
        (
            {"conf": {"spark.b": "2"}},
            {"spark": replace(CLUSTER.spark, conf={"spark.a": "1", "spark.b": "2"})},
        ),
        ({"master": "local[2]"}, {"spark": replace(CLUSTER.spark, master="local[2]")}),
        (
            {"remote": "sc://h"},
            {"mode": Mode.CONNECT, "spark": replace(CLUSTER.spark, master="", remote="sc://h")},
        ),
        (
            {"mode": "local"},
            {"mode": Mode.LOCAL, "spark": SparkSpec(), "py_files": (), "gpus_per_task": None},
        ),
        ({"mode": "connect"}, {"mode": Mode.CONNECT, "spark": replace(CLUSTER.spark, master="")}),
    ],
)
def test_what_is_given_replaces_what_was_recorded(
    given: Mapping[str, Any], fields: Mapping[str, Any]
) -> None:
    assert replace(CLUSTER, **fields) == changed(CLUSTER, given, ())


def test_arguments_replace_arguments_and_parameters_add_to_parameters(project: Path) -> None:
    assert ("--lr", "0.2") == changed(script(project), {}, ["--lr", "0.2"]).target.args
    target = changed(function(project), {"param": {"lr": "0.2", "opt": "'sgd'"}}, ()).target
    assert (("lr", "0.2"), ("steps", "3"), ("opt", "'sgd'")) == target.kwargs


@pytest.mark.parametrize(
    ("spec", "given", "said"),
    [
        (script, {"param": {"lr": "1"}}, "--param is for functions"),
        (function, {"param": {"lr": "high"}}, "lr"),
    ],
)
def test_what_does_not_fit_is_said_in_a_sentence(project: Path, spec: Any, given: Any, said: str) -> None:
    with pytest.raises(SpecError, match=said):
        request_again(recorded(spec(project)), given)


def test_a_target_that_is_gone_is_said(project: Path) -> None:
    folder = recorded(script(project))
    (project / "score.py").unlink()

    with pytest.raises(SpecError, match=r"score\.py"):
        request_again(folder)


SECRETS = replace(
    CLUSTER,
    env={"API_TOKEN": "one", "DB_PASSWORD": "two", "A": "***"},
    spark=replace(CLUSTER.spark, conf={"spark.authenticate.secret": "three", "spark.a": "1"}),
).redacted()


def test_secrets_that_are_missing_are_all_named_and_no_stars_are_sent() -> None:
    with pytest.raises(SpecError) as refused:
        restored(SECRETS, {"API_TOKEN": "x"}, "42")

    assert "--env DB_PASSWORD=…, --conf spark.authenticate.secret=…" in str(refused.value)
    assert "API_TOKEN" not in str(refused.value)


def test_secrets_come_from_the_environment_or_by_hand() -> None:
    given = {"env": {"DB_PASSWORD": "y"}, "conf": {"spark.authenticate.secret": "z"}}
    whole = restored(changed(SECRETS, given, ()), {"API_TOKEN": "x", "A": "not asked for"}, "42")

    assert {"API_TOKEN": "x", "DB_PASSWORD": "y", "A": "***"} == whole.env
    assert {"spark.authenticate.secret": "z", "spark.a": "1"} == whole.spark.conf


@pytest.mark.parametrize(("remote", "found"), [("sc://h/;token=new", True), ("sc://other/;token=new", False)])
def test_a_servers_token_comes_from_the_same_server_in_the_environment(remote: str, *, found: bool) -> None:
    spark = SparkSpec(remote="sc://h/;token=old")
    spec = replace(CLUSTER, mode=Mode.CONNECT, spark=spark).redacted()
    if found:
        assert remote == restored(spec, {"SPARK_REMOTE": remote}, "42").spark.remote
    else:
        with pytest.raises(SpecError, match="--remote"):
            restored(spec, {"SPARK_REMOTE": remote}, "42")


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_closure_is_run_again_from_its_pickle(tmp_path: Path) -> None:
    number = 20
    first = Distributor(2, workdir=tmp_path).start(lambda more: number + more, 22)
    first.wait()
    spec = read_spec(first.folder)
    again = launch(request_again(first.folder, {"name": "again"}))
    again.wait()

    assert 42 == first.result() == again.result()
    assert "again" == read_spec(again.folder).name
    with pytest.raises(SpecError, match="pickle"):
        changed(spec, {"param": {"more": "1"}}, ())
    (first.folder / "target.pickle").unlink()
    with pytest.raises(SpecError, match="has no pickle"):
        request_again(first.folder)


def test_a_pickled_function_finds_its_own_package(project: Path) -> None:
    package = project / "lib" / "pkg" / "sub"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    target = Target(TargetKind.CALLABLE, str(package / "m.py"), "f", pickled=True)
    request = request_again(recorded(JobSpec(target, workdir=str(project)), b"pickle"))

    assert (b"pickle", (str(project / "lib"), str(project))) == (request.payload, request.path)


def test_the_plan_of_a_run_again_is_printed_by_its_last_part(project: Path) -> None:
    folder = recorded(script(project))
    printed = called("last", "-n", "3", "--dry-run", "--env", "A=b", "--", "--lr", "0.2").stdout

    assert f"target   {project}/score.py --lr 0.2" in printed
    assert "rank 2 " in printed
    assert "env      A=b" in printed
    assert "--lr 0.1" in called(folder.name, "--dry-run").stdout


def test_editing_needs_a_terminal() -> None:
    recorded(CLUSTER)

    with pytest.raises(click.UsageError, match="needs a terminal"):
        called("last", "--edit")


def test_a_folder_that_says_nothing_readable_is_refused(project: Path) -> None:
    folder = recorded(script(project))
    document = to_plain(script(project))
    for broken in (
        "{",
        "[]",
        json.dumps({**document, "mode": "moon"}),
        json.dumps({**document, "target": 1}),
    ):
        (folder / "spec.json").write_text(broken)
        with pytest.raises(Exception, match="is not a run folder"):
            request_again(folder)
