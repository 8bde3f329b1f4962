"""What each kind of column becomes, and what is said of those that become nothing."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from pyspark.ml.linalg import Vectors, VectorUDT
from pyspark.sql import types as T  # noqa: N812  as pyspark's own documentation does

from launcher.data.arrays import Conversion, DataError, kinds_of
from tests.launcher.data.shares import batch_of

VECTOR = VectorUDT()
# pyspark asks a JVM for it
IMAGE = T.StructType(
    [
        T.StructField("origin", T.StringType()),
        *(T.StructField(name, T.IntegerType()) for name in ("height", "width", "nChannels", "mode")),
        T.StructField("data", T.BinaryType()),
    ]
)


def column(kind: T.DataType, values: Sequence[Any], **options: Any) -> Any:
    """What a column of this type of Spark becomes."""
    schema = T.StructType([T.StructField("c", kind)])
    stored = VECTOR.sqlType() if kind == VECTOR else kind
    batch = batch_of(T.StructType([T.StructField("c", stored)]), {"c": values})
    kinds = kinds_of(json.loads(schema.json()))
    return Conversion(kinds, **options).column("c", batch.column("c"))


def vector(value: Any) -> dict[str, Any]:
    """A vector as Spark stores it."""
    kind, size, indices, values = VECTOR.serialize(value)
    return {"type": kind, "size": size, "indices": indices, "values": values}


@pytest.mark.parametrize(
    ("kind", "values", "dtype"),
    [
        (T.BooleanType(), [True, False], np.bool_),
        (T.ByteType(), [-128, 127], np.int8),
        (T.ShortType(), [-(2**15), 1], np.int16),
        (T.IntegerType(), [2**31 - 1, 0], np.int32),
        (T.LongType(), [2**63 - 1, -1], np.int64),
        (T.FloatType(), [0.5, -1.0], np.float32),
        (T.DoubleType(), [0.1, math.inf], np.float64),
    ],
    ids=str,
)
def test_numbers_keep_their_type(kind: T.DataType, values: list[Any], dtype: Any) -> None:
    made = column(kind, values)

    assert dtype == made.dtype
    assert values == made.tolist()


def test_decimals_and_times_become_numbers() -> None:
    noon = dt.datetime(2024, 5, 1, 12, 0, 0, 7, tzinfo=dt.UTC)
    micros = int(noon.timestamp()) * 1_000_000 + 7

    assert [1.25] == column(T.DecimalType(10, 2), [decimal.Decimal("1.25")]).tolist()
    assert [micros] == column(T.TimestampType(), [noon]).tolist()
    assert [micros] == column(T.TimestampNTZType(), [noon.replace(tzinfo=None)]).tolist()
    assert [-1, 1] == column(T.DateType(), [dt.date(1969, 12, 31), dt.date(1970, 1, 2)]).tolist()
    assert [90_000_000] == column(T.DayTimeIntervalType(), [dt.timedelta(seconds=90)]).tolist()


def test_strings_and_binary_are_lists() -> None:
    assert ["a", None, "é"] == column(T.StringType(), ["a", None, "é"])
    assert [b"\0", None] == column(T.BinaryType(), [b"\0", None])


def test_arrays_of_one_length_are_arrays_of_more_dimensions() -> None:
    pairs = column(T.ArrayType(T.FloatType()), [[1.0, 2.0], [3.0, 4.0]])
    nested = column(T.ArrayType(T.ArrayType(T.IntegerType())), [[[1, 2], [3, 4], [5, 6]]])

    assert [[1.0, 2.0], [3.0, 4.0]] == pairs.tolist()
    assert (np.int32, [[[1, 2], [3, 4], [5, 6]]]) == (nested.dtype, nested.tolist())
    assert (2, 0) == column(T.ArrayType(T.FloatType()), [[], []]).shape


def test_a_part_of_a_column_is_converted_and_not_the_memory_behind_it() -> None:
    schema = T.StructType(
        [T.StructField("a", T.ArrayType(T.LongType())), T.StructField("b", T.BooleanType())]
    )
    batch = batch_of(schema, {"a": [[i, i] for i in range(20)], "b": [i % 2 == 0 for i in range(20)]})
    part = batch.slice(7, 3)

    pairs, even = (Conversion().column(name, part.column(name)) for name in "ab")

    assert np.array_equal([[7, 7], [8, 8], [9, 9]], pairs)
    assert np.array_equal([False, True, False], even)


def test_arrays_of_several_lengths_are_lists_where_that_is_wanted() -> None:
    kind, values = T.ArrayType(T.LongType()), [[1], [], [2, 3], None]
    made = column(kind, values, ragged=frozenset({"c"}))

    assert [[1], [], [2, 3], None] == [None if each is None else each.tolist() for each in made]
    with pytest.raises(DataError, match=r"arrays of 0 to 2 elements.*ragged=\[\"c\"\]"):
        column(kind, [[1], [], [2, 3]])


@pytest.mark.parametrize(
    "values",
    [
        [Vectors.dense(1, 0, 2), Vectors.dense(0, 0, 0)],
        [Vectors.sparse(3, {0: 1.0, 2: 2.0}), Vectors.sparse(3, {})],
        [Vectors.dense(1, 2, 3), Vectors.sparse(3, {1: 5.0}), Vectors.dense(4, 5, 6)],
    ],
    ids=["dense", "sparse", "both"],
)
def test_vectors_are_dense(values: list[Any]) -> None:
    made = column(VECTOR, [vector(each) for each in values])

    assert np.float64 == made.dtype
    assert np.array_equal(np.array([each.toArray() for each in values]), made)


def test_vectors_of_several_sizes_are_refused() -> None:
    with pytest.raises(DataError, match="vectors of 2 to 3 elements"):
        column(VECTOR, [vector(Vectors.dense(1, 2)), vector(Vectors.sparse(3, {}))])


def image(pixels: np.ndarray[Any, Any]) -> dict[str, Any]:
    """An image as Spark stores it, whose channels are blue, green, red."""
    height, width, channels = pixels.shape
    stored = pixels[..., ::-1] if channels == 3 else pixels
    keys = ("origin", "height", "width", "nChannels", "mode", "data")
    return dict(zip(keys, ("", height, width, channels, 16, stored.tobytes()), strict=True))


def test_images_are_channels_of_red_green_blue() -> None:
    pixels = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    made = column(IMAGE, [image(each) for each in pixels])

    assert np.uint8 == made.dtype
    assert np.array_equal(pixels.transpose(0, 3, 1, 2), made)


def test_images_of_several_sizes() -> None:
    values = [image(np.zeros((2, 2, 1), np.uint8)), image(np.ones((3, 2, 1), np.uint8))]
    made = column(IMAGE, values, ragged=frozenset({"c"}))

    assert [(1, 2, 2), (1, 3, 2)] == [tuple(each.shape) for each in made]
    with pytest.raises(DataError, match="images of several sizes"):
        column(IMAGE, values)
    with pytest.raises(DataError, match=r"an image of \(2, 2, 1\) with 3 bytes"):
        column(IMAGE, [{**values[0], "data": b"123"}])


def test_nulls_are_nan_among_floating_point_numbers_and_else_an_error() -> None:
    assert math.isnan(column(T.DoubleType(), [1.0, None])[1])
    assert [1.0, -1.0] == column(T.FloatType(), [1.0, None], fill={"c": -1.0}).tolist()
    assert [1, 0] == column(T.LongType(), [1, None], fill={"c": 0}).tolist()
    with pytest.raises(DataError, match=r"column c has nulls, and int64 has no number.*fill=\{\"c\": 0\}"):
        column(T.LongType(), [1, None])
    with pytest.raises(DataError, match="'x' cannot stand for nulls of column c"):
        column(T.LongType(), [1, None], fill={"c": "x"})


@pytest.mark.parametrize("kind", [T.ArrayType(T.LongType()), VECTOR], ids=str)
def test_a_null_is_no_array(kind: T.DataType) -> None:
    with pytest.raises(DataError, match="column c has nulls in place of"):
        column(kind, [None])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (T.MapType(T.StringType(), T.LongType()), {"a": 1}),
        (T.StructType([T.StructField("a", T.LongType())]), {"a": 1}),
        (T.ArrayType(T.StringType()), ["a"]),
    ],
    ids=["map", "struct", "strings"],
)
def test_what_has_no_array_is_named(kind: T.DataType, value: Any) -> None:
    with pytest.raises(DataError, match=r"column c is of type .*, of which there are no arrays of numbers"):
        column(kind, [value])
