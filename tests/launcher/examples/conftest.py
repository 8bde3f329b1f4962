"""What tests of examples share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.spark_cluster import Cluster
from tests.trainings import Example, examples


@pytest.fixture
def launch(example: Example) -> dict[str, Any]:
    """The options of the example's launch. Its environment is made before the test's time begins."""
    return example.launch()


@pytest.fixture
def lightning() -> Example:
    """The example of Lightning, whose environment is ready."""
    (example,) = examples("lightning")
    example.launch()
    return example


@pytest.fixture(scope="module")
def cluster(cpu_cluster: Cluster) -> Cluster:
    """The examples train on CPUs, on two workers of two cores."""
    return cpu_cluster
