"""A rank's rows as a PyTorch DataLoader, whose batches have the same number of steps on every rank.

```python
for epoch in range(3):
    for features, label in partition_loader(batch_size=1024):
        ...
```
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .batches import (
    Batching,
    Epochs,
    Place,
    RankRows,
    RowOptions,
    batches_from,
    make_batching,
    partition_rows,
)
from .layout import Columns
from .rows import Share

if TYPE_CHECKING:
    from .arrays import Column


class ShareDataset(IterableDataset[tuple[Any, ...]]):
    """The batches of one epoch, as tuples of tensors or lists.

    Attributes:
        place: the first batch.
    """

    def __init__(self, share: Share, batching: Batching) -> None:
        self._share = share
        self._batching = batching
        self.place = Place(0, 0)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        worker = get_worker_info()
        number, readers = (worker.id, worker.num_workers) if worker else (0, 1)
        return batches_from(self._share, self._batching, self.place, number=number, readers=readers)


class ShareLoader(Epochs, DataLoader[tuple[Any, ...]]):
    """A DataLoader that gives the batches of one epoch each time that it is iterated, as named tuples.

    It has no length: see `Epochs`.
    """

    def __init__(self, share: Share, batching: Batching, **options: Any) -> None:
        self._rows = ShareDataset(share, batching)
        DataLoader.__init__(self, self._rows, batch_size=None, **options)
        Epochs.__init__(self, share, batching)

    def _batches(self, place: Place) -> Iterator[tuple[Any, ...]]:
        self._rows.place = place
        return DataLoader.__iter__(self)


class LoaderOptions(RowOptions, total=False):
    """What every loader of a rank's rows can be told.

    Attributes:
        dtype: the type of floating-point tensors; None for each column's own.
        num_workers: processes that prepare batches; 0 for none beside this one.
        prefetch_factor: how many batches each of them prepares ahead.
        pin_memory: whether batches are made in memory from which GPUs copy faster.
    """

    dtype: torch.dtype | None
    num_workers: int
    prefetch_factor: int | None
    pin_memory: bool


def partition_loader(
    batch_size: int | None = None,
    *,
    columns: Columns | None = None,
    uneven: str | None = None,
    **options: Unpack[LoaderOptions],
) -> ShareLoader:
    """The DataLoader of this rank's rows of the DataFrame that the run was given.

    Rows arrive while it is read: the first epoch begins before the partition is complete. A spool on the
    executor's disk serves later epochs and restarted ranks.

    Args:
        batch_size: the rows of a batch; by default as `run_on_dataframe` was told, else 1,024.
        columns: the columns wanted, or the name of each field of a batch with its column or columns, where
            several make a matrix; by default as `run_on_dataframe` was told.
        uneven: what happens where ranks have different numbers of rows: "drop", "pad", "repeat" or "own"
            (`launcher.data.steps.MEANINGS`); by default as `run_on_dataframe` was told.
        **options: see `LoaderOptions` and `launcher.data.batches.RowOptions`.

    Raises:
        DataError: this is no rank of a run on a DataFrame, or there is no such column.
    """
    return make_loader(partition_rows(batch_size, columns, uneven), **options)


def make_loader(
    rows: RankRows,
    *,
    dtype: torch.dtype | None = None,
    num_workers: int = 0,
    prefetch_factor: int | None = None,
    pin_memory: bool = False,
    **options: Unpack[RowOptions],
) -> ShareLoader:
    """The DataLoader of a rank's rows.

    Raises:
        SpecError: a value is not allowed.
    """
    batching = make_batching(rows, partial(_tensor, dtype=dtype), **options)
    return ShareLoader(
        rows.share,
        batching,
        num_workers=num_workers,
        prefetch_factor=prefetch_factor,
        pin_memory=pin_memory,
    )


def _tensor(column: Column, dtype: torch.dtype | None = None) -> Any:
    """An array as a tensor in the same memory, unless its type is to be another; a list stays one."""
    if isinstance(column, list):
        return [torch.from_numpy(each) if isinstance(each, np.ndarray) else each for each in column]
    made = torch.from_numpy(column)
    return made.to(dtype) if dtype and made.is_floating_point() else made
