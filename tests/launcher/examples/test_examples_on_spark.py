"""The examples on a cluster of two hosts, one rank on each, and one training unchanged in every mode."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import RankFailed
from launcher.job import load_result
from launcher.runs.reader import read_state
from tests import survivors
from tests.commands import COMMAND, last
from tests.spark_cluster import Cluster, ConnectServer
from tests.spark_runs import Bench, classic_session
from tests.trainings import Example, check, examples, results

pytestmark = [pytest.mark.frameworks, pytest.mark.spark, pytest.mark.timeout(300, func_only=True)]

EPOCHS = 2
HOSTS = {"127.0.0.2", "127.0.0.3"}
# those whose ranks find each other in a way of their own; how a model is sharded is tried in
# test_same_result, and Ray in test_services_on_spark
ON_CLUSTER = examples(
    "ddp", "lightning", "deepspeed-stage3", "trainer", "colossalai", "horovod", "tensorflow"
)
FAILING = examples("deepspeed-stage3", "horovod", "tensorflow")
ONE_CORE = {"spark.executor.cores": "1", "spark.cores.max": "2"}  # so that both workers have an executor


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[Any]:
    """One core on each host, so that a Connect server has room beside it."""
    with classic_session(cluster, **ONE_CORE) as made:
        yield made


@pytest.mark.parametrize("example", ON_CLUSTER, ids=str)
def test_two_hosts_train_as_one_process_does(bench: Bench, example: Example, launch: dict[str, Any]) -> None:
    job = bench.distributor(2, **launch).start(str(example.script), *example.argv(EPOCHS))

    check(example, results(job), EPOCHS)
    assert HOSTS == {rank.host for rank in job.state.ranks}


@pytest.mark.parametrize("example", FAILING, ids=str)
def test_a_failing_rank_ends_the_others_and_is_blamed(
    bench: Bench, targets: Path, example: Example, launch: dict[str, Any]
) -> None:
    script = str(targets / "endless_training.py")
    job = bench.distributor(2, grace_s=1, **launch).start(script, example.module, "raise", "")

    with pytest.raises(RankFailed, match="bad luck") as failure:
        results(job)
    assert (1, 1) == (failure.value.rank, failure.value.exit_code)


def test_lightning_counts_the_ranks_of_all_hosts(bench: Bench, targets: Path, lightning: Example) -> None:
    script = str(targets / "lightning_world.py")
    job = bench.distributor(2, **lightning.launch()).start(script, "trainer", "auto")

    assert [{"rank": rank, "world": 2, "steps": 32} for rank in (0, 1)] == results(job)


@pytest.fixture
def cluster_place(cluster: Cluster) -> list[str]:
    """The options of an engine's session of its own."""
    settings = {**cluster.conf(), **ONE_CORE}
    return [f"--master={cluster.url}", *(f"--conf={key}={value}" for key, value in settings.items())]


@pytest.fixture
def connect_place(cluster: Cluster) -> Iterator[list[str]]:
    """A Connect server on the same cluster."""
    with ConnectServer(cluster, conf={"spark.executor.cores": "1"}) as server:
        yield [f"--remote={server.url}"]


@pytest.mark.parametrize("mode", ["cluster", "connect"])
def test_a_function_of_lightning_is_the_same_in_every_mode(
    mode: str, cluster: Cluster, lightning: Example, mark: str, request: pytest.FixtureRequest
) -> None:
    launch = lightning.launch()
    words = ["run", f"{lightning.script}:train", "-n2", "--param", f"epochs={EPOCHS}"]
    passed = [f"--env={key}={value}" for key, value in {**launch["env"], survivors.MARK: mark}.items()]
    python = f"--python={launch['python']}"
    place = request.getfixturevalue(f"{mode}_place")

    done = subprocess.run(
        [COMMAND, *words, python, *passed, *place],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert 0 == done.returncode, done.stderr
    check(lightning, [load_result(last(), rank) for rank in (0, 1)], EPOCHS)
    state = read_state(last())
    assert mode == state.mode
    assert 2 == len({rank.host for rank in state.ranks})
