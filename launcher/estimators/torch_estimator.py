"""A stage of `pyspark.ml` that trains a module of PyTorch on ranks."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from pyspark import keyword_only
from pyspark.ml import Estimator

from ..errors import SpecError
from .parameters import Training
from .torch_model import TorchModel
from .torch_training import TorchRecipe, TorchTrained, fit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class TorchEstimator(Estimator[TorchModel], Training):
    """Trains a module on a DataFrame: each rank takes a share of the rows, by DistributedDataParallel.

    It is a run like any other, in the console and in history. The rows are dealt evenly to the ranks, and all
    of them are used in each epoch. All parameters can be searched with `ParamGridBuilder`.

    Args:
        model: the module, whose weights it begins with, or a function that makes one.
        loss: of the output and the labels, such as ``torch.nn.functional.mse_loss``. An output of one
            number a row comes as a vector, as labels do.
        optimizer: the class of an optimizer, or a function of (parameters, lr=…); Adam by default.
        prediction: what becomes of a batch of outputs in predictionCol; by default the output itself.
        epochs: how often all rows are used.
        batchSize: the rows of a rank's batch.
        learningRate: what the optimizer is given as `lr`.
        seed: of the weights that a function makes, and of the order of rows.
        numTrainWorkers: the ranks.
        launchOptions: options of the run, as `Distributor` takes them: ``{"gpu": False, "max_restarts": 2}``.
        featuresCol: the column that the module is given: numbers, arrays or vectors.
        labelCol: the column of labels.
        predictionCol: the model's new column.
        rawPredictionCol: the model's column for outputs as vectors; empty for none.

    Raises:
        SpecError: at `fit`, a parameter is missing, or does not fit the DataFrame.
        RankFailed: at `fit`, training failed.
    """

    __module__ = "launcher.estimators"  # the name that saved stages have

    @keyword_only
    def __init__(
        self,
        *,
        model: torch.nn.Module | Callable[[], torch.nn.Module] | None = None,
        loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor] | None = None,
        optimizer: Callable[..., torch.optim.Optimizer] | None = None,
        prediction: Callable[[torch.Tensor], torch.Tensor] | None = None,
        epochs: int = 1,
        batchSize: int = 1024,
        learningRate: float = 0.001,
        seed: int = 0,
        numTrainWorkers: int = 1,
        launchOptions: Mapping[str, Any] | None = None,
        featuresCol: str = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "",
    ) -> None:
        super().__init__()
        self._setDefault(
            epochs=1, batchSize=1024, learningRate=0.001, seed=0, numTrainWorkers=1, rawPredictionCol=""
        )
        self._set(**self._input_kwargs)  # type: ignore[attr-defined]  # keyword_only makes it

    def _fit(self, dataset: DataFrame) -> TorchModel:
        recipe = self._recipe()
        trained: TorchTrained = self._train(fit, dataset, recipe)
        model = copy.deepcopy(recipe.make_model())
        model.load_state_dict(trained.state)
        return self._copyValues(TorchModel())._set(model=model, inputShape=trained.shape)

    def _recipe(self) -> TorchRecipe:
        values = {name: self.value_of(name) for name in ("model", "loss", "optimizer")}
        for name in ("model", "loss"):
            if not callable(values[name]):
                raise SpecError(f"{self.uid} needs {name}=…, not {values[name]!r:.80}")
        return TorchRecipe(
            model=values["model"],
            loss=values["loss"],
            optimizer=values["optimizer"] or torch.optim.Adam,
            learning_rate=self.getLearningRate(),
            epochs=self.getEpochs(),
            seed=self.getSeed(),
        )
