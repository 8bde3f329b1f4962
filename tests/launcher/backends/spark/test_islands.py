"""Cluster mode across hosts that share a network and nothing else, with Spark and torch and no more."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.runs import paths
from launcher.runs.reader import read_state
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests import bare_python, engines, survivors
from tests.commands import COMMAND, facts, last, until
from tests.spark_cluster import Cluster
from tests.spark_runs import end_engines

pytestmark = [pytest.mark.spark, pytest.mark.netns, pytest.mark.timeout(240)]

TARGETS = Path(__file__).parents[3] / "targets" / "cluster.py"
EXAMPLES = Path(__file__).parents[4] / "launcher" / "examples"
SOAK = int(os.environ.get("RANKDECK_SOAK", "1"))


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What executors run: nothing of ours, no psutil, no pynvml, no cloudpickle, no numpy."""
    python = bare_python.make(tmp_path_factory.mktemp("bare") / "venv")
    for module in ("launcher", "psutil", "pynvml", "cloudpickle", "numpy"):
        found = subprocess.run([python, "-P", "-c", f"import {module}"], capture_output=True, check=False)
        assert found.returncode, f"{module} must not be there"
    return python


@pytest.fixture(autouse=True)
def undisturbed(islands: Cluster, mark: str) -> Iterator[None]:
    yield
    end_engines(islands, mark)


def start(islands: Cluster, bare: Path, cwd: Path, *words: str | Path) -> subprocess.Popen[str]:
    conf = {**islands.conf(), "spark.pyspark.python": str(bare)}
    options = [w for key, value in conf.items() for w in ("--conf", f"{key}={value}")]
    options += ["--env", f"{survivors.MARK}={os.environ[survivors.MARK]}", "--start-timeout", "60"]
    return subprocess.Popen(
        [*islands.prefix(), COMMAND, "run", *map(str, words[:1]), "--master", islands.url, *options]
        + [str(w) for w in words[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cwd,
    )


@pytest.mark.frameworks
@pytest.mark.parametrize(
    ("script", "words"),
    [("digits_fsdp.py", ["--epochs", "2"]), ("plain_torchrun.py", [])],
)
def test_the_examples_across_two_hosts(
    islands: Cluster, bare: Path, tmp_path: Path, script: str, words: list[str]
) -> None:
    command = start(islands, bare, tmp_path, EXAMPLES / script, "-n", "4", "--", *words)
    out, err = command.communicate(timeout=200)
    state = read_state(last())

    assert 0 == command.returncode, err
    assert [0, 1, 0, 1] == [rank.local_rank for rank in state.ranks]
    assert {islands.host(0), islands.host(1)} == {rank.host for rank in state.ranks}
    if script.startswith("digits"):
        assert json.loads(out[("\n" + out).rindex("\n{") :])["test_accuracy"] >= 0.85


def test_ranks_meet_by_the_interface_that_both_hosts_have(
    islands: Cluster, bare: Path, tmp_path: Path
) -> None:
    command = start(islands, bare, tmp_path, f"{TARGETS}:places", "-n", "4")
    out, err = command.communicate(timeout=100)
    place = json.loads(out[("\n" + out).rindex("\n{") :])

    assert 0 == command.returncode, err
    assert place["MASTER_ADDR"] in (islands.host(0), islands.host(1))
    assert ("eth0", "=eth0") == (place["GLOO_SOCKET_IFNAME"], place["NCCL_SOCKET_IFNAME"])


@pytest.mark.parametrize("turn", range(SOAK))
def test_a_link_that_is_cut_for_five_seconds(islands: Cluster, bare: Path, tmp_path: Path, turn: int) -> None:
    """The run goes on, and what was written meanwhile is there to the last line."""
    command = start(islands, bare, tmp_path, f"{TARGETS}:tick", "-n", "4", "--param", "count=240")
    assert command.stdout is not None
    assert command.stdout.readline()
    islands.cut(0)
    try:
        _during(5)
    finally:
        islands.heal(0)
    _, err = command.communicate(timeout=100)

    assert 0 == command.returncode, err
    for rank in range(4):
        data = paths.log_file(last(), 0, rank, paths.STDOUT).read_bytes()
        assert list(range(240)) == [int(word) for word in data.split()]


@pytest.mark.parametrize("turn", range(SOAK))
def test_a_link_that_is_cut_for_good(islands: Cluster, bare: Path, tmp_path: Path, turn: int) -> None:
    """The verdict comes within 30 s, and the ranks that were cut off end as well."""
    command = start(islands, bare, tmp_path, f"{TARGETS}:tick", "-n", "4", "--param", "count=100000")
    assert command.stdout is not None
    assert command.stdout.readline()
    cut = time.time()
    islands.cut(1)
    try:
        _, err = command.communicate(timeout=100)
        engines.end_all()  # with its session's JVM, which would go on
        until(lambda: not survivors.alive(os.environ[survivors.MARK]), within=60)
    finally:
        islands.heal(1)
    over = facts(ev.RunEnded)[0]

    assert 75 == command.returncode, err
    assert Phase.LOST is read_state(last()).phase
    assert over.time - cut < 30
    assert islands.host(1) in err
    found = [fact for fact in facts(ev.CauseFound) if isinstance(fact, ev.CauseFound)]
    assert ["host-silent"] == [fact.id for fact in found]
    assert found[0].text in err
    until(lambda: len(islands.state()["workers"]) >= 2, within=90)


def _during(seconds: float) -> None:
    """How long a cable is out: the length of the fault, not a wait for anything."""
    deadline = time.monotonic() + seconds
    until(lambda: time.monotonic() >= deadline, within=seconds + 5)
