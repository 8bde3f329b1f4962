"""What predicts in a Python worker of Spark, called as Spark calls it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyspark
import pytest

from launcher.backends.spark.prediction.worker import make_predictor


class Task:
    """A task's context, as pyspark has it."""

    def __init__(self, partition: int = 0, attempt: int = 0, gpus: list[str] | None = None) -> None:
        self.partitionId = lambda: partition
        self.taskAttemptId = lambda: attempt
        self.resources = lambda: {} if gpus is None else {"gpu": SimpleNamespace(addresses=gpus)}


@pytest.fixture
def enter(monkeypatch: pytest.MonkeyPatch) -> Callable[[Task | None], None]:
    """Make this process a worker of that task."""
    return lambda task: monkeypatch.setattr(pyspark.TaskContext, "get", lambda: task)


@pytest.mark.parametrize(
    ("task", "shown", "device"),
    [
        (None, "", "cpu"),
        (Task(), "", "cpu"),
        (Task(gpus=["3"]), "", "cuda:3"),
        (Task(gpus=["3"]), "2,3", "cuda:1"),
        (Task(gpus=["0"]), "2,3", "cuda:0"),
    ],
)
def test_the_model_is_loaded_once_onto_its_tasks_device(
    task: Task | None,
    shown: str,
    device: str,
    enter: Callable[[Task | None], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", shown)
    enter(task)
    loaded: list[str] = []

    def load(where: str) -> Callable[..., Any]:
        loaded.append(where)
        return lambda one, two: [a + b for a, b in zip(one, two, strict=True)]

    predict = make_predictor(load)()

    assert [4] == predict([1], [3])
    make_predictor(load, gpu=False)()
    assert [device, "cpu"] == loaded
    assert ["one", "two"] == list(inspect.signature(predict).parameters)


def test_a_failure_says_which_rows_of_which_partition(enter: Callable[[Task | None], None]) -> None:
    def load(_device: str) -> Callable[..., Any]:
        return lambda rows: [1 / row for row in rows]

    predict = make_predictor(load)()
    for partition, attempt in ((0, 7), (4, 9)):  # a worker does one task after the other
        enter(Task(partition, attempt))
        predict([1, 2, 3])
        with pytest.raises(RuntimeError, match=f"rows 3 to 4 of partition {partition}: ZeroDiv") as caught:
            predict([1, 0])
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
