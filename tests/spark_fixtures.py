"""Fixtures of real Spark, made once for all tests that ask for them; skipped where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import spark_net
from tests.spark_cluster import Cluster, ConnectServer, missing
from tests.spark_runs import Bench


@pytest.fixture(scope="session")
def spark_here() -> None:
    """Skips where there is no Java or no pyspark."""
    if reason := missing():
        pytest.skip(f"needs Spark: {reason}")


@pytest.fixture(scope="session")
def cluster(spark_here: None) -> Iterator[Cluster]:
    """2 workers of 2 cores and 2 fake GPUs each. Whoever breaks a worker restarts it."""
    with Cluster() as made:
        yield made


@pytest.fixture(scope="module")
def cpu_cluster(spark_here: None) -> Iterator[Cluster]:
    """As `cluster`, without GPUs."""
    with Cluster(gpus=0) as made:
        yield made


@pytest.fixture
def bench(cluster: Cluster, session: Any, home: Path) -> Iterator[Bench]:
    """The cluster and the module's own session on it; nothing of their runs is left after the test."""
    made = Bench(cluster, session)
    yield made
    made.nothing_left()


@pytest.fixture(scope="session")
def connect_server(spark_here: None) -> Iterator[ConnectServer]:
    """A Connect server that has all of a cluster of its own: 2 executors of 2 cores and 2 fake GPUs."""
    with Cluster() as own, ConnectServer(own, cores=4) as made:
        yield made


@pytest.fixture(scope="module")
def islands(spark_here: None) -> Iterator[Cluster]:
    """As `cluster`, but every host is a network namespace, so that cables can be pulled."""
    if not spark_net.permitted():
        pytest.skip("needs network namespaces: not permitted here")
    with Cluster(netns=True) as made:
        yield made
