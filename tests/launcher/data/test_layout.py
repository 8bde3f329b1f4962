"""Which columns a batch has, and under which names they travel."""

from __future__ import annotations

import pytest

from launcher.data.layout import BatchField, fields_of, used
from launcher.data.sharing import plain_names
from launcher.data.tensors import DataError


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
