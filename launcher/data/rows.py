"""The rows of one rank as record batches: from any row on, in the order of an epoch."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from .shares import PLACE, Agreed, ShareLedger

if TYPE_CHECKING:
    import pyarrow as pa

# A rank that waits for rows looks at the ledger: a page of memory has nothing to wake it by.
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.0005, 0.02


def wait_for(share: Share, is_so: Callable[[], bool]) -> None:
    """Wait until something of a share is so. The agent ends a rank whose task is gone."""
    pause_s = _FIRST_WAIT_S
    while not is_so():
        share.note_wait()
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_WAIT_S)


class Share(Protocol):
    """A rank's rows in pieces, of which more may come."""

    @property
    def agreed(self) -> Agreed:
        """What is known of the rows of all ranks."""

    @property
    def complete(self) -> bool:
        """Whether all pieces are known."""

    @property
    def pieces(self) -> int:
        """How many pieces are known."""

    @property
    def count(self) -> int:
        """How many rows the known pieces have."""

    def rows(self, piece: int) -> int:
        """How many rows a known piece has."""

    def read(self, piece: int) -> Iterator[pa.RecordBatch]:
        """The rows of a known piece."""

    def example(self) -> pa.RecordBatch | None:
        """Another rank's row, for a rank that has none; None if there is none, or it is too large."""

    def note_wait(self) -> None:
        """Say, now and then, that its reader waits."""


class SpooledShare:
    """The share that this rank's task spools.

    Args:
        ledger: the task's.
        number: which of the task's shares it is.
    """

    def __init__(self, ledger: ShareLedger, number: int) -> None:
        self._ledger = ledger
        self._number = number
        self._places: list[tuple[int, int]] = []
        self._schema: pa.Schema | None = None
        self._first = 0

    @property
    def agreed(self) -> Agreed:
        """What is known of the rows of all ranks."""
        return self._ledger.agreed

    @property
    def complete(self) -> bool:
        """Whether the task has dealt all its rows."""
        return self._ledger.complete

    @property
    def pieces(self) -> int:
        """How many record batches were spooled."""
        return self._ledger.batches(self._number)

    @property
    def count(self) -> int:
        """How many rows were spooled."""
        return self._ledger.rows(self._number)

    def rows(self, piece: int) -> int:
        """How many rows a record batch has."""
        begin = self._place(piece - 1)[1] if piece else 0
        return self._place(piece)[1] - begin

    def read(self, piece: int) -> Iterator[pa.RecordBatch]:
        """The record batch."""
        import pyarrow as pa

        with pa.OSFile(self._ledger.data(self._number), "rb") as file:
            if self._schema is None:
                self._schema = pa.ipc.read_schema(pa.ipc.read_message(file))
                self._first = file.tell()  # the first batch begins behind the schema
            file.seek(self._place(piece)[0] if piece else self._first)
            yield pa.ipc.read_record_batch(pa.ipc.read_message(file), self._schema)

    def example(self) -> pa.RecordBatch | None:
        """The first row of the task, or of another one."""
        import pyarrow as pa

        data = self._ledger.own_example or self._ledger.example
        return pa.ipc.open_stream(data).read_next_batch() if data else None

    def note_wait(self) -> None:
        """Let the agent know that this rank waits."""
        self._ledger.set_looked(self._number, time.monotonic())

    def _place(self, piece: int) -> tuple[int, int]:
        """Where a record batch begins, and how many rows there are to its end."""
        if piece >= len(self._places):
            with open(self._ledger.index(self._number), "rb", buffering=0) as file:
                data = os.pread(file.fileno(), self.pieces * PLACE.size, 0)
            self._places = list(PLACE.iter_unpack(data))
        return self._places[piece]


@dataclass(frozen=True, slots=True)
class Shuffle:
    """An order that a seed and an epoch make: of the pieces, and of the rows within windows.

    Attributes:
        seed: the same gives the same order.
        window: how many rows are held in memory to be mixed.
    """

    seed: int
    window: int

    def order(self, epoch: int, pieces: int) -> list[int] | None:
        """The order of the pieces. In the first epoch they come as they are spooled."""
        return self._permutation(pieces, epoch).tolist() if epoch else None

    def mixed(self, epoch: int, number: int, rows: int) -> Any:
        """The order of the rows in the window with this number, as an array."""
        return self._permutation(rows, epoch, number + 1)

    def _permutation(self, count: int, *of: int) -> Any:
        import numpy as np

        return np.random.default_rng([self.seed, *of]).permutation(count)


class RowReader:
    """Takes rows of a share one after another; other processes may skip what they do not need.

    Args:
        share: whose rows.
        epoch: the epoch, which matters to a shuffle.
        shuffle: the order; None for that of the share.
        position: the first row, counted in that order.
    """

    def __init__(self, share: Share, epoch: int, shuffle: Shuffle | None, position: int = 0) -> None:
        self._batches = _in_order(share, epoch, shuffle, position)
        self._left: pa.RecordBatch | None = None

    def take(self, count: int) -> list[pa.RecordBatch]:
        """The next rows, fewer at the end of the share."""
        taken = []
        while count and (batch := self._next()) is not None:
            taken.append(batch.slice(0, count))
            count -= taken[-1].num_rows
            self._left = batch.slice(taken[-1].num_rows)
        return taken

    def skip(self, count: int) -> None:
        """Pass over the next rows."""
        self.take(count)

    def _next(self) -> pa.RecordBatch | None:
        while self._left is None or not self._left.num_rows:
            self._left = next(self._batches, None)
            if self._left is None:
                return None
        return self._left


def _in_order(share: Share, epoch: int, shuffle: Shuffle | None, position: int) -> Iterator[pa.RecordBatch]:
    if shuffle is None:
        yield from _from(share, itertools.count(), position)
        return
    wait_for(share, lambda: not epoch or share.complete)
    order = shuffle.order(epoch, share.pieces)
    first, inside = divmod(position, shuffle.window)
    batches = _from(share, itertools.count() if order is None else iter(order), first * shuffle.window)
    for number, window in enumerate(_windows(batches, shuffle.window), start=first):
        mixed = window.take(shuffle.mixed(epoch, number, window.num_rows)[inside:])
        yield from mixed.to_batches()
        inside = 0


def _from(share: Share, pieces: Iterator[int], position: int) -> Iterator[pa.RecordBatch]:
    """The rows of pieces in a given order, without the first `position` of them."""
    for piece in pieces:
        wait_for(share, partial(_is_told, share, piece))
        if piece >= share.pieces:
            return
        if position >= (rows := share.rows(piece)):
            position -= rows
            continue
        for batch in share.read(piece):
            if position < batch.num_rows:
                yield batch.slice(position)
            position = max(0, position - batch.num_rows)


def _is_told(share: Share, piece: int) -> bool:
    """Whether the share has this piece, or will never have it."""
    return share.complete or piece < share.pieces


def _windows(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Tables of so many rows, the last one of fewer."""
    import pyarrow as pa

    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        while sum(each.num_rows for each in held) >= rows:
            table = pa.Table.from_batches(held)
            yield table.slice(0, rows)
            held = table.slice(rows).to_batches()
    if held:
        yield pa.Table.from_batches(held)
