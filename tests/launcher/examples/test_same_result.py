"""Whatever framework divides a training among ranks, its result is that of one process."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from launcher.distributor import Distributor
from tests.trainings import EXAMPLES, Example, check, digits_alone, results, spirals_alone

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.timeout(300, func_only=True),
    pytest.mark.usefixtures("mark"),
]

EPOCHS = 2


def test_the_reference_learns() -> None:
    assert digits_alone(EPOCHS)["test_accuracy"] > 0.9
    assert digits_alone(1)["test_loss"] > digits_alone(EPOCHS)["test_loss"] + 0.1


def test_the_reference_of_tensorflow_learns() -> None:
    assert spirals_alone(30)["test_accuracy"] > 0.9
    assert spirals_alone(1)["test_loss"] > spirals_alone(30)["test_loss"] + 0.1


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_two_ranks_train_as_one_process_does(example: Example, launch: dict[str, Any]) -> None:
    target = f"launcher.examples.{example.module}:train"
    job = Distributor(2, **launch).start(target, epochs=EPOCHS, **example.options)

    check(example, results(job), EPOCHS)
    assert example.steps(EPOCHS, 2) == [rank.step for rank in job.state.ranks]
    assert job.state.framework is not None
    assert example.framework == job.state.framework.framework
    assert job.state.separate is None


def test_tensor_and_data_parallelism_together() -> None:
    """Two dimensions: each of four ranks holds a quarter of the model."""
    example = Example("tensor_parallel", options={"tensor": 2}, held_share=(0.25,) * 4)
    job = Distributor(4).start("launcher.examples.digits_tensor_parallel:train", epochs=EPOCHS, tensor=2)

    check(example, results(job), EPOCHS, ranks=4)


def test_more_ranks_than_layers_are_refused() -> None:
    pipeline = pytest.importorskip("launcher.examples.digits_pipeline")
    model = pipeline.digits.make_model()
    stages = [list(pipeline.stage_of(model, rank, 2).state_dict()) for rank in (0, 1)]

    assert [["0.weight", "0.bias"], ["2.weight", "2.bias"]] == stages
    with pytest.raises(ValueError, match="a model of 3 layers cannot be divided among 4 ranks"):
        pipeline.stage_of(model, 0, 4)


def test_a_group_that_does_not_fit_is_refused() -> None:
    script = Example("tensor_parallel").script
    done = subprocess.run(
        [sys.executable, script, "--tensor", "3"], capture_output=True, text=True, check=False
    )

    assert 1 == done.returncode
    assert "ValueError: the number of ranks, 1, is not a multiple of 3" in done.stderr
