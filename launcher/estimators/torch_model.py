"""A trained module of PyTorch as a transformer of `pyspark.ml`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from pyspark import keyword_only
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector, predict_batch_udf, vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import HasBatchSize, HasFeaturesCol, HasPredictionCol, HasRawPredictionCol
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    FractionalType,
    NumericType,
    StructType,
)

from ..backends.spark.prediction.worker import make_predictor
from ..data.sharing import quoted
from ..errors import SpecError
from .pickles import dumps
from .saved import Saved
from .training import floating_type

_PREDICTION, _RAW = "prediction", "raw"
_PROBE_ROWS = 3


class Predicting(HasFeaturesCol, HasPredictionCol, HasRawPredictionCol, HasBatchSize):
    """The parameters that estimator and model share."""

    prediction: Param[Any] = Param(
        Params._dummy(), "prediction", "what becomes of a batch of outputs in predictionCol; None for itself"
    )

    def setBatchSize(self, value: int) -> Any:
        """Set how many rows the module is given at once."""
        return self._set(batchSize=value)

    def setFeaturesCol(self, value: str) -> Any:
        """Set the column that the module is given: numbers, arrays or vectors."""
        return self._set(featuresCol=value)

    def setPredictionCol(self, value: str) -> Any:
        """Set the column of predictions."""
        return self._set(predictionCol=value)

    def setRawPredictionCol(self, value: str) -> Any:
        """Set the column of the module's output as vectors, for evaluators; empty for none."""
        return self._set(rawPredictionCol=value)


class TorchModel(Model, Predicting, Saved):
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
    objects = ("model", "prediction")

    model: Param[Any] = Param(Params._dummy(), "model", "the trained torch.nn.Module")
    inputShape: Param[list[int]] = Param(
        Params._dummy(), "inputShape", "the shape of a row's features", TypeConverters.toListInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: torch.nn.Module | None = None,
        prediction: Callable[[torch.Tensor], torch.Tensor] | None = None,
        inputShape: list[int] | None = None,
        featuresCol: str = "features",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "",
        batchSize: int = 1024,
    ) -> None:
        super().__init__()
        self._setDefault(batchSize=1024, rawPredictionCol="")
        self._set(**self._input_kwargs)  # type: ignore[attr-defined]  # keyword_only makes it

    def getModel(self) -> torch.nn.Module:
        """The module, on the CPU.

        Raises:
            SpecError: there is none.
        """
        model = self.value_of("model")
        if not isinstance(model, torch.nn.Module):
            raise SpecError(f"{self.uid} needs a torch.nn.Module: model=…, not {model!r:.80}")
        return model

    def setModel(self, value: torch.nn.Module) -> TorchModel:
        """Set the module."""
        return self._set(model=value)

    def _transform(self, dataset: DataFrame) -> DataFrame:
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        for name in filter(None, (raw, prediction)):
            if name in dataset.columns:
                raise SpecError(f"the DataFrame already has a column {name!r}", hint="predictionCol=…")
        shape, column, probe = self._input(dataset)
        kind, raw_kind = self._output_types(probe)
        predict = predict_batch_udf(
            make_predictor(_loader(self._pickled(), with_raw=bool(raw))),
            return_type=StructType().add(_PREDICTION, kind).add(_RAW, raw_kind) if raw else kind,
            batch_size=self.getBatchSize(),
            input_tensor_shapes=[shape] if shape else None,
        )
        if not raw:
            return dataset.withColumn(prediction, predict(column))
        both = f"{self.uid}_output"
        scores = sf.col(both)[_RAW]
        vector = array_to_vector(scores if isinstance(raw_kind, ArrayType) else sf.array(scores))
        made = dataset.withColumn(both, predict(column))
        return made.withColumns({prediction: sf.col(both)[_PREDICTION], raw: vector}).drop(both)

    def _pickled(self) -> bytes:
        model = self.getModel()
        return dumps((model, self.value_of("prediction"), floating_type(model)))

    def _input(self, dataset: DataFrame) -> tuple[list[int], Any, torch.Tensor]:
        """The shape of a row's features, their column as Spark's numbers or flat arrays, and rows of zeros.

        Raises:
            SpecError: there is no such column, or it has no shape.
        """
        name = self.getFeaturesCol()
        if name not in dataset.columns:
            raise SpecError(f"the DataFrame has no column {name!r}; it has {', '.join(dataset.columns)}")
        column, kind = sf.col(quoted(name)), dataset.schema[name].dataType
        if isinstance(kind, VectorUDT):
            column, kind = vector_to_array(column), ArrayType(DoubleType())
        while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
            column, kind = sf.flatten(column), kind.elementType
        element = kind.elementType if isinstance(kind, ArrayType) else kind
        if not isinstance(element, NumericType):
            raise SpecError(f"column {name!r} has {kind.simpleString()}, not numbers, arrays or vectors")
        shape: list[int] | None = self.value_of("inputShape")
        if isinstance(kind, ArrayType) and not shape:
            raise SpecError(
                f"column {name!r} has arrays, and their shape is not known",
                hint="inputShape=[8], for instance",
            )
        dtype = floating_type(self.getModel()) if isinstance(element, FractionalType) else torch.int64
        shape = shape if isinstance(kind, ArrayType) and shape else []
        return shape, _without_decimals(column, kind), torch.zeros((_PROBE_ROWS, *shape), dtype=dtype)

    def _output_types(self, probe: torch.Tensor) -> tuple[DataType, DataType]:
        """Spark's types of predictions and of outputs, by what the module makes of rows of zeros."""
        model, prediction = self.getModel().eval(), self.value_of("prediction")
        try:
            with torch.no_grad():
                output = model(probe)
                predicted = output if prediction is None else prediction(output)
        except Exception as error:  # a user's module may raise anything
            raise SpecError(
                f"the module fails on rows of zeros of shape {list(probe.shape[1:])}: {error}"
            ) from error
        return _type_of(predicted, "predictions"), _type_of(output, "outputs")


def _without_decimals(column: Any, kind: DataType) -> Any:
    """A column as numpy has it: decimals would be objects of Python."""
    simple = kind.simpleString()
    if "decimal" not in simple:
        return column
    return column.cast("array<double>" if isinstance(kind, ArrayType) else "double")


def _type_of(values: Any, what: str) -> DataType:
    shape = tuple(values.shape) if isinstance(values, torch.Tensor) else None
    if shape in {(_PROBE_ROWS,), (_PROBE_ROWS, 1)}:
        return DoubleType()  # what evaluators of Spark want
    if shape is not None and len(shape) == 2 and shape[0] == _PROBE_ROWS:
        return ArrayType(FloatType())
    found = f"a tensor of shape {list(shape)}" if shape is not None else type(values).__name__
    raise SpecError(
        f"{what} must be a number or a vector for each row; for {_PROBE_ROWS} rows there is {found}",
        hint="prediction=lambda output: …",
    )


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
