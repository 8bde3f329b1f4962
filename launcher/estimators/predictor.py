"""What the transformers of all frameworks do: a model's predictions as a new column of a DataFrame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from pyspark import keyword_only
from pyspark.ml import Model
from pyspark.ml.functions import array_to_vector, predict_batch_udf, vector_to_array
from pyspark.ml.linalg import VectorUDT
from pyspark.ml.param import Param, Params, TypeConverters
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
from .parameters import Predicting
from .saved import Saved

ModelT = TypeVar("ModelT")
PROBE_ROWS = 3
PREDICTION, RAW = "prediction", "raw"
"""What a worker's function returns where outputs are wanted beside predictions."""


class Predictor(Model, Predicting, Saved, Generic[ModelT]):
    """Adds a model's predictions to a DataFrame.

    Args:
        model: the model.
        prediction: what becomes of a batch of outputs; by default the output itself.
        inputShape: the shape of a row's features, such as ``[8]``; ``[]`` for a column of numbers. Arrays of
            Spark are flat, and this is what they become.
        featuresCol: the column that the model is given: numbers, arrays or vectors.
        predictionCol: the new column.
        rawPredictionCol: a column for the model's output as vectors; empty for none.
        batchSize: the rows that the model is given at once.

    Raises:
        SpecError: at `transform`, a parameter is missing, or does not fit the DataFrame.
    """

    objects = ("model", "prediction")

    model: Param[Any] = Param(Params._dummy(), "model", "the trained model")
    inputShape: Param[list[int]] = Param(
        Params._dummy(), "inputShape", "the shape of a row's features", TypeConverters.toListInt
    )

    @keyword_only
    def __init__(
        self,
        *,
        model: ModelT | None = None,
        prediction: Callable[[Any], Any] | None = None,
        inputShape: list[int] | None = None,
        featuresCol: str = "features",
        predictionCol: str = "prediction",
        rawPredictionCol: str = "",
        batchSize: int = 1024,
    ) -> None:
        super().__init__()
        self._setDefault(batchSize=1024, rawPredictionCol="")
        self._set(**self._input_kwargs)  # type: ignore[attr-defined]  # keyword_only makes it

    def setModel(self, value: ModelT) -> Any:
        """Set the model."""
        return self._set(model=value)

    def _outputs(self, shape: tuple[int, ...], *, floating: bool) -> Any:
        """What the model makes of zeros: something with a shape, if it fits.

        Args:
            shape: of the zeros, whose rows are `PROBE_ROWS`.
            floating: whether they are floating-point numbers, else whole ones.
        """
        raise NotImplementedError

    def _worker(self, *, with_raw: bool) -> Callable[[str], Callable[..., Any]]:
        """What loads the model onto a device of a worker of Spark; sent by value, so complete in itself.

        Args:
            with_raw: whether outputs are wanted too.
        """
        raise NotImplementedError

    def _transform(self, dataset: DataFrame) -> DataFrame:
        raw, prediction = self.getRawPredictionCol(), self.getPredictionCol()
        for name in filter(None, (raw, prediction)):
            if name in dataset.columns:
                raise SpecError(f"the DataFrame already has a column {name!r}", hint="predictionCol=…")
        shape, column, floating = self._input(dataset)
        kind, raw_kind = self._output_types(shape, floating=floating)
        predict = predict_batch_udf(
            make_predictor(self._worker(with_raw=bool(raw))),
            return_type=StructType().add(PREDICTION, kind).add(RAW, raw_kind) if raw else kind,
            batch_size=self.getBatchSize(),
            input_tensor_shapes=[shape] if shape else None,
        )
        if not raw:
            return dataset.withColumn(prediction, predict(column))
        both = f"{self.uid}_output"
        scores = sf.col(both)[RAW]
        vector = array_to_vector(scores if isinstance(raw_kind, ArrayType) else sf.array(scores))
        made = dataset.withColumn(both, predict(column))
        return made.withColumns({prediction: sf.col(both)[PREDICTION], raw: vector}).drop(both)

    def _input(self, dataset: DataFrame) -> tuple[list[int], Any, bool]:
        """The shape of a row of features, their column as numbers or flat arrays, and whether of floats.

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
        shape = shape if isinstance(kind, ArrayType) and shape else []
        return shape, _without_decimals(column, kind), isinstance(element, FractionalType)

    def _output_types(self, shape: list[int], *, floating: bool) -> tuple[DataType, DataType]:
        """Spark's types of predictions and of outputs, by what the model makes of rows of zeros."""
        prediction = self.value_of("prediction")
        try:
            output = self._outputs((PROBE_ROWS, *shape), floating=floating)
            predicted = output if prediction is None else prediction(output)
        except SpecError:
            raise
        except Exception as error:  # a user's model may raise anything
            raise SpecError(f"the model fails on rows of zeros of shape {shape}: {error}") from error
        return _type_of(predicted, "predictions"), _type_of(output, "outputs")


def _without_decimals(column: Any, kind: DataType) -> Any:
    """A column as numpy has it: decimals would be objects of Python."""
    simple = kind.simpleString()
    if "decimal" not in simple:
        return column
    return column.cast("array<double>" if isinstance(kind, ArrayType) else "double")


def _type_of(values: Any, what: str) -> DataType:
    shape = tuple(values.shape) if hasattr(values, "shape") else None
    if shape in {(PROBE_ROWS,), (PROBE_ROWS, 1)}:
        return DoubleType()  # what evaluators of Spark want
    if shape is not None and len(shape) == 2 and shape[0] == PROBE_ROWS:
        return ArrayType(FloatType())
    found = f"an array of shape {list(shape)}" if shape is not None else type(values).__name__
    raise SpecError(
        f"{what} must be a number or a vector for each row; for {PROBE_ROWS} rows there is {found}",
        hint="prediction=lambda output: …",
    )
