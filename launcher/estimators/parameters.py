"""The parameters that estimators and models of all frameworks have, and the run that trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasBatchSize,
    HasFeaturesCol,
    HasLabelCol,
    HasLearningRate,
    HasNumTrainWorkers,
    HasPredictionCol,
    HasRawPredictionCol,
    HasSeed,
)

from ..data.steps import Uneven
from ..distributor import Distributor
from ..errors import SpecError
from .saved import Saved

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Predicting(HasFeaturesCol, HasPredictionCol, HasRawPredictionCol, HasBatchSize):
    """The parameters that estimator and model share."""

    prediction: Param[Any] = Param(
        Params._dummy(), "prediction", "what becomes of a batch of outputs in predictionCol; None for itself"
    )

    def setBatchSize(self, value: int) -> Any:
        """Set how many rows the model is given at once."""
        return self._set(batchSize=value)

    def setFeaturesCol(self, value: str) -> Any:
        """Set the column that the model is given: numbers, arrays or vectors."""
        return self._set(featuresCol=value)

    def setPredictionCol(self, value: str) -> Any:
        """Set the column of predictions."""
        return self._set(predictionCol=value)

    def setRawPredictionCol(self, value: str) -> Any:
        """Set the column of the model's output as vectors, for evaluators; empty for none."""
        return self._set(rawPredictionCol=value)


class Training(Predicting, HasLabelCol, HasLearningRate, HasNumTrainWorkers, HasSeed, Saved):
    """The parameters of estimators, which train by a run."""

    objects = ("model", "loss", "optimizer", "prediction")
    framework: str | None = None
    """The framework that ranks meet by; None where the function that trains tells."""

    model: Param[Any] = Param(Params._dummy(), "model", "the model, or a function that makes one")
    loss: Param[Any] = Param(Params._dummy(), "loss", "the loss of outputs and labels")
    optimizer: Param[Any] = Param(Params._dummy(), "optimizer", "what makes the optimizer")
    epochs: Param[int] = Param(Params._dummy(), "epochs", "how often all rows are used", TypeConverters.toInt)
    launchOptions: Param[Any] = Param(
        Params._dummy(), "launchOptions", "options of the run, as Distributor takes them"
    )

    def getEpochs(self) -> int:
        """How often all rows are used.

        Raises:
            SpecError: not even once.
        """
        epochs: int = self.getOrDefault(self.epochs)
        if epochs < 1:
            raise SpecError(f"epochs is a number of epochs, not {epochs}")
        return epochs

    def _train(self, fit: Callable[..., Any], dataset: DataFrame, recipe: object) -> Any:
        """Run a function on ranks that share the rows of a DataFrame; what rank 0 returns."""
        return self._distributor(dataset).run_on_dataframe(
            fit,
            dataset,
            recipe,
            columns={"features": self.getFeaturesCol(), "label": self.getLabelCol()},
            batch_size=self.getBatchSize(),
            uneven=Uneven.REPEAT,
            repartition=True,
        )

    def _distributor(self, dataset: DataFrame) -> Distributor:
        from ..backends.spark.session import is_connect

        options: dict[str, Any] = {"mode": "connect" if is_connect(dataset.sparkSession) else "cluster"}
        if self.framework:
            options["framework"] = self.framework
        return Distributor(self.getNumTrainWorkers(), **(options | (self.value_of("launchOptions") or {})))
