from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.launch.draft import Draft, Misfit, command_text, draft_of
from launcher.errors import SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode


def test_the_command_says_what_the_form_says(project: Path) -> None:
    draft = Draft(
        target="train.py:main", params={"lr": "0.1", "note": "a b"}, processes="4", gpu="no", workdir=project
    )

    words = shlex.split(command_text(draft))

    assert words == [
        *("rankdeck", "run", "train.py:main", "-n", "4", "--no-gpu"),
        *("--param", "lr=0.1", "--param", "note=a b"),
    ]


def test_a_scripts_arguments_follow_two_dashes(project: Path) -> None:
    draft = Draft(target="score.py", args="--name 'a b' -n 3", workdir=project)

    assert shlex.split(command_text(draft))[5:] == ["--", "--name", "a b", "-n", "3"]


def test_a_draft_resolves_to_what_is_launched(project: Path) -> None:
    spec = Draft(
        target="train.py:main", params={"lr": "0.1"}, processes="2", gpu="yes", workdir=project
    ).resolved()

    assert spec.target.kind is TargetKind.FUNCTION
    assert spec.target.kwargs == (("lr", "0.1"),)
    assert (spec.num_processes, spec.gpu, spec.workdir) == (2, True, str(project))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"target": ""}, "choose a file"),
        ({"target": "train.py:main"}, "lr"),
        ({"target": "none.py"}, "none.py"),
        ({"target": "score.py", "processes": ""}, "whole number"),
        ({"target": "score.py", "processes": "0"}, "at least 1"),
        ({"target": "score.py", "args": "'open"}, "cannot be split"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(project: Path, changes: dict[str, str], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        Draft(workdir=project, **changes).resolved()  # type: ignore[arg-type]


def test_a_past_run_can_be_filled_in_again(project: Path) -> None:
    draft = Draft(target="train.py:main", params={"lr": "0.1"}, processes="2", workdir=project)

    again = draft_of(draft.resolved())

    assert again == draft


def sent(project: Path) -> list[Path]:
    """Files to be sent along."""
    paths = [project / "a b.zip", project / "more"]
    for path in paths:
        path.touch()
    return paths


def cluster_spec(project: Path, **more: object) -> JobSpec:
    """A run on a cluster, as it was recorded."""
    spark = SparkSpec(
        master="spark://head:7077",
        conf={"spark.executor.memory": "2g", "spark.authenticate.secret": "s3cret"},
        listen=":4000-4010",
        lost_after_s=7.5,
    )
    given = {
        "num_processes": 4,
        "min_processes": 2,
        "mode": Mode.CLUSTER,
        "workdir": str(project),
        "env": {"LEVEL": "3", "API_TOKEN": "s3cret"},
        "py_files": tuple(map(str, sent(project))),
        "max_restarts": 2,
        "start_timeout_s": 30.0,
        "gpus_per_rank": 2,
        "gpus_per_task": 4,
        "timeout_s": 90.5,
        "spark": spark,
    }
    return JobSpec(Target(TargetKind.SCRIPT, str(project / "score.py")), **{**given, **more}).redacted()  # type: ignore[arg-type]


def test_a_run_on_a_cluster_is_filled_in_with_all_that_it_had(project: Path) -> None:
    spec = cluster_spec(project)
    draft = draft_of(spec)

    assert shlex.split(command_text(draft)) == [
        *("rankdeck", "run", "score.py", "-n", "2:4", "--mode", "cluster", "--master", "spark://head:7077"),
        *("--gpus-per-rank", "2", "--gpus-per-task", "4", "--max-restarts", "2", "--start-timeout", "30"),
        *("--timeout", "90.5", "--env", "LEVEL=3"),
        *("--listen", ":4000-4010", "--lost-after", "7.5", "--conf", "spark.executor.memory=2g"),
        *(word for path in sent(project) for word in ("--py-files", str(path))),
    ]
    again = draft.resolved()
    assert again == replace(
        spec,
        withheld=(),
        env={"LEVEL": "3"},
        spark=replace(spec.spark, conf={"spark.executor.memory": "2g"}),
    )


def test_what_was_not_written_down_is_not_sent_as_stars(project: Path) -> None:
    spark = SparkSpec(remote="sc://head:15002/;token=s3cret;use_ssl=true")
    draft = draft_of(cluster_spec(project, mode=Mode.CONNECT, spark=spark))

    assert draft.spark == "sc://head:15002/;use_ssl=true"
    assert "***" not in command_text(draft)
    assert "***" not in str(draft.resolved())


def test_on_this_machine_nothing_of_spark_is_kept(project: Path) -> None:
    draft = replace(draft_of(cluster_spec(project)), mode=Mode.LOCAL)
    words = shlex.split(command_text(draft))

    assert not {"--conf", "--py-files", "--listen", "--master", "--gpus-per-task"} & set(words)
    assert words[-2:] == ["--env", "LEVEL=3"]
    assert (draft.resolved().spark, draft.resolved().py_files) == (SparkSpec(), ())


@pytest.mark.parametrize(
    ("mode", "spark", "words"),
    [
        (Mode.LOCAL, "spark://h:7077", []),
        (Mode.CLUSTER, "", ["--mode", "cluster"]),
        (Mode.CLUSTER, " spark://h:7077 ", ["--mode", "cluster", "--master", "spark://h:7077"]),
        (Mode.CONNECT, "sc://h:15002", ["--mode", "connect", "--remote", "sc://h:15002"]),
    ],
)
def test_the_command_names_the_mode_and_its_spark(
    project: Path, mode: Mode, spark: str, words: list[str]
) -> None:
    draft = Draft(target="score.py", mode=mode, spark=spark, workdir=project)

    assert shlex.split(command_text(draft))[5:] == words
    made = draft.resolved().spark
    assert (made.master or made.remote) == (words[-1] if len(words) > 2 else "")


@pytest.mark.parametrize("extras", [{}, {"conf": "spark.master=head:7077"}])
def test_an_address_without_its_scheme_is_an_error_of_its_field(
    project: Path, extras: dict[str, str]
) -> None:
    address = "" if extras else "head:7077"
    draft = replace(draft_of(cluster_spec(project)), spark=address, extras=extras)
    with pytest.raises(Misfit, match=r"did you mean .*spark://head:7077") as caught:
        draft.resolved()
    assert caught.value.field == "spark"
