"""Which columns a batch has: names, and for each the columns of the DataFrame that it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from .arrays import Conversion, DataError

if TYPE_CHECKING:
    import pyarrow as pa

Columns: TypeAlias = Sequence[str] | Mapping[str, str | Sequence[str]]
VALID = "valid"


@dataclass(frozen=True, slots=True)
class BatchField:
    """One field of a batch.

    Attributes:
        name: its name.
        columns: the columns that it is made of; several, each of numbers, become one matrix.
        is_matrix: whether it is a matrix, even of one column.
    """

    name: str
    columns: tuple[str, ...]
    is_matrix: bool

    @property
    def given(self) -> str | list[str]:
        """Its columns, as a caller gives them."""
        return list(self.columns) if self.is_matrix else self.columns[0]

    def renamed(self, names: Mapping[str, str]) -> BatchField:
        """The field of the same columns under other names."""
        return replace(self, columns=tuple(names[each] for each in self.columns))

    def of(self, table: pa.Table, conversion: Conversion) -> Any:
        """The field of these rows, as an array that may be written to, or a list.

        Raises:
            DataError: a column cannot be an array.
        """
        import numpy as np

        made = [conversion.column(name, table.column(name).combine_chunks()) for name in self.columns]
        if not self.is_matrix:
            return made[0] if isinstance(made[0], list) else np.require(made[0], requirements="W")
        flat = [each for each in made if isinstance(each, np.ndarray) and each.ndim == 1]
        if len(flat) < len(made):
            raise DataError(f"matrix {self.name}: one of {', '.join(self.columns)} is not a number a row")
        floats = [each.dtype for each in flat if each.dtype.kind == "f"]  # beside which integers need no more
        return np.stack(flat, axis=1, dtype=np.result_type(*(floats or [each.dtype for each in flat])))


def fields_of(columns: Columns | None, known: Sequence[str]) -> tuple[BatchField, ...]:
    """The fields that a caller wants, of the columns that there are.

    Args:
        columns: names of columns; or the name of each field, with its column or columns; None for all.
        known: the columns that there are.

    Raises:
        DataError: there is no such column, or no name for a field.
    """
    if isinstance(columns, str) or (columns is not None and not columns):
        raise DataError(f"columns={columns!r} names none", hint='columns=["features", "label"]')
    wanted = columns if isinstance(columns, Mapping) else {name: name for name in (columns or known)}
    fields = tuple(
        BatchField(name, (given,) if isinstance(given, str) else tuple(given), not isinstance(given, str))
        for name, given in wanted.items()
    )
    for each in fields:
        if lacking := [name for name in each.columns if name not in known]:
            raise DataError(f"there is no column {lacking[0]!r}; there are {', '.join(known)}")
        if each.is_matrix and not each.columns:
            raise DataError(f"the matrix {each.name} has no columns")
    return fields


def used(fields: Iterable[BatchField]) -> list[str]:
    """The columns that fields are made of, each once."""
    return list(dict.fromkeys(name for each in fields for name in each.columns))
