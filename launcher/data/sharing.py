"""What the caller of a run says of the DataFrame that its ranks share."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from ..errors import SpecError
from ..spec.request import Data
from .layout import Columns, fields_of, used
from .steps import Uneven, policy, require_size


def shared(
    dataframe: Any,
    *,
    columns: Columns | None = None,
    batch_size: int | None = None,
    uneven: str = Uneven.DROP,
    repartition: bool | None = None,
) -> Data:
    """The data of a run: the columns that ranks need, and what their loaders must know.

    Raises:
        SpecError: this is no DataFrame, or it has no such column, or a value is not allowed.
    """
    if not hasattr(dataframe, "mapInArrow") or not hasattr(dataframe, "sparkSession"):
        raise SpecError(f"the data must be a DataFrame of Spark, not {type(dataframe).__name__}")
    if batch_size is not None:
        require_size("batch_size", batch_size)
    fields = fields_of(columns, dataframe.columns)
    names = used(fields)
    plain = dict(zip(names, plain_names(names), strict=True))
    chosen = dataframe.select(*map(quoted, names)).toDF(*plain.values())
    settings = {
        "schema": chosen.schema.json(),
        "columns": {each.name: each.renamed(plain).given for each in fields},
        "batch_size": batch_size,
        "uneven": policy(uneven),
    }
    return Data(chosen, json.dumps(settings), repartition=repartition)


def plain_names(names: Sequence[str]) -> list[str]:
    """Names that pyspark's `mapInArrow` accepts, which takes a dot in one for a field of a structure."""
    taken: list[str] = []
    for name in names:
        plain = re.sub(r"[.`]", "_", name)
        while plain in taken or (plain != name and plain in names):
            plain += "_"
        taken.append(plain)
    return taken


def quoted(column: str) -> str:
    """A column's name as an expression of Spark, which would take a dot for a field of it."""
    return "`" + column.replace("`", "``") + "`"
