"""`doctor` on a real standalone cluster of two workers: through the engine, and from a program."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import launcher
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from tests import engines, survivors
from tests.commands import COMMAND, Foreground, until
from tests.spark_cluster import Cluster
from tests.spark_runs import Bench, agents_of, common_options, end_engines

pytestmark = [pytest.mark.spark, pytest.mark.timeout(180)]


def examined(
    cluster: Cluster, folder: Path, *words: str | Path
) -> tuple[int, dict[str, dict[str, Any]], float]:
    """The exit code, the worst finding of each check, and the seconds that it took by its own account."""
    options = common_options(cluster)
    done = subprocess.run(
        [*cluster.prefix(), COMMAND, "doctor", *map(str, words), *options, "--json"],
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        check=False,
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    return done.returncode, {each["id"]: each for each in report["checks"]}, report["seconds"]


@pytest.mark.usefixtures("undisturbed")
def test_a_good_cluster_passes(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch, beside\n")
    (tmp_path / "beside.py").write_text("import json\n")
    examined(cluster, tmp_path, "train.py", "-n", "4", "--no-gpu")  # the engine has its session then
    code, found, seconds = examined(cluster, tmp_path, "train.py", "-n", "4", "--no-gpu")

    assert [each for each in found.values() if each["state"] not in ("pass", "warn")] == []
    assert code == 0
    assert found["hosts"]["text"].startswith("4 agents on 2 hosts")
    assert found["network.hosts"]["state"] == "pass"
    assert found["target.imports"]["state"] == "pass"
    assert run_ids(runs_root()) == []
    sys.stdout.write(f"with a warm session: {seconds:.1f} s\n")


@pytest.mark.usefixtures("undisturbed")
def test_what_workers_lack_is_found(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import no_such_module\n")
    code, found, _ = examined(cluster, tmp_path, "train.py", "-n", "2", "--no-gpu", "--python", "/no/python")

    assert code == 1
    assert "/no/python cannot be started" in found["python"]["text"]
    code, found, _ = examined(cluster, tmp_path, "train.py", "-n", "2", "--no-gpu")
    assert code == 1
    assert "no_such_module is not installed on" in found["target.imports"]["text"]


@pytest.mark.usefixtures("undisturbed")
def test_too_many_ranks_have_no_place(cluster: Cluster, tmp_path: Path) -> None:
    code, found, _ = examined(cluster, tmp_path, "-n", "9", "--no-gpu")

    assert code == 69
    assert "needs 9 slots" in found["slots"]["text"]
    assert "-n 4" in found["slots"]["remedy"]
    assert found["memory"]["state"] == "unknown"


@pytest.mark.usefixtures("undisturbed")
def test_ctrl_c_cancels_the_stage(cluster: Cluster, tmp_path: Path) -> None:
    begun, waits = tmp_path / "begun", tmp_path / "python"
    waits.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 60\n")
    waits.chmod(0o755)
    words = ("doctor", "-n", "2", "--no-gpu", "--python", str(waits), *common_options(cluster))
    with Foreground(*words, folder=tmp_path) as command:
        until(begun.exists)
        command.signal(signal.SIGINT)
        code = command.process.wait(30)

    assert code == 130
    until(lambda: not agents_of(cluster))


def test_a_program_with_a_session_of_its_own(bench: Bench, mark: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import json\n")
    report = launcher.doctor(str(tmp_path / "train.py"), num_processes=2, mode="cluster", gpu=False)

    assert report.ok, report
    assert report["hosts"].text.startswith("2 agents on")


@pytest.mark.netns
@pytest.mark.takes(60)
def test_executors_that_cannot_reach_each_other(islands: Cluster, mark: str, tmp_path: Path) -> None:
    """Both reach the engine: only a dial from one to the other shows it.

    Each is refused at once, and Spark asks the driver for what an executor cannot give. What is lost on its
    way would hold up an executor for `spark.network.timeout`, if it happens to ask the other one.
    """
    assert islands.net is not None
    with islands.net.refused(0, 1):
        code, found, _ = examined(islands, tmp_path, "-n", "4", "--no-gpu")
    end_engines(islands, mark)

    assert code == 1
    assert "cannot reach" in found["network.hosts"]["text"], found
    assert islands.net.address(1) in found["network.hosts"]["text"]
    assert os.environ[survivors.MARK] == mark
    assert engines.pids() == []
