"""The DataFrame of a prediction: its input, and its rows with the column of predictions."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any

from ....data.sharing import quoted
from ....errors import SpecError
from ....spec.prediction import Location, Prediction, shape_of
from .packing import PANDAS_ITERATOR, PREDICTOR, PackedFunction
from .worker import Watch, make_iterator, make_predictor, make_series, unpickling


def read(session: Any, source: Location) -> Any:
    """The DataFrame of a location."""
    if source.is_table:
        return session.table(source.name)
    return session.read.format(source.source).options(**source.options).load(source.name)


_GLOB = re.compile(r"[]\[{}*?\\^]")  # what Hadoop would not take for itself in a path


def read_files(session: Any, source: Location, files: Sequence[str], schema: Any) -> Any:
    """The rows of some files of a location, whose schema is that of all of them."""
    reader = session.read.format(source.source).options(**source.options).schema(schema)
    if any("=" in file.removeprefix(source.name).rpartition("/")[0] for file in files):
        reader = reader.option("basePath", source.name)  # else its folders would give no columns
    return reader.load([_GLOB.sub(r"\\\g<0>", file) for file in files])


def columns_of(dataframe: Any, prediction: Prediction) -> tuple[str, ...]:
    """The columns that the function takes.

    Raises:
        SpecError: there is no such column, or the one of the predictions is there already.
    """
    has = list(dataframe.columns)
    if prediction.column in has:
        raise SpecError(f"the input already has a column {prediction.column!r}", hint="--column NAME")
    for name in (*prediction.columns, *prediction.shapes):
        if name not in has:
            raise SpecError(f"the input has no column {name!r}; it has {', '.join(has)}")
    return prediction.columns or tuple(has)


def make_udf(
    function: PackedFunction, prediction: Prediction, columns: tuple[str, ...], watch: Watch, *, gpu: bool
) -> Any:
    """The function of Spark that predicts; one for all units, so that a worker loads its model once.

    Without `gpu`, models are loaded onto the CPU wherever they are.

    Raises:
        SpecError: Spark knows no such type.
    """
    from pyspark.ml.functions import predict_batch_udf
    from pyspark.sql.pandas import functions as pandas_functions

    if function.kind == PREDICTOR:
        shapes = [shape_of(prediction.shapes.get(name, "")) for name in columns]
        return predict_batch_udf(
            make_predictor(unpickling(function.pickled), watch, gpu=gpu),
            return_type=_type_of(prediction.returns),
            batch_size=prediction.batch_size,
            input_tensor_shapes=shapes if any(shapes) else None,
        )
    make: Any
    make, kind = (make_iterator, 204) if function.kind == PANDAS_ITERATOR else (make_series, 200)
    with warnings.catch_warnings():  # it wants type hints, which a function of any parameters has not
        warnings.simplefilter("ignore")
        create: Any = pandas_functions.pandas_udf
        return create(make(function.pickled, watch), _type_of(function.returns), kind)


def predicted(dataframe: Any, udf: Any, prediction: Prediction, columns: tuple[str, ...]) -> Any:
    """The rows with their predictions."""
    given = [_numeric(dataframe, name) for name in columns]
    return dataframe.withColumn(prediction.column, udf(*given))


def _numeric(dataframe: Any, name: str) -> Any:
    """A column; decimals as doubles, since numpy has none, and vectors as arrays."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import VectorUDT
    from pyspark.sql import functions
    from pyspark.sql.types import DecimalType

    column, kind = functions.col(quoted(name)), dataframe.schema[name].dataType
    if isinstance(kind, VectorUDT):
        return vector_to_array(column)
    return column.cast("double") if isinstance(kind, DecimalType) else column


def _type_of(text: str) -> Any:
    from pyspark.sql.types import DataType

    try:
        return DataType.fromDDL(text)
    except Exception as error:
        raise SpecError(f"Spark knows no type {text!r}", hint="--returns double, or array<float>") from error
