"""Which columns a batch has, and under which names they travel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from launcher.data.arrays import Conversion, DataError
from launcher.data.layout import BatchField, fields_of, used
from launcher.data.sharing import plain_names


def test_fields_of_names_and_of_matrices() -> None:
    assert (BatchField("a", ("a",), False), BatchField("b", ("b",), False)) == fields_of(None, ["a", "b"])
    made = fields_of({"x": ["a", "b"], "y": "b"}, ["a", "b", "c"])

    assert (BatchField("x", ("a", "b"), True), BatchField("y", ("b",), False)) == made
    assert ["a", "b"] == used(made)
    assert [["a", "b"], "b"] == [each.given for each in made]


@pytest.mark.parametrize("columns", ["a", [], {}, ["d"], {"x": ["a", "d"]}, {"x": []}])
def test_what_names_no_columns(columns: object) -> None:
    with pytest.raises(DataError):
        fields_of(columns, ["a", "b"])  # type: ignore[arg-type]  # what a caller may do


@pytest.mark.parametrize(
    ("names", "plain"),
    [
        (["a", "b_c"], ["a", "b_c"]),
        (["a.b", "c`d"], ["a_b", "c_d"]),
        (["a.b", "a_b", "a`b"], ["a_b_", "a_b", "a_b__"]),
    ],
)
def test_names_that_pyspark_accepts(names: list[str], plain: list[str]) -> None:
    assert plain == plain_names(names)


@pytest.mark.parametrize(
    ("of", "dtype"),
    [
        ((pa.float32(), pa.float64()), np.float64),
        ((pa.int64(), pa.float32()), np.float32),
        ((pa.int8(), pa.int64()), np.int64),
        ((pa.bool_(), pa.int16()), np.int16),
    ],
)
def test_a_matrix_has_the_type_of_its_numbers(of: tuple[Any, Any], dtype: Any) -> None:
    table = pa.table({name: pa.array([1, 0]).cast(kind) for name, kind in zip("ab", of, strict=True)})
    made = BatchField("x", ("a", "b"), True).of(table, Conversion())

    assert dtype == made.dtype
    assert [[1, 1], [0, 0]] == made.tolist()


@pytest.mark.parametrize("is_matrix", [False, True])
def test_what_is_made_of_a_column_may_be_written_to(is_matrix: bool) -> None:
    table = pa.table({"a": pa.array([1.0, 2.0])})
    made = BatchField("a", ("a",), is_matrix).of(table, Conversion())
    made += 1

    assert [2.0, 3.0] == made.ravel().tolist()
    assert [1.0, 2.0] == table.column("a").to_pylist()
