"""Stages for pyspark.ml without Spark: their parameters, and what is refused before anything starts."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch

from launcher.errors import SpecError
from launcher.estimators import TorchEstimator, TorchModel
from launcher.estimators.pickles import dumps, loads
from launcher.estimators.torch_training import TorchRecipe, as_labels
from tests.targets import nets


def recipe(**given: Any) -> TorchRecipe:
    return TorchEstimator(**given)._recipe()


def test_what_is_not_given_has_a_default() -> None:
    made = recipe(model=nets.make_two, loss=torch.nn.functional.mse_loss)

    assert (torch.optim.Adam, 0.001, 1, 0) == (made.optimizer, made.learning_rate, made.epochs, made.seed)
    assert isinstance(made.make_model(), nets.TwoLayers)


def test_a_function_makes_the_same_weights_in_every_process() -> None:
    made = recipe(model=nets.make_two, loss=nets.cross_entropy, seed=3)

    one, other = (next(made.make_model().parameters()) for _ in range(2))
    assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "needs model=…, not None"),
        ({"model": "Net"}, "needs model=…, not 'Net'"),
        ({"model": nets.make_two}, "needs loss=…, not None"),
        ({"model": nets.make_two, "loss": len, "epochs": 0}, "epochs is a number of epochs, not 0"),
    ],
)
def test_what_cannot_be_trained_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(SpecError, match=why):
        recipe(**given)


def test_a_setting_of_a_grid_changes_a_copy() -> None:
    estimator = TorchEstimator(model=nets.make_two, loss=nets.cross_entropy, epochs=2)
    copied = estimator.copy({estimator.epochs: 5, estimator.optimizer: torch.optim.SGD})

    assert (5, torch.optim.SGD) == (copied._recipe().epochs, copied._recipe().optimizer)
    assert 2 == estimator._recipe().epochs


def test_one_number_a_row_is_compared_with_its_own_label() -> None:
    assert (3,) == as_labels(torch.zeros(3, 1), torch.zeros(3)).shape
    assert (3, 1) == as_labels(torch.zeros(3, 1), torch.zeros(3, 1)).shape
    assert (3, 2) == as_labels(torch.zeros(3, 2), torch.zeros(3)).shape


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (torch.nn.Linear(3, 1), "fails on rows of zeros of shape \\[2\\]: .*3x2 and 3x1"),
        (torch.nn.Unflatten(1, (1, 2)), "a number or a vector for each row; for 3 rows .* \\[3, 1, 2\\]"),
        (torch.nn.LSTM(2, 2), "for 3 rows there is tuple"),
    ],
)
def test_a_module_that_does_not_fit_is_told_before_a_job(model: torch.nn.Module, why: str) -> None:
    with pytest.raises(SpecError, match=why):
        TorchModel(model=model)._output_types([2], floating=True)


def test_a_pickle_has_the_callers_own_code(tmp_path: Path) -> None:
    model = nets.TwoLayers(2)
    (tmp_path / "model").write_bytes(dumps(model))
    program = "import pickle; print(len(pickle.load(open('model', 'rb')).state_dict()))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert "4\n" == done.stdout, done.stderr


@pytest.mark.parametrize("function", [len, dict, torch.nn.functional.mse_loss], ids=["len", "dict", "loss"])
def test_what_everybody_has_is_pickled_by_its_name(function: Any) -> None:
    assert loads(dumps(function)) is function


def test_what_cannot_be_pickled_is_named() -> None:
    model = torch.nn.Linear(1, 1)
    model.lock = threading.Lock()  # type: ignore[assignment]

    with pytest.raises(SpecError, match=r"Linear cannot be pickled: .*lock"):
        dumps(model)


def test_a_spoiled_pickle_is_told() -> None:
    data = dumps(nets.TwoLayers(2))

    with pytest.raises(SpecError, match="a pickle cannot be read: "):
        loads(data[: len(data) // 2])


def test_the_callers_random_numbers_go_on() -> None:
    made = recipe(model=nets.make_two, loss=nets.cross_entropy)
    before = torch.get_rng_state()
    made.make_model()

    assert torch.equal(before, torch.get_rng_state())
