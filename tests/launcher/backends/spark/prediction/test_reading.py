"""What a worker puts into its exception's text is found in that of Spark's."""

from __future__ import annotations

import pickle

import pyspark
import pytest

from launcher.backends.spark.prediction.reading import WorkerFailed, failure_in
from launcher.backends.spark.prediction.worker import make_predictor
from tests.launcher.backends.spark.prediction.test_worker import Task


def failing(message: str) -> str:
    """The text of a failure as a worker writes it, in what Spark makes of it."""

    def load(_: str) -> object:
        def predict(_: object) -> object:
            raise ValueError(message)

        return predict

    with pytest.raises(RuntimeError) as caught:
        make_predictor(load)()([1, 2, 3])  # type: ignore[arg-type]
    head = "org.apache.spark.api.python.PythonException: Traceback (most recent call last):\n  File x\n"
    return f"{head}RuntimeError: {caught.value}\n\n\tat org.apache.spark.api.python.BasePythonRunner\n"


@pytest.mark.parametrize(
    "message", ["bad", "", "two\nlines", "rows 1 to 2 of partition 3: X: y", "  | quoted"]
)
def test_the_failure_of_a_worker_is_read_as_it_was_written(
    message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: Task(4, 9))

    found = failure_in(failing(message))

    assert found is not None
    assert ("rows 0 to 2 of partition 4", "ValueError", 9) == (found.rows, found.kind, found.task)
    assert message == found.message
    assert found.traceback.startswith("Traceback (most recent call last):\n")
    assert "in predict\n" in found.traceback
    assert "worker.py" not in found.traceback
    assert "at org.apache" not in found.traceback


@pytest.mark.parametrize(
    "text", ["", "Traceback: rows 1 to 2", "rows 1 to 2 of partition 3: ValueError: x\n"]
)
def test_other_texts_hold_no_failure(text: str) -> None:
    assert failure_in(text) is None


def test_the_error_says_where_and_can_be_pickled() -> None:
    found = failure_in(failing("bad"))
    assert found is not None

    error = pickle.loads(pickle.dumps(WorkerFailed(found)))

    assert f"ValueError in rows 0 to 2 of partition 0, in worker {found.pid} on {found.host}: bad" == str(
        error
    )
    assert found == error.failure
