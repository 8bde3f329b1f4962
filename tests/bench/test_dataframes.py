"""A DataFrame into two ranks, beside pyspark's own loader and a bare `mapInArrow`. ``pytest -m bench``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from tests.bench.ledger import interleave, record

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(3600)]

ROWS, SIZE = 10_000_000, 1024
MEMORY = 500 << 20
WHAT = "DataFrame of 10 million rows into 2 ranks: an epoch"
BARE = "DataFrame of 10 million rows into 2 ranks: first epoch, while rows arrive"
CALL = "DataFrame of 4 million rows into 2 ranks: call to value"


def frame(session: Any, rows: int) -> Any:
    """Eight floats and a label, in a partition for each of two tasks."""
    columns = [f"cast(id * 0.{i + 1}D as float) as f{i}" for i in range(8)]  # of doubles: decimals are slow
    return session.range(0, rows, 1, 2).selectExpr(*columns, "cast(id % 2 as float) as label")


def take_all(rows: int) -> dict[str, float]:
    """An epoch of a rank of ours."""
    import resource
    import time

    from launcher.data import partition_loader

    begin, seen = time.perf_counter(), 0
    for batch in partition_loader(1024):
        seen += len(batch.label)
    took = time.perf_counter() - begin
    assert seen == rows // 2
    return {"s": took, "bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


def take_all_of_theirs(rows: int) -> dict[str, float]:
    """The same by the loader of pyspark's TorchDistributor, from the moment when its rows are spooled."""
    import time

    from pyspark.ml.torch.distributor import _get_spark_partition_data_loader

    begin, seen = time.perf_counter(), 0
    for batch in _get_spark_partition_data_loader(rows // 2, 1024, num_workers=0):
        seen += len(batch[0])
    took = time.perf_counter() - begin
    assert seen == rows // 2
    return {"s": took}


def bare(batches: Iterator[Any]) -> Iterator[Any]:
    """A task that makes the same tensors and nothing else."""
    import time

    import numpy as np
    import pyarrow as pa
    import torch

    begin = 0.0
    left: list[Any] = []
    for batch in batches:
        begin = begin or time.perf_counter()
        table = pa.Table.from_batches([*left, batch])
        whole = table.num_rows - table.num_rows % 1024
        tensors = [torch.from_numpy(np.array(column.slice(0, whole).to_numpy())) for column in table.columns]
        for start in range(0, whole, 1024):
            _ = [each[start : start + 1024] for each in tensors]
        left = table.slice(whole).to_batches()
    yield pa.record_batch({"s": pa.array([time.perf_counter() - begin])})


for function in (take_all, take_all_of_theirs, bare):
    function.__module__ = "__main__"  # as from a cell of a notebook


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def ours(session: Any, rows: int) -> list[dict[str, float]]:
    job = Distributor(2, "cluster", gpu=False).start_on_dataframe(take_all, frame(session, rows), rows)
    results: list[dict[str, float]] = job.results(timeout=600)
    return results


def theirs(session: Any, rows: int) -> dict[str, float]:
    from pyspark.ml.torch.distributor import TorchDistributor

    made = TorchDistributor(num_processes=2, local_mode=False, use_gpu=False)
    result: dict[str, float] = made._train_on_dataframe(take_all_of_theirs, frame(session, rows), rows)
    return result


def test_rows_a_second_beside_a_bare_job(session: Any, home: Path) -> None:
    def bare_s() -> float:
        rows = frame(session, ROWS).mapInArrow(bare, "s double", barrier=True).collect()
        return statistics.mean([float(row["s"]) for row in rows])

    memory: list[float] = []

    def ours_s() -> float:
        ranks = ours(session, ROWS)
        memory.extend(rank["bytes"] for rank in ranks)
        return statistics.mean(rank["s"] for rank in ranks)

    result = interleave(ours_s, bare_s, rounds=5)
    record(BARE, "bare `mapInArrow`", result, bound=1.33)
    print(f"{ROWS / 2 / result.ours:,.0f} rows/s a rank, {ROWS / 2 / result.theirs:,.0f} bare")
    print(f"at most {max(memory) / (1 << 20):.0f} MiB a rank")

    assert result.ratio <= 1 / 0.75
    assert max(memory) <= MEMORY


def test_rows_a_second_beside_pysparks_loader(session: Any, home: Path) -> None:
    result = interleave(
        lambda: statistics.mean(rank["s"] for rank in ours(session, ROWS)),
        lambda: theirs(session, ROWS)["s"],
        rounds=3,
    )
    record(WHAT, "TorchDistributor's loader", result, bound=0.5)

    assert result.ratio <= 0.5


def test_from_the_call_to_the_last_row(session: Any, home: Path) -> None:
    rows = 4_000_000
    result = interleave(
        lambda: seconds(lambda: ours(session, rows)), lambda: seconds(lambda: theirs(session, rows)), rounds=3
    )
    record(CALL, "`_train_on_dataframe`", result, bound=0.35)

    assert result.ratio <= 0.35
