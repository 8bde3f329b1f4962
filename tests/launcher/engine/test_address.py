"""Which requests share an engine."""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.engine import address
from launcher.engine.address import EngineKey, fingerprint, key_for
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request

TARGET = Target(TargetKind.SCRIPT, "/w/t.py")
SPARK = SparkSpec(master="spark://h:7077", conf={"spark.a": "1"})


def key(
    *, environ: dict[str, str] | None = None, spark: dict[str, Any] | None = None, **spec: Any
) -> EngineKey:
    made = JobSpec(TARGET, workdir="/w", spark=replace(SPARK, **(spark or {})), **spec)
    return key_for(Request(made, environ={"PATH": "/bin", **(environ or {})}))


LOCAL = key()
CLUSTER = key(mode=Mode.CLUSTER)


@pytest.mark.parametrize(
    "same",
    [
        key(num_processes=8),
        key(name="x", env={"A": "1"}, grace_s=1.0),
        key(environ={"HOME": "/else", "SPARK_HOME": "/spark", "JAVA_HOME": "/java"}),
        key(spark={"master": "spark://other:1"}),
    ],
)
def test_local_runs_share_one(same: EngineKey) -> None:
    assert LOCAL == same
    assert "local" == same.target


@pytest.mark.parametrize(
    "same",
    [key(mode=Mode.CLUSTER, num_processes=8), key(mode=Mode.CLUSTER, environ={"HOME": "/else", "TERM": "x"})],
)
def test_runs_on_one_spark_share_one(same: EngineKey) -> None:
    assert CLUSTER == same
    assert "spark://h:7077" == same.target


@pytest.mark.parametrize(
    "other",
    [
        LOCAL,
        key(environ={"SLURM_JOB_ID": "7"}),
        key(mode=Mode.CLUSTER, spark={"master": "spark://h:7078"}),
        key(mode=Mode.CLUSTER, spark={"conf": {"spark.a": "2"}}),
        key(mode=Mode.CLUSTER, spark={"conf": {}}),
        key(mode=Mode.CONNECT, spark={"master": "", "remote": "sc://h:15002"}),
        key(mode=Mode.CLUSTER, environ={"SPARK_HOME": "/spark"}),
        key(mode=Mode.CLUSTER, environ={"HADOOP_CONF_DIR": "/conf"}),
        key(mode=Mode.CLUSTER, environ={"AWS_PROFILE": "other"}),
        key(mode=Mode.CLUSTER, environ={"JAVA_HOME": "/java"}),
    ],
)
def test_others_do_not(other: EngineKey) -> None:
    assert CLUSTER.digest != other.digest
    if other is not LOCAL:
        assert LOCAL.digest != other.digest


def test_engines_side_by_side_have_keys_of_their_own() -> None:
    lanes = [CLUSTER.lane(number) for number in range(4)]
    assert CLUSTER == lanes[0]
    assert 4 == len({lane.digest for lane in lanes})
    assert {CLUSTER.target} == {lane.target for lane in lanes}
    assert lanes[2] == CLUSTER.lane(2)


def test_a_token_is_told_to_nobody() -> None:
    remote = "sc://h:15002/;token=secret"
    found = key(mode=Mode.CONNECT, spark={"master": "", "remote": remote})

    assert "secret" not in repr(found)
    assert "sc://h:15002/" == found.target
    assert found.digest != key(mode=Mode.CONNECT, spark={"master": "", "remote": "sc://h:15002/"}).digest


def test_its_name_fits_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", LOCAL.digest)
    assert launcher.__version__ == LOCAL.version
    monkeypatch.setattr("launcher.engine.address.__version__", "9.9")
    assert LOCAL.digest != key().digest


def test_an_edit_of_our_own_files_is_another_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(
        Path(address.ROOT, "launcher"), tmp_path / "launcher", ignore=shutil.ignore_patterns("*.pyc")
    )
    monkeypatch.setattr(address, "ROOT", str(tmp_path))
    before, first = fingerprint(), key()
    cached = tmp_path / "launcher" / "__pycache__" / "x.py"
    cached.parent.mkdir(exist_ok=True)
    cached.write_text("")
    assert before == fingerprint()
    edited = tmp_path / "launcher" / "runs" / "paths.py"
    os.utime(edited, ns=(1, 1))
    assert before != fingerprint()
    assert first.digest != key().digest
    now = fingerprint()
    edited.unlink()
    assert now != fingerprint()
