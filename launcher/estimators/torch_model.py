"""A trained module of PyTorch as a transformer of `pyspark.ml`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from ..errors import SpecError
from .pickles import dumps
from .predictor import Predictor
from .torch_training import floating_type


class TorchModel(Predictor[torch.nn.Module]):
    """Adds a module's predictions to a DataFrame.

    `TorchEstimator` makes it, and a module that was trained elsewhere can be given. Predictions are computed
    by Spark's tasks, on the GPU of a task that has one. One number a row becomes a double, several become an
    array of floats.

    Args:
        model: the module.
        prediction: what becomes of a batch of outputs; by default the output itself.
        inputShape: the shape of a row's features, such as ``[8]``; ``[]`` for a column of numbers. Arrays of
            Spark are flat, and this is what they become.
        featuresCol: the column that the module is given: numbers, arrays or vectors.
        predictionCol: the new column.
        rawPredictionCol: a column for the module's output as vectors; empty for none.
        batchSize: the rows that the module is given at once.

    Raises:
        SpecError: at `transform`, a parameter is missing, or does not fit the DataFrame.
    """

    __module__ = "launcher.estimators"  # the name that saved stages have

    def getModel(self) -> torch.nn.Module:
        """The module, on the CPU.

        Raises:
            SpecError: there is none.
        """
        model = self.value_of("model")
        if not isinstance(model, torch.nn.Module):
            raise SpecError(f"{self.uid} needs a torch.nn.Module: model=…, not {model!r:.80}")
        return model

    def _outputs(self, shape: tuple[int, ...], *, floating: bool) -> Any:
        model = self.getModel().eval()
        with torch.no_grad():
            return model(torch.zeros(shape, dtype=floating_type(model) if floating else torch.int64))

    def _worker(self, *, with_raw: bool) -> Callable[[str], Callable[..., Any]]:
        model = self.getModel()
        return _loader(dumps((model, self.value_of("prediction"), floating_type(model))), with_raw=with_raw)


def _loader(pickled: bytes, *, with_raw: bool) -> Callable[[str], Callable[..., Any]]:
    """What loads the module in Spark's workers; sent by value, so complete in itself."""

    def load(device: str) -> Callable[..., Any]:
        import pickle

        import numpy as np
        import torch

        model, prediction, floating = pickle.loads(pickled)
        device = device if torch.cuda.is_available() else "cpu"
        model = model.to(device).eval()

        def numbers(values: torch.Tensor) -> Any:
            made = (values.squeeze(1) if values.shape[1:] == (1,) else values).cpu()
            return made.double().numpy() if made.dim() == 1 else made.float().numpy()

        def predict(features: Any) -> Any:
            given = torch.from_numpy(np.ascontiguousarray(features)).to(device)
            with torch.inference_mode():
                output = model(given.to(floating) if given.is_floating_point() else given)
                predicted = numbers(output if prediction is None else prediction(output))
            return {"prediction": predicted, "raw": numbers(output)} if with_raw else predicted

        return predict

    return load
