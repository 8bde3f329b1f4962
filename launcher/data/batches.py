"""The batches of a rank's rows, of which all ranks take the same number in an epoch.

```python
for epoch in range(3):
    for features, label in partition_batches(batch_size=1024):
        ...
```

They have arrays of numpy, for frameworks other than PyTorch, for which `launcher.data.loader` makes
DataLoaders of them.
"""

from __future__ import annotations

import json
import os
from collections import namedtuple
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict, Unpack

from .arrays import Conversion, DataError, kinds_of
from .layout import VALID, BatchField, Columns, fields_of
from .rows import RowReader, Share, Shuffle, SpooledShare, wait_for
from .shares import SHARE, ShareLedger
from .steps import Uneven, policy, require_size, rows_from

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import DTypeLike

    from .arrays import Column

DEFAULT_SIZE = 1024
BLOCK = 16_384  # rows that become arrays at once: a call for each column of each batch would cost more


@dataclass(frozen=True, slots=True)
class Batching:
    """How rows become batches.

    Attributes:
        fields: the fields of a batch.
        size: the rows of a batch.
        uneven: what happens where ranks have different numbers of rows.
        drop_last: whether a last batch of fewer rows is left out, on all ranks.
        shuffle: the order of the rows; None for that of the share.
        conversion: how columns become arrays.
        finish: what a framework makes of the array or list of many rows, which are then cut into batches.
    """

    fields: tuple[BatchField, ...]
    size: int
    uneven: Uneven
    drop_last: bool
    shuffle: Shuffle | None
    conversion: Conversion
    finish: Callable[[Any], Any]

    @property
    def names(self) -> list[str]:
        """The names of what a batch has."""
        return [each.name for each in self.fields] + [VALID] * (self.uneven is Uneven.PAD)

    def rows_in(self, steps: range, share: Share) -> int | None:
        """How many rows these steps have together on every rank; None if that is not known yet."""
        complete = share.complete  # before the count, which may grow until then
        size = self.size * len(steps)
        rows = rows_from(
            steps.start * self.size, size, self.uneven, share.agreed, share.count, complete=complete
        )
        return rows if rows is None or not self.drop_last else rows - rows % self.size

    def next_rows(self, share: Share, step: int, most: int = 1) -> int:
        """How many rows the next steps have on every rank: those that can be had now, or the next one.

        0 after the last step.
        """
        for steps in (most, 1):
            if rows := self.rows_in(range(step, step + steps), share):
                return rows
        wait_for(share, lambda: self.rows_in(range(step, step + 1), share) is not None)
        return self.rows_in(range(step, step + 1), share) or 0


class Place(NamedTuple):
    """A batch of an epoch, both from 0."""

    epoch: int
    batch: int


