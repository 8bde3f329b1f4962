from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from console.data.launch.detect import Detected, Gpu, look, mode_line, room_line
from console.data.launch.draft import Draft
from launcher.spec.modes import Mode

GIB = 1 << 30
HERE = Detected(
    cores=8,
    gpus=(Gpu("H100", GIB // 2, 80 * GIB), Gpu("H100", 60 * GIB, 80 * GIB)),
    spark="4.0.1",
    environ={},
    defaults={},
)


@pytest.mark.parametrize(
    ("found", "draft", "works", "said"),
    [
        (HERE, Draft(), True, "this machine: 8 cores, 1 of 2 GPUs free"),
        (replace(HERE, gpus=(Gpu("H100"),)), Draft(), True, "8 cores, 1 GPU"),
        (replace(HERE, gpus=(), gpu_reason="no GPU found"), Draft(), True, "8 cores, no GPU found"),
        (replace(HERE, spark=""), Draft(mode=Mode.CLUSTER), False, "pyspark is not installed"),
        (replace(HERE, java="there is no java on PATH"), Draft(mode=Mode.CLUSTER), False, "Java 17"),
        (HERE, Draft(mode=Mode.CLUSTER, processes="4"), True, "no master is named: local[4]"),
        (HERE, Draft(mode=Mode.CLUSTER, spark="spark://h:7077"), True, "Spark 4.0.1, as filled in"),
        (
            replace(HERE, environ={"MASTER": "spark://m:1"}),
            Draft(mode=Mode.CLUSTER),
            True,
            "spark://m:1 by MASTER",
        ),
        (
            replace(HERE, defaults={"spark.master": "yarn"}),
            Draft(mode=Mode.CLUSTER),
            True,
            "yarn by spark-defaults.conf",
        ),
        (replace(HERE, connect=("grpcio",)), Draft(mode=Mode.CONNECT), False, "not installed: grpcio"),
        (HERE, Draft(mode=Mode.CONNECT), False, "none is named"),
        (
            replace(HERE, environ={"SPARK_REMOTE": "sc://r"}, java="none"),
            Draft(mode=Mode.CONNECT),
            True,
            "sc://r by SPARK_REMOTE",
        ),
    ],
)
def test_a_mode_is_judged_in_a_line(found: Detected, draft: Draft, works: bool, said: str) -> None:
    judged, line = mode_line(found, draft)

    assert judged is works
    assert said in line


@pytest.mark.parametrize(
    ("draft", "said"),
    [
        (Draft(processes="4"), "1 node × 4 · 1 of 2 GPUs free"),
        (Draft(processes="2:4"), "1 node × 2 to 4 · 1 of 2 GPUs free"),
        (Draft(processes="x"), ""),
        (Draft(mode=Mode.CLUSTER, processes="4"), "4 tasks × 1 rank · free slots: Spark will say"),
        (
            Draft(mode=Mode.CLUSTER, processes="8", extras={"gpus_per_task": "4"}),
            "2 tasks × 4 ranks · free slots: Spark will say",
        ),
        (
            Draft(mode=Mode.CLUSTER, processes="8", extras={"gpus_per_task": "2", "ranks_per_gpu": "2"}),
            "2 tasks × 4 ranks · free slots: Spark will say",
        ),
        (Draft(mode=Mode.CLUSTER, processes="8", extras={"gpus_per_task": "x"}), ""),
        (Draft(mode=Mode.CLUSTER, processes="2", spark="local[4]"), "2 tasks × 1 rank · 4 slots"),
        (
            Draft(mode=Mode.CLUSTER, processes="2", spark="local-cluster[2,4,1024]"),
            "2 tasks × 1 rank · 2 hosts × 4 slots",
        ),
    ],
)
def test_processes_divide_as_they_will(draft: Draft, said: str) -> None:
    assert room_line(HERE, draft) == said


def test_before_anything_is_known_the_division_is() -> None:
    assert room_line(None, Draft(processes="4")) == "1 node × 4"


def test_this_machine_is_looked_at(tmp_path: Path) -> None:
    found = look({"PATH": "", "JAVA_HOME": str(tmp_path)})

    assert found.cores == len(os.sched_getaffinity(0))
    assert found.java == f"JAVA_HOME={tmp_path} holds no bin/java"
    assert look({"PATH": ""}).java == "there is no java on PATH"
