"""Columns of Arrow as arrays of numpy: whole columns at once, never a row in Python.

What a column becomes is told by its type alone, never by the values of a batch:

| column | becomes |
| --- | --- |
| numbers, booleans | an array of their type; decimals as float64 |
| timestamps, dates | an int64 array: microseconds, and days, since 1970 |
| arrays of these, nested or not | an array with more dimensions, if all are of one length |
| vectors of pyspark.ml, sparse or dense | a float64 array of two dimensions |
| images of Spark | a uint8 array: rows, channels (RGB or RGBA), height, width, if all are of one size |
| strings, binary | a list of str, of bytes |

Arrays and images of several lengths or sizes become a list of arrays where that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from ..errors import SpecError

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Numbers: TypeAlias = np.ndarray[Any, Any]
    Column: TypeAlias = Numbers | list[Any]

VECTOR, IMAGE = "vector", "image"
_VECTOR_CLASS, _IMAGE_FIELDS = "VectorUDT", ("origin", "height", "width", "nChannels", "mode", "data")


class DataError(SpecError):
    """Rows that cannot become arrays, or a wrong idea of what columns there are."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How columns become arrays.

    Attributes:
        kinds: the columns that Spark stores as a structure, and what they are: a vector or an image.
        fill: what stands for nulls, by column. Elsewhere a null is NaN among floating-point numbers, None in
            a list, and else an error.
        ragged: columns of arrays or images that become lists, since their lengths or sizes differ.
    """

    kinds: Mapping[str, str] = field(default_factory=dict)
    fill: Mapping[str, Any] = field(default_factory=dict)
    ragged: frozenset[str] = frozenset()

    def column(self, name: str, values: pa.Array) -> Column:
        """A column as an array or list. An array may lie in memory of Arrow, which nobody may write to.

        Raises:
            DataError: it has a type, a null or a length that no array can have.
        """
        import pyarrow.types as kinds

        if name in self.fill:
            values = _filled(name, values, self.fill[name])
        kind = values.type
        if self.kinds.get(name) == VECTOR:
            return _vectors(name, values)
        if self.kinds.get(name) == IMAGE:
            return _images(name, values, ragged=name in self.ragged)
        if any(
            test(kind)
            for test in (kinds.is_string, kinds.is_large_string, kinds.is_binary, kinds.is_large_binary)
        ):
            texts: list[Any] = values.to_pylist()
            return texts
        if kinds.is_list(kind) or kinds.is_large_list(kind):
            return _ragged(name, values) if name in self.ragged else _matrix(name, values)
        return _numbers(name, values)


def kinds_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """The columns that are vectors or images, by a DataFrame's schema as JSON (`StructType.jsonValue`)."""
    found = {}
    for each in schema["fields"]:
        kind = each["type"]
        if not isinstance(kind, Mapping):
            continue
        if kind.get("type") == "udt" and str(kind.get("pyClass", "")).endswith(_VECTOR_CLASS):
            found[each["name"]] = VECTOR
        elif kind.get("type") == "struct" and tuple(f["name"] for f in kind["fields"]) == _IMAGE_FIELDS:
            found[each["name"]] = IMAGE
    return found


def _numbers(name: str, values: pa.Array) -> Numbers:
    """A flat column of numbers."""
    import pyarrow as pa
    import pyarrow.types as kinds

    kind = values.type
    if kinds.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", tz=kind.tz)).view(pa.int64())
    elif kinds.is_date32(kind):
        values = values.view(pa.int32()).cast(pa.int64())
    elif kinds.is_duration(kind):
        values = values.cast(pa.duration("us")).view(pa.int64())
    elif kinds.is_decimal(kind):
        values = values.cast(pa.float64())
    elif not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
        raise DataError(
            f"column {name} is of type {kind}, of which there are no arrays of numbers",
            hint="leave it out by columns=…, or select a part of it, or convert it in the DataFrame",
        )
    if values.null_count:
        if not kinds.is_floating(values.type):
            raise DataError(
                f"column {name} has nulls, and {kind} has no number that means none",
                hint=f'fill them in (DataFrame.fillna), or say what stands for them: fill={{"{name}": 0}}',
            )
        values = values.fill_null(float("nan"))
    found: Numbers = values.to_numpy(zero_copy_only=False)
    return found


