"""Fixtures of real Spark, made once for all tests that ask for them; skipped where there can be none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import engines, spark_net, survivors
from tests.commands import until
from tests.spark_cluster import Cluster, ConnectServer, missing
from tests.spark_runs import Bench, agents_of, classic_session


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


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[Any]:
    """A session of the module's own on `cluster`, as a notebook has one."""
    with classic_session(cluster) as made:
        yield made


@pytest.fixture
def bench(cluster: Cluster, session: Any, home: Path) -> Iterator[Bench]:
    """The cluster and the module's own session on it; nothing of their runs is left after the test."""
    made = Bench(cluster, session)
    yield made
    made.nothing_left()


@pytest.fixture
def undisturbed(cluster: Cluster, mark: str) -> Iterator[None]:
    """Nothing of a command is left on the cluster: no application, no agent, no rank."""
    yield
    engines.end_all()
    assert survivors.gone(mark, within=20) == {}
    until(lambda: not agents_of(cluster))
    until(lambda: not cluster.executors())


@pytest.fixture(scope="module")
def connect_server(spark_here: None) -> Iterator[ConnectServer]:
    """A Connect server that has all of a cluster of its own: 2 executors of 2 cores and 2 fake GPUs.

    It ends with the module: those of all workers at once would take a third of 24 GB.
    """
    with Cluster() as own, ConnectServer(own, cores=4) as made:
        yield made


@pytest.fixture
def connected(connect_server: ConnectServer, mark: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A session of a Connect client, as the active one."""
    from pyspark.sql.connect.session import SparkSession

    for name in ("SPARK_CONNECT_MODE_ENABLED", "SPARK_REMOTE"):  # pyspark sets both, for all that follows
        monkeypatch.setenv(name, "1" if name == "SPARK_CONNECT_MODE_ENABLED" else connect_server.url)
    session = SparkSession.builder.remote(connect_server.url).create()
    try:
        yield session
    finally:
        session.stop()


@pytest.fixture(scope="module")
def islands(spark_here: None) -> Iterator[Cluster]:
    """As `cluster`, but every host is a network namespace, so that cables can be pulled."""
    if not spark_net.permitted():
        pytest.skip("needs network namespaces: not permitted here")
    with Cluster(netns=True) as made:
        yield made
