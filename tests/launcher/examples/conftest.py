"""What tests of examples share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark_cluster import Cluster
from tests.spark_runs import Bench
from tests.trainings import EXAMPLES, Example


@pytest.fixture
def launch(example: Example) -> dict[str, Any]:
    """The options of the example's launch. Its environment is made before the test's time begins."""
    return example.launch()


@pytest.fixture
def lightning() -> Example:
    """The example of Lightning, whose environment is ready."""
    (example,) = (each for each in EXAMPLES if each.name == "lightning")
    example.launch()
    return example


@pytest.fixture(scope="module")
def two_hosts(spark_here: None) -> Iterator[Cluster]:
    """A cluster with two cores on each of two workers."""
    with Cluster(gpus=0) as made:
        yield made


@pytest.fixture
def bench(two_hosts: Cluster, session: Any, home: Path) -> Iterator[Bench]:
    """The module's own session on that cluster, of whose runs nothing is left."""
    made = Bench(two_hosts, session)
    yield made
    made.nothing_left()
