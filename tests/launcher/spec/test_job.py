"""What may be asked for, and what is written down of it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from launcher.errors import SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.redaction import REDACTED, looks_secret

SCRIPT = Target(TargetKind.SCRIPT, "/w/train.py")


def make(**fields: Any) -> JobSpec:
    return JobSpec(SCRIPT, **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_processes": 0},
        {"num_processes": -1},
        {"grace_s": -0.1},
        {"grace_s": math.nan},
        {"timeout_s": -1.0},
        {"timeout_s": math.nan},
        {"sample_s": 0.0},
        {"sample_s": math.nan},
        {"ranks_per_gpu": 0},
        {"ranks_per_gpu": -1},
        {"ranks_per_gpu": 2, "gpus_per_rank": 2},
        {"env": {"": "x"}},
        {"env": {"A=B": "x"}},
        {"env": {"A\0": "x"}},
        {"env": {"A": "x\0y"}},
        {"env": {"A": 1}},
        {"env": {1: "A"}},
        {"env": {"A": None}},
    ],
    ids=repr,
)
def test_what_cannot_be_right_is_refused_when_it_is_made(fields: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        make(**fields)


@pytest.mark.parametrize(
    "fields", [{"grace_s": 0.0}, {"timeout_s": 0.0}, {"timeout_s": None}, {"env": {"A": ""}}], ids=repr
)
def test_limits_of_what_can_be_right_are_accepted(fields: dict[str, Any]) -> None:
    assert fields == {k: getattr(make(**fields), k) for k in fields}


@pytest.mark.parametrize(
    ("fields", "ranks"),
    [
        ({}, 1),
        ({"gpus_per_rank": 2}, 1),
        ({"gpus_per_rank": 2, "gpus_per_task": 4}, 2),
        ({"ranks_per_gpu": 3}, 3),
        ({"ranks_per_gpu": 3, "gpus_per_task": 2}, 6),
    ],
)
def test_a_task_holds_the_ranks_of_its_gpus(fields: dict[str, Any], ranks: int) -> None:
    assert ranks == make(num_processes=6, mode=Mode.CLUSTER, **fields).ranks_per_task


def test_ranks_that_share_gpus_are_divided_among_tasks_where_there_are_tasks() -> None:
    with pytest.raises(SpecError, match="3 ranks cannot be divided among tasks of 2 ranks each"):
        make(num_processes=3, mode=Mode.CLUSTER, ranks_per_gpu=2)
    assert 3 == make(num_processes=3, ranks_per_gpu=2).num_processes


@pytest.mark.parametrize(
    "name",
    [
        "AWS_SECRET_ACCESS_KEY",
        "HF_TOKEN",
        "wandb_api_key",
        "DB_PASSWORD",
        "PGPASSFILE",
        "REDISCLI_AUTH",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "session_cookie",
        "PrivateThing",
        "MYSQL_PWD",
        "GITHUB_PAT",
        "SENTRY_DSN",
        "MY_JWT",
    ],
)
def test_names_that_hold_secrets_look_secret(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", ["RANK", "NCCL_DEBUG", "PATH", "OMP_NUM_THREADS", "LR", "PWD", "OLDPWD"])
def test_names_of_ordinary_settings_do_not(name: str) -> None:
    assert not looks_secret(name)


def test_redaction_hides_values_and_keeps_names_and_the_original() -> None:
    spec = make(env={"HF_TOKEN": "abc", "NCCL_DEBUG": "INFO"})
    assert {"HF_TOKEN": REDACTED, "NCCL_DEBUG": "INFO"} == spec.redacted().env
    assert {"HF_TOKEN": "abc", "NCCL_DEBUG": "INFO"} == spec.env


@pytest.mark.parametrize(
    ("target", "name", "expected"),
    [
        (SCRIPT, "", "train.py"),
        (SCRIPT, "mine", "mine"),
        (Target(TargetKind.FUNCTION, "/w/train.py", "fit"), "", "fit"),
        (Target(TargetKind.FUNCTION, "pkg.mod", "fit"), "", "fit"),
    ],
)
def test_a_run_is_called_what_it_runs_unless_it_has_a_name(target: Target, name: str, expected: str) -> None:
    assert expected == JobSpec(target, name=name).label


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"master": "spark://h:1", "remote": "sc://h:2"}, "two different Sparks"),
        ({"master": "sc://h:1"}, "is a Connect server, not a master"),
        ({"lost_after_s": 0}, "must be more than 0 seconds"),
        ({"lost_after_s": float("nan")}, "must be more than 0 seconds"),
    ],
)
def test_a_spark_that_cannot_be_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        SparkSpec(**fields)


def test_what_looks_secret_in_sparks_settings_is_not_written_down() -> None:
    spark = SparkSpec(
        remote="sc://h:1/;token=abc;user_id=ada", conf={"spark.ssl.keyPassword": "x", "spark.ui.port": "0"}
    )
    shown = JobSpec(Target(TargetKind.SCRIPT, "a.py"), spark=spark).redacted().spark

    assert f"sc://h:1/;token={REDACTED};user_id=ada" == shown.remote
    assert {"spark.ssl.keyPassword": REDACTED, "spark.ui.port": "0"} == shown.conf
