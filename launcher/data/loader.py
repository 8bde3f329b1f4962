"""A rank's rows as a PyTorch DataLoader, whose batches have the same number of steps on every rank.

```python
for epoch in range(3):
    for features, label in partition_loader(batch_size=1024):
        ...
```
"""

from __future__ import annotations

import json
import os
from collections import namedtuple
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from .layout import VALID, BatchField, Columns, fields_of
from .rows import RowReader, Share, Shuffle, SpooledShare, wait_for
from .shares import SHARE, ShareLedger
from .steps import Uneven, policy, require_size, rows_from
from .tensors import Conversion, DataError, kinds_of

if TYPE_CHECKING:
    import pyarrow as pa
    import torch

DEFAULT_SIZE = 1024
BLOCK = 16_384  # rows that become tensors at once: a call for each column of each batch would cost more


@dataclass(frozen=True, slots=True)
class Batching:
    """How rows become batches.

    Attributes:
        fields: the fields of a batch.
        size: the rows of a batch.
        uneven: what happens where ranks have different numbers of rows.
        drop_last: whether a last batch of fewer rows is left out, on all ranks.
        shuffle: the order of the rows; None for that of the share.
        conversion: how columns become tensors.
    """

    fields: tuple[BatchField, ...]
    size: int
    uneven: Uneven = Uneven.DROP
    drop_last: bool = False
    shuffle: Shuffle | None = None
    conversion: Conversion = field(default_factory=Conversion)

    def rows_in(self, steps: range, share: Share) -> int | None:
        """How many rows these steps have together on every rank; None if that is not known yet."""
        complete = share.complete  # before the count, which may grow until then
        size = self.size * len(steps)
        rows = rows_from(
            steps.start * self.size, size, self.uneven, share.agreed, share.count, complete=complete
        )
        return rows if rows is None or not self.drop_last else rows - rows % self.size