def batches_from(
    share: Share, batching: Batching, place: Place, *, number: int = 0, readers: int = 1
) -> Iterator[tuple[Any, ...]]:
    """The batches of an epoch from a place on.

    Args:
        share: the rows.
        batching: how they become batches.
        place: the first batch.
        number: which of the processes that read the epoch together this is.
        readers: how many there are; each gives every so many-th batch.
    """
    size = batching.size
    reader = _EndlessReader(share, place.epoch, batching, place.batch * size)
    step, most = place.batch, 1 if readers > 1 else max(1, BLOCK // size)
    while rows := batching.next_rows(share, step, most):
        if (step - place.batch) % readers == number:
            yield from reader.batches(rows)
        else:
            reader.skip(rows)
        step += -(-rows // size)


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
        import numpy as np

        own, others = self._take(rows)
        fields = self._fields(own, others)
        if self._pads:
            fields.append(np.arange(rows) < rows - others)
        finished = [self._batching.finish(each) for each in fields]
        size = self._batching.size
        for start in range(0, rows, size):
            yield tuple([each[start : start + size] for each in finished])

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


def _padded(column: Column, rows: int) -> Column:
    """A column and so many rows of nothing: zeros, or None."""
    import numpy as np

    if isinstance(column, list):
        return column + [None] * rows
    return np.concatenate([column, np.zeros((rows, *column.shape[1:]), column.dtype)])


class Epochs:
    """Gives the batches of one epoch each time that it is iterated, as named tuples.

    It has no length, since the number of steps is known only once all rows were read; `count_steps` waits
    for that.
    """

    def __init__(self, share: Share, batching: Batching) -> None:
        self._share = share
        self._batching = batching
        self._next = self._place = Place(0, 0)

    def __iter__(self) -> Any:
        batch_of: Any = namedtuple("Batch", self._batching.names, rename=True)  # type: ignore[misc]  # known only here
        epoch, batch = first = self._next
        self._next = Place(epoch + 1, 0)
        for fields in self._batches(first):
            batch += 1
            self._place = Place(epoch, batch)
            yield batch_of(*fields)
        self._place = self._next

    def _batches(self, place: Place) -> Iterator[tuple[Any, ...]]:
        return batches_from(self._share, self._batching, place)

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
        size, step = self._batching.size, 0
        while rows := self._batching.next_rows(self._share, step, 1 << 40):
            step += -(-rows // size)
        return step


class RowOptions(TypedDict, total=False):
    """What is said of a rank's rows, whatever reads them.

    Attributes:
        drop_last: whether a last batch of fewer rows is left out; it has the same size on all ranks.
        shuffle: whether rows are mixed, in another order in each epoch.
        seed: of the shuffle. The same seed gives the same batches again, also after a restart.
        shuffle_rows: how many rows are held in memory to be mixed; 65,536 by default.
        fill: what stands for nulls, by column.
        ragged: columns of arrays or images that become lists, because their sizes differ.
    """

    drop_last: bool
    shuffle: bool
    seed: int
    shuffle_rows: int
    fill: Mapping[str, Any] | None
    ragged: Collection[str]


class RankRows(NamedTuple):
    """A rank's rows, and what the run says of their batches.

    Attributes:
        share: the rows.
        fields: the fields of a batch.
        kinds: the columns that are vectors or images.
        size: the rows of a batch.
        uneven: the policy.
    """

    share: Share
    fields: Sequence[BatchField]
    kinds: Mapping[str, str]
    size: int
    uneven: str


def partition_rows(batch_size: int | None, columns: Columns | None, uneven: str | None) -> RankRows:
    """This rank's rows of the DataFrame that the run was given; None is for what `run_on_dataframe` was told.

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
    return RankRows(
        SpooledShare(ledger, int(number)),
        fields_of(
            settings.get("columns") if columns is None else columns,
            [each["name"] for each in schema["fields"]],
        ),
        kinds_of(schema),
        settings.get("batch_size") or DEFAULT_SIZE if batch_size is None else batch_size,
        uneven or settings.get("uneven", Uneven.DROP),
    )


def make_batching(rows: RankRows, finish: Callable[[Column], Any], **options: Unpack[RowOptions]) -> Batching:
    """How a rank's rows become batches.

    Raises:
        SpecError: a value is not allowed.
    """
    window = options.get("shuffle_rows", 65_536)
    require_size("batch_size", rows.size)
    require_size("shuffle_rows", window)
    return Batching(
        tuple(rows.fields),
        rows.size,
        policy(rows.uneven),
        options.get("drop_last", False),
        Shuffle(options.get("seed", 0), window) if options.get("shuffle") else None,
        Conversion(rows.kinds, options.get("fill") or {}, frozenset(options.get("ragged", ()))),
        finish,
    )


def partition_batches(
    batch_size: int | None = None,
    *,
    columns: Columns | None = None,
    uneven: str | None = None,
    dtype: DTypeLike | None = None,
    **options: Unpack[RowOptions],
) -> Epochs:
    """As `partition_loader`, with arrays of numpy in place of tensors; PyTorch need not be installed.

    Args:
        batch_size: the rows of a batch; by default as `run_on_dataframe` was told, else 1,024.
        columns: the columns wanted, as for `partition_loader`.
        uneven: what happens where ranks have different numbers of rows, as for `partition_loader`.
        dtype: the type of floating-point arrays, such as "float32"; None for each column's own.
        **options: see `RowOptions`.

    Raises:
        DataError: this is no rank of a run on a DataFrame, or there is no such column.
    """
    return make_batches(partition_rows(batch_size, columns, uneven), dtype, **options)


def make_batches(rows: RankRows, dtype: DTypeLike | None, **options: Unpack[RowOptions]) -> Epochs:
    """A rank's rows in batches of arrays.

    Raises:
        SpecError: a value is not allowed.
    """
    return Epochs(rows.share, make_batching(rows, partial(_with_dtype, dtype=dtype), **options))


def _with_dtype(column: Column, dtype: DTypeLike | None) -> Column:
    if dtype is None or isinstance(column, list) or column.dtype.kind != "f":
        return column
    return column.astype(dtype, copy=False)