def _filled(name: str, values: pa.Array, stand_in: Any) -> pa.Array:
    import pyarrow as pa

    try:
        return values.fill_null(stand_in)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as error:
        raise DataError(f"{stand_in!r} cannot stand for nulls of column {name}: {error}") from error


def _require_no_nulls(name: str, values: pa.Array, what: str) -> None:
    if values.null_count:
        raise DataError(
            f"column {name} has nulls in place of {what}", hint="filter these rows in the DataFrame"
        )


def _matrix(name: str, values: pa.Array) -> Numbers:
    """A column of arrays of one length as an array with one more dimension."""
    import pyarrow.compute as pc
    import pyarrow.types as kinds

    _require_no_nulls(name, values, "arrays")
    inner, rows = values.flatten(), len(values)
    lengths = pc.list_value_length(values)
    least, most = (bound.as_py() for bound in pc.min_max(lengths).values())
    if least != most:
        raise DataError(
            f"column {name} has arrays of {least} to {most} elements, which make no matrix",
            hint=f'pad them in the DataFrame, or get lists of arrays: ragged=["{name}"]',
        )
    nested = kinds.is_list(inner.type) or kinds.is_large_list(inner.type)
    numbers = _matrix(name, inner) if nested and len(inner) else _numbers(name, inner)
    return numbers.reshape(rows, most or 0, *numbers.shape[1:])


def _ragged(name: str, values: pa.Array) -> list[Any]:
    """A column of arrays as a list of arrays, or None for a null."""
    import numpy as np

    numbers = np.array(_numbers(name, values.flatten()))
    lengths = [0 if n is None else n for n in values.value_lengths().to_pylist()]
    valid = values.is_valid().to_pylist()
    pieces = np.split(numbers, np.cumsum(lengths[:-1], dtype=int))
    return [piece if there else None for piece, there in zip(pieces, valid, strict=True)]


def _vectors(name: str, values: pa.Array) -> Numbers:
    """Vectors of pyspark.ml. A dense one has all its values, a sparse one its size and what is not zero."""
    import numpy as np

    _require_no_nulls(name, values, "vectors")
    kind = values.field("type").to_numpy(zero_copy_only=False)
    content = values.field("values")
    lengths = content.value_lengths().to_numpy(zero_copy_only=False)
    sparse = kind == 0
    sizes = np.where(sparse, values.field("size").fill_null(0).to_numpy(zero_copy_only=False), lengths)
    if len(sizes) and (sizes != sizes[0]).any():
        raise DataError(f"column {name} has vectors of {sizes.min()} to {sizes.max()} elements")
    flat = content.flatten().to_numpy(zero_copy_only=False)
    if not sparse.any():
        dense: Numbers = flat.reshape(len(values), -1)
        return dense
    made = np.zeros((len(values), int(sizes[0])))
    row_of = np.repeat(np.arange(len(values)), lengths)
    in_sparse = sparse[row_of]
    made[row_of[in_sparse], values.field("indices").flatten().to_numpy(zero_copy_only=False)] = flat[
        in_sparse
    ]
    made[~sparse] = flat[~in_sparse].reshape(-1, made.shape[1])
    return made


def _images(name: str, values: pa.Array, *, ragged: bool) -> Numbers | list[Numbers]:
    """Images as Spark stores them: rows of pixels, blue before green before red."""
    import numpy as np

    _require_no_nulls(name, values, "images")
    places = zip(*(values.field(each).to_pylist() for each in ("height", "width", "nChannels")), strict=True)
    made: list[Numbers] = []
    for shape, data in zip(places, values.field("data"), strict=True):
        pixels = np.frombuffer(data.as_buffer(), np.uint8)
        if pixels.size != np.prod(shape):
            raise DataError(f"column {name} has an image of {shape} with {pixels.size} bytes")
        rows = pixels.reshape(shape)[..., _rgb(shape[2])]
        made.append(np.ascontiguousarray(rows.transpose(2, 0, 1)))
    if ragged:
        return made
    if len({each.shape for each in made}) > 1:
        raise DataError(
            f"column {name} has images of several sizes, which make no array",
            hint=f'resize them in the DataFrame, or get lists of arrays: ragged=["{name}"]',
        )
    return np.stack(made) if made else np.empty((0, 0, 0, 0), np.uint8)


def _rgb(channels: int) -> list[int]:
    return {3: [2, 1, 0], 4: [2, 1, 0, 3]}.get(channels, list(range(channels)))
