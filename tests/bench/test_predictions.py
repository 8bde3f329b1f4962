"""A million rows through a small network, beside a bare `predict_batch_udf`. ``pytest -m bench``."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from launcher.inference import predict
from tests.bench.ledger import interleave, record

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(3600)]

ROWS, PAIRS = 1_000_000, 15
WHAT = "a million rows of 8 floats through a small network, read and written as Parquet"


def load(_: str) -> Callable[..., Any]:
    import torch

    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 1)
    model = torch.nn.Sequential(*layers).eval()

    def score(x: Any) -> Any:
        with torch.inference_mode():
            return model(torch.from_numpy(x)).squeeze(1).numpy()

    return score


load.__module__ = "__main__"  # as from a cell of a notebook


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


def test_rows_a_second_beside_a_bare_udf(session: Any, home: Path, tmp_path: Path) -> None:
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.types import FloatType

    source, bare, ours = (str(tmp_path / name) for name in ("in", "bare", "ours"))
    parts = ", ".join(f"cast(id * 0.{i + 1}D % 1 as float)" for i in range(8))
    session.range(0, ROWS, 1, 4).selectExpr("id", f"array({parts}) as x").write.parquet(source)
    frame = session.read.parquet(source)

    def bare_job() -> None:
        shapes: Any = [[8]]
        udf = predict_batch_udf(
            lambda: load("cpu"), return_type=FloatType(), batch_size=1024, input_tensor_shapes=shapes
        )
        frame.withColumn("prediction", udf("x")).write.mode("overwrite").parquet(bare)

    def our_run() -> None:
        how: dict[str, Any] = {"columns": ["x"], "shapes": {"x": [8]}, "returns": "float", "show": "none"}
        assert ROWS == predict(frame, load, output=ours, if_exists="overwrite", **how)

    result = interleave(lambda: seconds(our_run), lambda: seconds(bare_job), rounds=PAIRS)
    record(WHAT, "bare `predict_batch_udf`", result, bound=1.11)
    print(f"{ROWS / result.ours:,.0f} rows/s, {ROWS / result.theirs:,.0f} bare")

    (model,) = [load("cpu")]
    local = {row.id: row.x for row in frame.limit(10_000).collect()}
    written = session.read.parquet(ours)
    assert ROWS == written.count() == written.select("id").distinct().count()
    made = model(np.array([*local.values()], dtype=np.float32))
    here = dict(zip(local, made, strict=True))
    found = {row.id: row.prediction for row in written.join(frame.limit(10_000).select("id"), "id").collect()}
    assert here == {key: np.float32(value) for key, value in found.items()}
    other = session.read.parquet(bare).withColumnRenamed("prediction", "bare").drop("x")
    assert ROWS == written.join(other, "id").where("prediction = bare").count()
    assert result.ratio <= 1 / 0.9