class ShareDataset(IterableDataset[tuple[Any, ...]]):
    """The batches of one epoch, as tuples of tensors or lists.

    Attributes:
        epoch: the epoch, from 0.
        first: the first step of it.
    """

    def __init__(self, share: Share, batching: Batching) -> None:
        self.share = share
        self.batching = batching
        self.epoch = 0
        self.first = 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        worker = get_worker_info()
        number, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        size = self.batching.size
        reader = _EndlessReader(self.share, self.epoch, self.batching, self.first * size)
        step, most = self.first, 1 if workers > 1 else max(1, BLOCK // size)
        while rows := self.rows_from(step, most):
            if (step - self.first) % workers == number:
                yield from reader.batches(rows)
            else:
                reader.skip(rows)
            step += -(-rows // size)

    def rows_from(self, step: int, most: int = 1) -> int:
        """How many rows the next steps have on every rank: those that can be had now, or the next one.

        0 after the last step.
        """
        for steps in (most, 1):
            if rows := self.batching.rows_in(range(step, step + steps), self.share):
                return rows
        wait_for(lambda: self.batching.rows_in(range(step, step + 1), self.share) is not None)
        return self.batching.rows_in(range(step, step + 1), self.share) or 0


class _EndlessReader:
    """Rows of a share, and behind its end what the policy puts there."""

    def __init__(self, share: Share, epoch: int, batching: Batching, position: int) -> None:
        self._share = share
        self._epoch = epoch
        self._batching = batching
        self._pads = batching.uneven is Uneven.PAD
        if position and not self._pads and share.complete:
            position %= max(share.count, 1)
        self._reader = self._read_from(position)

    def batches(self, rows: int) -> Iterator[tuple[Any, ...]]:
        """So many rows as batches; under `pad` with which of them are rows of the share."""
        import torch

        own, others = self._take(rows)
        fields = self._fields(own, others)
        if self._pads:
            fields.append(torch.arange(rows) < rows - others)
        size = self._batching.size
        for start in range(0, rows, size):
            yield tuple([each[start : start + size] for each in fields])

    def skip(self, rows: int) -> None:
        """Pass over so many rows."""
        self._take(rows)

    def _read_from(self, position: int) -> RowReader:
        return RowReader(self._share, self._epoch, self._batching.shuffle, position)

    def _take(self, rows: int) -> tuple[list[pa.RecordBatch], int]:
        """So many rows of the share, and how many are missing that must be padded."""
        taken = self._reader.take(rows)
        missing = rows - sum(each.num_rows for each in taken)
        while missing and not self._pads:
            if not self._share.count:
                return [self._borrowed()] * missing, 0
            self._reader = self._read_from(0)
            taken += self._reader.take(missing)
            missing = rows - sum(each.num_rows for each in taken)
        return taken, missing

    def _fields(self, own: list[pa.RecordBatch], others: int) -> list[Any]:
        import pyarrow as pa

        table = pa.Table.from_batches(own or [self._borrowed()])
        made = [each.of(table, self._batching.conversion) for each in self._batching.fields]
        return [_padded(each if own else each[:0], others) for each in made] if others else made

    def _borrowed(self) -> pa.RecordBatch:
        example = self._share.example()
        if example is None:
            raise DataError(
                "this rank has no rows, and another's first row is too large to be borrowed",
                hint="give every rank rows: DataFrame.repartition",
            )
        return example


def _padded(column: Any, rows: int) -> Any:
    """A column and so many rows of nothing: zeros, or None."""
    import torch

    if isinstance(column, list):
        return column + [None] * rows
    return torch.cat([column, column.new_zeros((rows, *column.shape[1:]))])


class Place(NamedTuple):
    """A batch of an epoch, both from 0."""

    epoch: int
    batch: int


class ShareLoader(DataLoader[tuple[Any, ...]]):
    """Gives the batches of one epoch each time that it is iterated, as named tuples.

    It has no length, since the number of steps is known only once all rows were read; `count_steps` waits
    for that.
    """

    def __init__(self, dataset: ShareDataset, names: Collection[str], **options: Any) -> None:
        super().__init__(dataset, batch_size=None, **options)
        self._rows = dataset
        self._names = tuple(names)
        self._next = self._place = Place(0, 0)

    def __iter__(self) -> Any:
        batch_of: Any = namedtuple("Batch", list(self._names), rename=True)  # type: ignore[misc]  # known only here
        epoch, batch = self._next
        self._rows.epoch, self._rows.first = epoch, batch
        self._next = Place(epoch + 1, 0)
        for fields in super().__iter__():
            batch += 1
            self._place = Place(epoch, batch)
            yield batch_of(*fields)
        self._place = self._next

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch the next time; without it, with the one after the last."""
        self._next = self._place = Place(epoch, 0)

    def state_dict(self) -> dict[str, int]:
        """The place of the next batch, for a checkpoint."""
        return self._place._asdict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on at that place the next time."""
        self._next = self._place = Place(int(state["epoch"]), int(state["batch"]))

    def count_steps(self) -> int:
        """How many batches an epoch has, on every rank; waits until all rows that matter were read."""
        size, step = self._rows.batching.size, 0
        while rows := self._rows.rows_from(step, 1 << 40):
            step += -(-rows // size)
        return step


class LoaderOptions(TypedDict, total=False):
    """What every loader of a rank's rows can be told.

    Attributes:
        drop_last: whether a last batch of fewer rows is left out; it has the same size on all ranks.
        shuffle: whether rows are mixed, in another order in each epoch.
        seed: of the shuffle. The same seed gives the same batches again, also after a restart.
        shuffle_rows: how many rows are held in memory to be mixed; 65,536 by default.
        fill: what stands for nulls, by column.
        ragged: columns of arrays or images that become lists of tensors, because their sizes differ.
        dtype: the type of floating-point tensors; None for each column's own.
        num_workers: processes that prepare batches; 0 for none beside this one.
        prefetch_factor: how many batches each of them prepares ahead.
        pin_memory: whether batches are made in memory from which GPUs copy faster.
    """

    drop_last: bool
    shuffle: bool
    seed: int
    shuffle_rows: int
    fill: Mapping[str, Any] | None
    ragged: Collection[str]
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
        **options: see `LoaderOptions`.

    Raises:
        DataError: this is no rank of a run on a DataFrame, or there is no such column.
    """
    if not (given := os.environ.get(SHARE, "")):
        raise DataError(
            "this process has no rows of a DataFrame",
            hint="Distributor.run_on_dataframe(fn, df) gives them to the ranks that run fn",
        )
    path, _, number = given.rpartition(":")
    ledger = ShareLedger(path)
    with open(ledger.settings, "rb") as file:
        settings = json.load(file)
    schema = json.loads(settings["schema"])
    return make_loader(
        SpooledShare(ledger, int(number)),
        fields_of(
            settings.get("columns") if columns is None else columns,
            [each["name"] for each in schema["fields"]],
        ),
        kinds_of(schema),
        size=settings.get("batch_size") or DEFAULT_SIZE if batch_size is None else batch_size,
        uneven=uneven or settings.get("uneven") or Uneven.DROP,
        **options,
    )


def make_loader(
    share: Share,
    fields: Sequence[BatchField],
    kinds: Mapping[str, str],
    *,
    size: int,
    uneven: str,
    **options: Unpack[LoaderOptions],
) -> ShareLoader:
    """The loader of a share.

    Args:
        share: the rows.
        fields: the fields of a batch.
        kinds: the columns that are vectors or images.
        size: the rows of a batch.
        uneven: the policy.
        **options: see `LoaderOptions`.

    Raises:
        SpecError: a value is not allowed.
    """
    window = options.pop("shuffle_rows", 65_536)
    seed = options.pop("seed", 0)
    require_size("batch_size", size)
    require_size("shuffle_rows", window)
    dtype = options.pop("dtype", None)
    batching = Batching(
        tuple(fields),
        size,
        policy(uneven),
        options.pop("drop_last", False),
        Shuffle(seed, window) if options.pop("shuffle", False) else None,
        Conversion(
            kinds,
            options.pop("fill", None) or {},
            frozenset(options.pop("ragged", ())),
            str(dtype or "").removeprefix("torch."),
        ),
    )
    names = [each.name for each in fields] + [VALID] * (batching.uneven is Uneven.PAD)
    return ShareLoader(ShareDataset(share, batching), names, **options)
