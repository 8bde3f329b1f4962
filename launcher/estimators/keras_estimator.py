"""A stage of `pyspark.ml` that trains a model of Keras on ranks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark import keyword_only
from pyspark.ml import Estimator

from ..errors import SpecError
from .keras_model import KerasModel
from .keras_models import is_optimizer, library_of, make_model
from .keras_training import KerasRecipe, KerasTrained, fit
from .parameters import Training
from .pickles import dumps, loads

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class KerasEstimator(Estimator[KerasModel], Training):
    """Trains a model on a DataFrame: each rank takes a share of the rows, by MultiWorkerMirroredStrategy.

    It is a run like any other, in the console and in history. The rows are dealt evenly to the ranks, and all
    of them are used in each epoch. All parameters can be searched with `ParamGridBuilder`. Models of Keras 3
    on TensorFlow and of tf_keras can be trained.

    Args:
        model: the model, whose weights it begins with, or a function that makes one. Keras must be able to
            save it. If it is compiled, its loss and optimizer are used where no others are given.
        loss: a name, such as ``"mse"``, a Loss, or a function of labels and outputs. An output of one number
            a row comes as a vector, as labels do.
        optimizer: a name, a class, an optimizer, or a function of (learning_rate=…); if none, "adam".
        prediction: what becomes of a batch of outputs in predictionCol, an array of numpy; by default the
            output itself.
        epochs: how often all rows are used.
        batchSize: the rows of a rank's batch.
        learningRate: what the optimizer is given as `learning_rate`; by default its own.
        seed: of the weights that a function makes, and of the order of rows.
        numTrainWorkers: the ranks.
        launchOptions: options of the run, as `Distributor` takes them: ``{"gpu": False, "max_restarts": 2}``.
        featuresCol: the column that the model is given: numbers, arrays or vectors.
        labelCol: the column of labels.
        predictionCol: the model's new column.
        rawPredictionCol: the model's column for outputs as vectors; empty for none.

    Raises:
        SpecError: at `fit`, a parameter is missing, or does not fit the DataFrame.
        RankFailed: at `fit`, training failed.
    """

    __module__ = "launcher.estimators"  # the name that saved stages have
    framework = "tensorflow"

    @keyword_only
    def __init__(
        self,
        *,
        model: Any = None,
        loss: str | Callable[..., Any] | None = None,
        optimizer: str | Callable[..., Any] | None = None,
        prediction: Callable[..., Any] | None = None,
        epochs: int = 1,
        batchSize: int = 1024,
        learningRate: float | None = None,
        seed: int = 0,
        numTrainWorkers: int = 1,
        launchOptions: Mapping[str, Any] | None = None,
        featuresCol: str = "features",
        labelCol: str = "label",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "",
    ) -> None:
        super().__init__()
        self._setDefault(epochs=1, batchSize=1024, seed=0, numTrainWorkers=1, rawPredictionCol="")
        self._set(**self._input_kwargs)  # type: ignore[attr-defined]  # keyword_only makes it

    def _fit(self, dataset: DataFrame) -> KerasModel:
        recipe = self._recipe()
        trained: KerasTrained = self._train(fit, dataset, recipe)
        model, *_ = loads(recipe.pickled)
        model = make_model(model)
        model(trained.example)
        model.set_weights(trained.weights)
        return self._copyValues(KerasModel())._set(model=model, inputShape=list(trained.example.shape[1:]))

    def _recipe(self) -> KerasRecipe:
        model, loss, optimizer = (self.value_of(name) for name in ("model", "loss", "optimizer"))
        if not callable(model):
            raise SpecError(f"{self.uid} needs model=…, not {model!r:.80}")
        if loss is None and library_of(model) and not getattr(model, "loss", None):
            raise SpecError(f"{self.uid} needs loss=…, or a compiled model")
        if not (callable(optimizer) or isinstance(optimizer, str | None) or is_optimizer(optimizer)):
            raise SpecError(f"optimizer is a name, an optimizer or what makes one, not {optimizer!r:.80}")
        pickled = dumps((model, loss, optimizer))
        return KerasRecipe(pickled, self.value_of("learningRate"), self.getEpochs(), self.getSeed())
