"""Files of Parquet or a Delta table on storage that all ranks see, read without Spark.

The footers of the files say how many rows there are; each rank takes its part of them, to the row. So ranks
need not agree on anything while they read.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

from .arrays import DataError, kinds_of
from .batches import DEFAULT_SIZE, Epochs, RankRows, RowOptions, make_batches
from .layout import Columns, fields_of, used
from .shares import Agreed

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import DTypeLike

    from .loader import LoaderOptions, ShareLoader

_READ_ROWS = 16_384
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"  # where Spark says which columns are vectors


@dataclass(frozen=True, slots=True)
class Part:
    """A row group of a file, as far as it is this rank's.

    Attributes:
        fragment: the row group, for Arrow.
        skipped: how many of its first rows are other ranks'.
        rows: how many rows are this rank's.
    """

    fragment: Any
    skipped: int
    rows: int


class FileShare:
    """This rank's rows of files, all of which are known from the beginning."""

    complete = True

    def __init__(self, dataset: Any, columns: Sequence[str], rank: int, world_size: int) -> None:
        groups = [group for file in dataset.get_fragments() for group in file.split_by_row_group()]
        sizes = [int(group.row_groups[0].num_rows) for group in groups]
        total = sum(sizes)
        self.agreed = Agreed(total // world_size, True, -(-total // world_size), True)
        begin, end = (total * each // world_size for each in (rank, rank + 1))
        self._first = groups[0] if groups else None
        self._parts = list(_parts(groups, sizes, begin, end))
        self._schema = dataset.schema
        self._columns = list(columns)
        self.count = end - begin

    @property
    def pieces(self) -> int:
        """How many row groups this rank reads."""
        return len(self._parts)

    def rows(self, piece: int) -> int:
        """How many rows it reads of one."""
        return self._parts[piece].rows

    def read(self, piece: int) -> Iterator[pa.RecordBatch]:
        """These rows."""
        part = self._parts[piece]
        skipped, left = part.skipped, part.rows
        for batch in self._scan(part.fragment):
            own = batch.slice(skipped, left)
            skipped, left = max(0, skipped - batch.num_rows), left - own.num_rows
            if own.num_rows:
                yield own
            if not left:
                return

    def example(self) -> pa.RecordBatch | None:
        """The first row of all."""
        batches = self._scan(self._first) if self._first else iter(())
        return next((batch.slice(0, 1) for batch in batches if batch.num_rows), None)

    def note_wait(self) -> None:
        """Nobody waits for what is there."""

    def _scan(self, fragment: Any) -> Iterator[pa.RecordBatch]:
        batches: Iterator[pa.RecordBatch] = fragment.to_batches(
            schema=self._schema,
            columns=self._columns,
            batch_size=_READ_ROWS,
            batch_readahead=2,
            fragment_readahead=1,
        )
        return batches


def _parts(groups: Sequence[Any], sizes: Sequence[int], begin: int, end: int) -> Iterator[Part]:
    """The row groups, and what of them lies between two rows of all."""
    first = 0
    for group, size in zip(groups, sizes, strict=True):
        start, stop = max(begin, first), min(end, first + size)
        if start < stop:
            yield Part(group, start - first, stop - start)
        first += size


def path_loader(
    path: str | os.PathLike[str] | Sequence[str],
    batch_size: int = DEFAULT_SIZE,
    *,
    columns: Columns | None = None,
    version: int | None = None,
    uneven: str = "drop",
    **options: Unpack[LoaderOptions],
) -> ShareLoader:
    """The DataLoader of this rank's part of files on storage that all ranks see.

    It needs no Spark: ranks of any mode read by it, and a process without a run reads all rows.

    Args:
        path: a file or folder of Parquet, a pattern with ``*``, or several of them; or the folder of a Delta
            table, for which the package deltalake must be installed. Also a URI that Arrow knows.
        batch_size: the rows of a batch.
        columns: the columns wanted, or the name of each field of a batch with its column or columns, where
            several make a matrix; None for all.
        version: the version of a Delta table; None for the newest, which all ranks must find to be the same.
        uneven: what happens where rows cannot be divided evenly, as for `partition_loader`.
        **options: as for `partition_loader`.

    Raises:
        DataError: there are no such files or columns, or deltalake is not installed.
    """
    from .loader import make_loader  # with PyTorch

    return make_loader(path_rows(path, batch_size, columns, version, uneven), **options)


def path_batches(
    path: str | os.PathLike[str] | Sequence[str],
    batch_size: int = DEFAULT_SIZE,
    *,
    columns: Columns | None = None,
    version: int | None = None,
    uneven: str = "drop",
    dtype: DTypeLike | None = None,
    **options: Unpack[RowOptions],
) -> Epochs:
    """As `path_loader`, with arrays of numpy in place of tensors; PyTorch need not be installed.

    Args:
        path: the files, as for `path_loader`.
        batch_size: the rows of a batch.
        columns: the columns wanted, as for `path_loader`.
        version: the version of a Delta table.
        uneven: what happens where rows cannot be divided evenly.
        dtype: the type of floating-point arrays, such as "float32"; None for each column's own.
        **options: as for `partition_batches`.

    Raises:
        DataError: there are no such files or columns, or deltalake is not installed.
    """
    return make_batches(path_rows(path, batch_size, columns, version, uneven), dtype, **options)


def path_rows(
    path: str | os.PathLike[str] | Sequence[str],
    batch_size: int,
    columns: Columns | None,
    version: int | None,
    uneven: str,
) -> RankRows:
    """This rank's part of files.

    Raises:
        DataError: there are no such files or columns, or deltalake is not installed.
    """
    dataset = open_dataset(path, version)
    fields = fields_of(columns, dataset.schema.names)
    told = (dataset.schema.metadata or {}).get(_SPARK_SCHEMA)
    rank, world_size = (int(os.environ.get(name, default)) for name, default in _PLACE)
    return RankRows(
        FileShare(dataset, used(fields), rank, world_size),
        fields,
        kinds_of(json.loads(told)) if told else {},
        batch_size,
        uneven,
    )


_PLACE = (("RANK", "0"), ("WORLD_SIZE", "1"))


def open_dataset(path: str | os.PathLike[str] | Sequence[str], version: int | None = None) -> Any:
    """The files as a dataset of Arrow's.

    Raises:
        DataError: there are none, or they are not of Parquet.
    """
    import pyarrow as pa
    import pyarrow.dataset as ds

    paths = [os.fspath(path)] if isinstance(path, (str, os.PathLike)) else list(path)
    if len(paths) == 1 and os.path.isdir(os.path.join(paths[0], "_delta_log")):
        return _delta(paths[0], version)
    if version is not None:
        raise DataError(f"version={version} is one of a Delta table, and {paths[0]} is none")
    found = [name for each in paths for name in (sorted(glob.glob(each)) if "*" in each else [each])]
    try:
        dataset = ds.dataset(found[0] if len(found) == 1 else found, format="parquet", partitioning="hive")
    except (OSError, pa.ArrowInvalid, IndexError) as error:
        raise DataError(f"{', '.join(paths)}: no files of Parquet can be read here: {error}") from error
    if not dataset.files:
        raise DataError(f"{', '.join(paths)}: there are no files of Parquet")
    return dataset


def _delta(path: str, version: int | None) -> Any:
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError:
        raise DataError(f"{path} is a Delta table", hint="pip install deltalake, for the ranks too") from None
    try:
        return DeltaTable(path, version=version).to_pyarrow_dataset()
    except (DeltaError, OSError, ValueError) as error:
        raise DataError(f"{path}: this Delta table cannot be read: {error}") from error
