"""What predicts in Spark's Python workers: a model loaded once per worker, on its task's device.

These functions are sent by value to workers without this package, so each is complete in itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def make_predictor(load: Callable[[str], Callable[..., Any]]) -> Callable[[], Callable[..., Any]]:
    """What pyspark's `predict_batch_udf` calls once per worker.

    A batch that fails says which rows of which partition it has; the exception itself is its cause.

    Args:
        load: loads the model onto a device, such as ``"cuda:1"`` or ``"cpu"``, and returns the function that
            predicts: a batch of numpy arrays, one for each column, into an array or a dictionary of arrays.
    """

    def device() -> str:
        from pyspark import TaskContext

        task = TaskContext.get()
        gpus = task.resources().get("gpu") if task is not None else None
        if gpus is None:
            return "cpu"
        import os

        # an executor that is shown some GPUs only numbers them from 0
        shown = [each for each in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if each]
        address = gpus.addresses[0]
        return f"cuda:{shown.index(address) if address in shown else address}"

    def make() -> Callable[..., Any]:
        import functools

        from pyspark import TaskContext

        predict = load(device())
        place = {"task": -1, "rows": 0}

        @functools.wraps(predict)  # Spark counts its parameters
        def counted(*columns: Any) -> Any:
            task = TaskContext.get()
            partition, attempt = (task.partitionId(), task.taskAttemptId()) if task else (0, 0)
            if place["task"] != attempt:
                place.update(task=attempt, rows=0)
            first, count = place["rows"], len(columns[0])
            place["rows"] += count
            try:
                return predict(*columns)
            except Exception as error:
                rows = f"rows {first} to {first + count - 1} of partition {partition}"
                raise RuntimeError(f"{rows}: {type(error).__name__}: {error}") from error

        return counted

    return make
