"""What a form's launch would be: the plan, or the field that is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.launch import preflight as module
from console.data.launch.detect import Detected
from console.data.launch.draft import Draft, Misfit
from console.data.launch.preflight import preflight
from launcher.spec.modes import Mode

FOUND = Detected(cores=4, spark="4.0.1", environ={}, defaults={})


@pytest.fixture(autouse=True)
def detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(_: Mapping[str, str]) -> Detected:
        return FOUND

    monkeypatch.setattr(module, "look", look)


def test_the_places_of_a_local_run_are_told(project: Path) -> None:
    draft = Draft(target="score.py", args="--a 'b c'", processes="70", gpu="no", workdir=project)

    lines = preflight(replace(draft, extras={"env": "API_TOKEN=s3cret LEVEL=3"}))
    said = dict(lines)

    assert said["target"] == f"{project / 'score.py'} --a 'b c'"
    assert said["room"] == "1 node × 70 · 4 cores"
    assert said["rank 63"].endswith(("1 thread", " threads"))
    assert ("", "and 6 more ranks") in lines
    assert ("env", "API_TOKEN=***") in lines
    assert ("env", "LEVEL=3") in lines


def test_the_stage_of_a_cluster_is_told_and_nothing_started(project: Path) -> None:
    extras = {"gpus_per_task": "2", "conf": "spark.a=1"}
    draft = Draft(
        target="train.py:main",
        params={"lr": "1"},
        processes="4",
        mode=Mode.CLUSTER,
        spark="spark://nowhere:7077",
        extras=extras,
        workdir=project,
    )

    said = dict(preflight(draft))

    assert said["mode"] == "cluster: Spark 4.0.1, as filled in"
    assert said["stage"] == "2 barrier tasks, each with 2 GPUs where there are any"
    assert said["sent"].endswith(f" B, from {project.name}")
    assert said["conf"] == "spark.a=1"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"target": "gone.py"}, "target"),
        ({"target": "train.py:main", "params": {"lr": "x"}}, "param:lr"),
        ({"target": "train.py:main"}, "param:lr"),
        ({"args": "'open"}, "args"),
        ({"processes": "x"}, "processes"),
        ({"gpu": "yes", "processes": "900"}, "gpu"),
        ({"mode": Mode.CONNECT}, "mode"),
        ({"mode": Mode.CLUSTER, "spark": "sc://h"}, "spark"),
        ({"mode": Mode.CLUSTER, "spark": "spark://h:1", "extras": {"listen": "a:b:c"}}, "spark"),
        ({"mode": Mode.CLUSTER, "spark": "spark://h:1", "extras": {"py_files": "gone.zip"}}, "py_files"),
        ({"extras": {"workdir": "gone"}}, "workdir"),
        ({"extras": {"max_restarts": "-1"}}, "max_restarts"),
        ({"extras": {"env": "A"}}, "env"),
        ({"extras": {"gpus_per_rank": "0"}}, "gpus_per_rank"),
        ({"extras": {"ranks_per_gpu": "0"}}, "ranks_per_gpu"),
        ({"extras": {"gpus_per_rank": "2", "ranks_per_gpu": "2"}}, "ranks_per_gpu"),
    ],
)
def test_what_is_wrong_is_said_with_its_field(project: Path, changes: dict[str, object], field: str) -> None:
    draft = replace(Draft(target="score.py", workdir=project), **changes)  # type: ignore[arg-type]

    with pytest.raises(Misfit) as caught:
        preflight(draft)
    assert caught.value.field == field
