"""Shares of rows as a task writes them, in this process."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T  # noqa: N812  as pyspark's own documentation does
from pyspark.sql.pandas.types import to_arrow_schema

from launcher.data.shares import SHARE, Agreed, ShareWriter

NUMBERED = T.StructType([T.StructField("id", T.LongType()), T.StructField("x", T.FloatType())])


def numbered(start: int, rows: int) -> pa.RecordBatch:
    """Rows with their numbers."""
    ids = range(start, start + rows)
    return pa.record_batch(
        {"id": pa.array(ids, pa.int64()), "x": pa.array([i / 2 for i in ids], pa.float32())}
    )


def numbered_batches(rows: int, each: int) -> Iterator[pa.RecordBatch]:
    """So many rows in batches of `each`."""
    for start in range(0, rows, each):
        yield numbered(start, min(each, rows - start))


def batch_of(schema: T.StructType, columns: Mapping[str, Sequence[Any]]) -> pa.RecordBatch:
    """Rows as Spark gives them to a Python worker."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    arrays = [pa.array(columns[field.name], field.type) for field in arrow]
    return pa.RecordBatch.from_arrays(arrays, schema=arrow)


def settings(schema: T.StructType = NUMBERED, **more: Any) -> bytes:
    """What ranks are told of a DataFrame."""
    return json.dumps({"schema": schema.json(), **more}).encode()


@contextmanager
def task(
    folder: Path, shares: int = 1, schema: T.StructType = NUMBERED, **more: Any
) -> Iterator[ShareWriter]:
    """A task that deals rows; its ranks are in this process."""
    with ShareWriter(os.fspath(folder), shares, settings(schema, **more)) as writer:
        yield writer


def dealt_to_the_end(writer: ShareWriter, batches: Iterator[pa.RecordBatch]) -> None:
    """All rows are dealt, and no other task has any."""
    for batch in batches:
        writer.write(batch)
    writer.finish()
    rows = [writer.ledger.rows(share) for share in range(writer.ledger.count)]
    writer.ledger.agree(Agreed(min(rows), True, max(rows), True))


@contextmanager
def as_rank(writer: ShareWriter, share: int = 0) -> Iterator[None]:
    """This process is a rank of the task."""
    os.environ[SHARE] = f"{writer.path}:{share}"
    try:
        yield
    finally:
        del os.environ[SHARE]
