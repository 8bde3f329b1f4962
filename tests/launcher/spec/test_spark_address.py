"""Addresses of Spark: what has the form of one, and what a person is told to write instead."""

from __future__ import annotations

from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.spec.spark_address import check_address, check_environment, shown

TARGET = Target(TargetKind.SCRIPT, "/w/train.py")


@pytest.mark.parametrize(
    "master",
    [
        "local", "local[4]", "local[*]", "local[2,3]", "local[*, 1]", "local-cluster[2,1,1024]",
        "spark://h:7077", "spark://a:1,b:2", "spark://[::1]:7077",
        "k8s://https://127.0.0.1:1", "k8s://h:6443", "yarn", "mesos://h:5050",
    ],
)  # fmt: skip
def test_what_spark_takes_as_a_master_is_let_through(master: str) -> None:
    Request(JobSpec(TARGET, mode=Mode.CLUSTER, spark=SparkSpec(master=master)), environ={})
    check_address(master, "MASTER")


@pytest.mark.parametrize(
    ("master", "cure"),
    [
        ("127.0.0.1:7277", "did you mean --master spark://127.0.0.1:7277?"),
        ("[::1]:7077", "did you mean --master spark://[::1]:7077?"),
        ("http://h:8080/", "did you mean --master spark://h:7077?"),
        ("https://h:6443", "did you mean --master k8s://https://h:6443?"),
        ("Spark://h:7077", "did you mean --master spark://h:7077?"),
        (" spark://h:7077", "did you mean --master spark://h:7077?"),
        ("Local[2]", "did you mean --master local[2]?"),
        ("yarn-client", "did you mean --master yarn?"),
        ("spark://h", "such as spark://host:7077"),
        ("spark://:7077", "such as spark://host:7077"),
        ("SPARK://h", "such as spark://host:7077"),
        ("nonsense", "such as spark://host:7077"),
        ("local[two]", "such as spark://host:7077"),
        ("k8s://", "such as spark://host:7077"),
        (" ", "such as spark://host:7077"),
    ],
)
def test_what_is_no_master_is_told_what_to_write(master: str, cure: str) -> None:
    with pytest.raises(SpecError) as caught:
        Request(JobSpec(TARGET, mode=Mode.CLUSTER, spark=SparkSpec(master=master)), environ={})
    assert cure in str(caught.value)
    assert master.strip() in str(caught.value)


@pytest.mark.parametrize(
    ("remote", "cure"),
    [
        ("127.0.0.1:15772", "did you mean --remote sc://127.0.0.1:15772?"),
        ("localhost", "did you mean --remote sc://localhost:15002?"),
        ("http://h:15772/x", "did you mean --remote sc://h:15772?"),
        ("https://h", "did you mean --remote sc://h:443/;use_ssl=true?"),
        ("h:1/;token=abcdefgh", "did you mean --remote sc://h:1/;…?"),
        ("spark://h:7077", "it is a master: --master takes it"),
        ("local[2]", "it is a master: --master takes it"),
        ("sc://", "such as sc://host:15002"),
        ("sc://h:99999", "h:99999 is no host and port"),
        ("h\n", "did you mean --remote sc://h:15002?"),
        ("a\nb", "such as sc://host:15002"),
    ],
)
def test_what_is_no_server_is_told_what_to_write(remote: str, cure: str) -> None:
    with pytest.raises(SpecError) as caught:
        Request(JobSpec(TARGET, mode=Mode.CONNECT, spark=SparkSpec(remote=remote)), environ={})
    said = str(caught.value)
    assert cure in said
    assert "\n" not in said
    assert "abcdefgh" not in said


@pytest.mark.parametrize("origin", ["spark.master", "spark.remote"])
def test_an_address_among_sparks_settings_is_checked_too(origin: str) -> None:
    spec = JobSpec(TARGET, mode=Mode.CLUSTER, spark=SparkSpec(conf={origin: "h:1"}))
    with pytest.raises(SpecError, match=f"did you mean --conf {origin}="):
        Request(spec, environ={})


def test_a_server_may_be_named_where_a_master_could_be() -> None:
    check_address("sc://h", "--conf spark.master")


def test_a_distributor_refuses_it_when_it_is_made() -> None:
    with pytest.raises(SpecError, match="did you mean --master spark://h:1"):
        Distributor(2, "cluster", spark=SparkSpec(master="h:1"))


def test_a_record_of_a_refused_run_can_still_be_read() -> None:
    assert JobSpec(TARGET, spark=SparkSpec(master="h:1")).redacted().spark.master == "h:1"


@pytest.mark.parametrize("value", [5, None, b"spark://h:1"])
def test_an_address_is_text(value: Any) -> None:
    with pytest.raises(SpecError, match="--master takes an address as text"):
        SparkSpec(master=value)


@pytest.mark.parametrize(
    ("spark", "environ", "refused"),
    [
        (SparkSpec(), {"SPARK_REMOTE": "h:1"}, True),
        (SparkSpec(), {"SPARK_REMOTE": "sc://h:1"}, False),
        (SparkSpec(), {}, False),
        (SparkSpec(master="spark://h:1"), {"SPARK_REMOTE": "h:1"}, False),
        (SparkSpec(conf={"spark.master": "yarn"}), {"SPARK_REMOTE": "h:1"}, False),
    ],
)
def test_the_environment_counts_where_the_request_names_none(
    spark: SparkSpec, environ: dict[str, str], refused: bool
) -> None:
    if refused:
        with pytest.raises(SpecError, match=r"did you mean SPARK_REMOTE=sc://h:1\?"):
            check_environment(spark, environ)
    else:
        check_environment(spark, environ)


def test_an_address_is_shown_without_secrets_and_not_at_length() -> None:
    assert shown("http://ada:pass-word-1@h:1/;token=xyz") == "http://ada:***@h:1/"
    assert len(shown("a" * 16_384)) == 100
