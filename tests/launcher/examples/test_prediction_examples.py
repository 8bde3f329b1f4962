"""The examples of predictions: what they predict is what their model does, in its real framework."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from launcher.examples import predict_torch
from tests import framework_envs
from tests.documents import ROOT

_CHECK = """
import sys
import keras
import numpy as np

sys.path.insert(0, sys.argv[1])
import predict_keras
import predict_tensorflow

folder = sys.argv[2]
keras.utils.set_random_seed(0)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(3)])
model.save(folder + "/net.keras")
model.export(folder + "/net", verbose=False)
vectors = np.random.default_rng(0).random((10, 4), dtype="float32")
wanted = model.predict(vectors, verbose=0)
for load in (
    lambda: predict_keras.load("cpu", folder + "/net.keras"),
    lambda: predict_tensorflow.load("cpu", folder + "/net"),
):
    made = load()(vectors)
    assert made.shape == (10, 3), made.shape
    assert np.allclose(wanted, made, atol=1e-5), (wanted, made)
print("equal")
"""


def test_pytorch_predicts_with_the_weights_that_were_saved(tmp_path: Path) -> None:
    model = predict_torch.make_model()
    with torch.no_grad():
        model[0].weight += 1
    torch.save(model.state_dict(), tmp_path / "net.pt")
    vectors = np.random.default_rng(0).random((10, 64))

    made = predict_torch.load("cpu", str(tmp_path / "net.pt"))(vectors)

    assert np.array_equal(model(torch.from_numpy(vectors).float()).detach().numpy(), made)
    assert not np.array_equal(predict_torch.load("cpu")(vectors), made)


@pytest.mark.frameworks
def test_keras_and_tensorflow_predict_as_the_model_that_was_saved(tmp_path: Path) -> None:
    env = framework_envs.made("tensorflow")
    done = subprocess.run(
        [env.python, "-c", _CHECK, ROOT / "launcher" / "examples", tmp_path],
        env={**os.environ, **env.variables, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert "equal\n" == done.stdout[-6:], done.stderr
