"""Programs such as `tests/targets/drop_ins.py`, in an environment that has their framework."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.framework_envs import Environment
from tests.spark_cluster import Cluster

TARGETS = Path(__file__).parent / "targets"
PROGRAM = "drop_ins.py"
LIMIT_S = 280.0


@dataclass(frozen=True)
class Told:
    """What a program printed: its value, the lines before it, and its errors."""

    value: Any
    lines: Sequence[str]
    errors: str


def words(
    case: str,
    number: int,
    *,
    env: Environment | None = None,
    cluster: Cluster | None = None,
    program: str = PROGRAM,
) -> list[str]:
    """The command of a case. On a cluster, the executors alone are of the environment."""
    settings = json.dumps(None if cluster is None else conf(cluster))
    packages = site.getsitepackages()[0]
    python = sys.executable if env is None or cluster is not None else env.python
    return [str(word) for word in (python, TARGETS / program, settings, packages, case, number)]


def conf(cluster: Cluster) -> dict[str, str]:
    """Settings of a session with one core on each of two hosts."""
    return {
        **cluster.conf(cores=2),
        "spark.master": cluster.url,
        "spark.executor.cores": "1",
        "spark.default.parallelism": "2",
        "spark.ui.showConsoleProgress": "false",
    }


def around(env: Environment | None = None) -> Mapping[str, str]:
    """The variables of a program."""
    python = sys.executable if env is None else str(env.python)
    own = {} if env is None else env.variables
    return {**os.environ, **own, "PYSPARK_PYTHON": python, "PYTHONPATH": str(Path(__file__).parents[1])}


def run(
    case: str,
    number: int,
    *,
    env: Environment | None = None,
    cluster: Cluster | None = None,
    program: str = PROGRAM,
) -> Told:
    """Run a case to its end."""
    command = words(case, number, env=env, cluster=cluster, program=program)
    done = subprocess.run(
        command, env=around(env), capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert 0 == done.returncode, done.stdout + done.stderr
    *lines, last = done.stdout.splitlines()
    return Told(json.loads(last), lines, done.stderr)
