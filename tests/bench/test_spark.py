"""A gang on a cluster, beside pyspark's own TorchDistributor, in one warm session. ``pytest -m bench``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed
from tests.bench.ledger import interleave, record

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1200)]


def hello() -> int:
    return 1


def unlucky() -> int:
    raise ValueError("no luck")


hello.__module__ = unlucky.__module__ = "__main__"  # as from a cell of a notebook


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def torch_distributor() -> Any:
    from pyspark.ml.torch.distributor import TorchDistributor

    return TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)


def test_a_function_on_two_ranks_of_a_warm_session(session: Any, home: Path) -> None:
    result = interleave(
        lambda: seconds(lambda: Distributor(2, "cluster", gpu=False).run(hello)),
        lambda: seconds(lambda: torch_distributor().run(hello)),
        rounds=5,
    )
    record(
        "cluster, warm session: `run(fn)` on two ranks, call to value", "TorchDistributor", result, bound=1
    )

    assert result.ratio <= 1


def test_a_function_that_raises(session: Any, home: Path) -> None:
    def ours() -> None:
        with pytest.raises(RankFailed, match="no luck"):
            Distributor(2, "cluster", gpu=False).run(unlucky)

    def theirs() -> None:
        with pytest.raises(Exception):  # noqa: B017, PT011  it says neither which rank nor what it raised
            torch_distributor().run(unlucky)

    result = interleave(lambda: seconds(ours), lambda: seconds(theirs), rounds=3)
    record("cluster, warm session: `run(fn)` that raises, call to error", "TorchDistributor", result, bound=1)

    assert result.ratio <= 1
