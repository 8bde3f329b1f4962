"""The rows of each rank: spooled by the task that has them, while the rank already reads.

A task of Spark deals the rows of its partition to its ranks (`ShareWriter`). Each rank's share is an Arrow
stream, with an index of where each of its batches begins. The ledger, a piece of shared memory, says how far
both are written, and what the ranks of all tasks have so far. None of the files has a name on the disk: they
belong to the task's process, so that nothing is left of them however it ends.

The task is not the only one to open a ledger: its agent keeps the part on all ranks, and its ranks read. This
module needs nothing of this package, and pyarrow only to write, since a task runs its source as it is.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

MAX_SHARES = 128
EXAMPLE_LIMIT = 256 << 10
SHARE = "RANKDECK_SHARE"  # a rank's variable: the path of its task's ledger, and the number of its share
PLACE = struct.Struct("<QQ")  # in an index: where a batch begins, and how many rows there are to its end
_NAME = b"rdshare2"
_WORD = struct.Struct("<Q")
_SHARES_AT, _SHARE_SIZE = 128, 40
_EXAMPLE_AT = _SHARES_AT + MAX_SHARES * _SHARE_SIZE
_SIZE = _EXAMPLE_AT + EXAMPLE_LIMIT
# the words of a ledger, and those of each share in it
_COUNT, _SETTINGS, _COMPLETE, _LEAST, _LEAST_FINAL, _MOST, _MOST_FINAL, _OWN_EXAMPLE, _EXAMPLE = range(
    8, 80, 8
)
_ROWS, _BATCHES, _DATA, _INDEX, _LOOKED = range(0, 40, 8)


@dataclass(frozen=True, slots=True)
class Agreed:
    """What the shares of all ranks have in common, as far as it is known.

    Attributes:
        least: each rank has at least so many rows.
        least_final: whether some rank has no more than that, so that it will not grow.
        most: some rank has so many rows.
        most_final: whether no rank will have more.
    """

    least: int = 0
    least_final: bool = False
    most: int = 0
    most_final: bool = False


class ShareLedger:
    """The shared memory. Its numbers only grow, and each is one aligned word: nobody needs a lock.

    Raises:
        OSError: there is no such file (its task has ended), or it is none of ours.
    """

    def __init__(self, path: str) -> None:
        with open(path, "r+b") as file:
            if os.fstat(file.fileno()).st_size != _SIZE:
                raise OSError(f"{path} is no ledger of shares")
            self._memory = mmap.mmap(file.fileno(), _SIZE)
        if self._memory[:8] != _NAME:
            raise OSError(f"{path} is no ledger of shares")
        self._folder = os.path.dirname(path)

    @classmethod
    def make(cls, descriptor: int, settings: int, shares: Iterable[tuple[int, int]]) -> ShareLedger:
        """Begin a ledger in an empty file.

        Args:
            descriptor: that of the file.
            settings: that of the file with the settings.
            shares: those of the data and the index of each share.
        """
        os.truncate(descriptor, _SIZE)
        os.pwrite(descriptor, _NAME, 0)
        made = cls(descriptor_path(descriptor))
        made._put(_SETTINGS, settings)
        for share, (data, index) in enumerate(shares):
            made._put(_at(share) + _DATA, data)
            made._put(_at(share) + _INDEX, index)
            made._put(_COUNT, share + 1)
        return made

    def close(self) -> None:
        """Let go of the memory; it is there for others."""
        self._memory.close()

    # --- the task's part -----------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """How many shares the task has."""
        return self._get(_COUNT)

    @property
    def complete(self) -> bool:
        """Whether the task has dealt all its rows."""
        return bool(self._get(_COMPLETE))

    @property
    def settings(self) -> str:
        """The path of the settings."""
        return self._path(_SETTINGS)

    def data(self, share: int) -> str:
        """The path of a share's rows."""
        return self._path(_at(share) + _DATA)

    def index(self, share: int) -> str:
        """The path of a share's index."""
        return self._path(_at(share) + _INDEX)

    def rows(self, share: int) -> int:
        """How many rows of a share can be read."""
        return self._get(_at(share) + _ROWS)

    def batches(self, share: int) -> int:
        """How many of a share's batches can be read."""
        return self._get(_at(share) + _BATCHES)

    def add(self, share: int, rows: int) -> None:
        """Make one more batch known, after it was written."""
        start = _at(share)
        self._put(start + _BATCHES, self._get(start + _BATCHES) + 1)
        self._put(start + _ROWS, self._get(start + _ROWS) + rows)

    def set_complete(self) -> None:
        """Say that no more rows will come."""
        self._put(_COMPLETE, 1)

    # --- the ranks' part -----------------------------------------------------------------------------

    def looked(self, share: int) -> float:
        """When a reader of a share last looked in vain for rows, by the monotonic clock; 0 for never."""
        return self._get(_at(share) + _LOOKED) / 1000

    def set_looked(self, share: int, now: float) -> None:
        """Say that a reader of a share looks in vain for rows."""
        self._put(_at(share) + _LOOKED, int(now * 1000))

    # --- what all ranks have -------------------------------------------------------------------------

    @property
    def agreed(self) -> Agreed:
        """What is known of all ranks' shares. What is final is read first, since it is written last."""
        least_final, most_final = bool(self._get(_LEAST_FINAL)), bool(self._get(_MOST_FINAL))
        return Agreed(self._get(_LEAST), least_final, self._get(_MOST), most_final)

    def agree(self, agreed: Agreed) -> None:
        """Write what is known."""
        self._put(_LEAST, agreed.least)
        self._put(_MOST, agreed.most)
        self._put(_LEAST_FINAL, agreed.least_final)
        self._put(_MOST_FINAL, agreed.most_final)

    # --- an example of a row, for ranks that have none -----------------------------------------------

    @property
    def own_example(self) -> bytes:
        """The task's first row as an Arrow stream; empty if it has none yet, or a very large one."""
        return self._read_example(_OWN_EXAMPLE)

    @property
    def example(self) -> bytes:
        """Another task's first row, where this task has none."""
        return self._read_example(_EXAMPLE)

    def set_own_example(self, row: bytes) -> None:
        """Write the task's first row."""
        self._write_example(_OWN_EXAMPLE, row)

    def set_example(self, row: bytes) -> None:
        """Write another task's first row; a task that has rows needs none."""
        if not self._get(_OWN_EXAMPLE):
            self._write_example(_EXAMPLE, row)

    def _read_example(self, word: int) -> bytes:
        return self._memory[_EXAMPLE_AT : _EXAMPLE_AT + self._get(word)]

    def _write_example(self, word: int, row: bytes) -> None:
        if len(row) <= EXAMPLE_LIMIT:
            self._memory[_EXAMPLE_AT : _EXAMPLE_AT + len(row)] = row
            self._put(word, len(row))

    def _path(self, word: int) -> str:
        return f"{self._folder}/{self._get(word)}"

    def _get(self, offset: int) -> int:
        number: int = _WORD.unpack_from(self._memory, offset)[0]
        return number

    def _put(self, offset: int, number: int) -> None:
        _WORD.pack_into(self._memory, offset, number)


def _at(share: int) -> int:
    return _SHARES_AT + share * _SHARE_SIZE


def descriptor_path(descriptor: int) -> str:
    """A path by which other processes of this user open a file of this process."""
    return f"/proc/{os.getpid()}/fd/{descriptor}"


def dealt(total: int, rows: int, shares: int) -> list[int]:
    """How many of the next `rows` rows each share gets, after `total` rows; no share is ever two ahead."""

    def held(share: int, of: int) -> int:
        return (of + shares - 1 - share) // shares

    return [held(share, total + rows) - held(share, total) for share in range(shares)]


class ShareWriter:
    """Deals the rows of a task's partition to its ranks. Use it as a context manager: its end frees the disk.

    Args:
        folder: where the files lie, without names.
        shares: how many ranks the task has.
        settings: what ranks must know of the data.
    """

    def __init__(self, folder: str, shares: int, settings: bytes) -> None:
        if not 1 <= shares <= MAX_SHARES:
            raise ValueError(f"a task deals its rows to 1 to {MAX_SHARES} ranks, not {shares}")
        self._shares = [_ShareFile(folder) for _ in range(shares)]
        self._settings = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed at the end
        self._settings.write(settings)
        self._memory = os.memfd_create("rankdeck-shares")
        descriptors = [share.descriptors for share in self._shares]
        self.ledger = ShareLedger.make(self._memory, self._settings.fileno(), descriptors)
        self.total = 0

    def __enter__(self) -> ShareWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.ledger.close()
        os.close(self._memory)
        self._settings.close()
        for share in self._shares:
            share.close()

    @property
    def path(self) -> str:
        """The path of the ledger."""
        return descriptor_path(self._memory)

    def write(self, batch: Any) -> None:
        """Deal the rows of a record batch.

        Raises:
            OSError: the disk is full.
        """
        if not self.total and batch.num_rows:
            self.ledger.set_own_example(_stream_of(batch.slice(0, 1)))
        start = 0
        for share, rows in enumerate(dealt(self.total, batch.num_rows, len(self._shares))):
            if rows:
                self._shares[share].write(batch.slice(start, rows))
                self.ledger.add(share, rows)
                start += rows
        self.total += batch.num_rows

    def finish(self) -> None:
        """End every share: no more rows will come."""
        for share in self._shares:
            share.finish()
        self.ledger.set_complete()


class _ShareFile:
    """The rows of one rank, and their index."""

    def __init__(self, folder: str) -> None:
        self._data = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115  closed by `close`
        self._index = tempfile.TemporaryFile(dir=folder, buffering=0)  # noqa: SIM115
        self._sink: Any = None
        self._writer: Any = None
        self._rows = 0

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._data.fileno(), self._index.fileno()

    def write(self, batch: Any) -> None:
        """Write a record batch, and its place in the index."""
        import pyarrow as pa

        if self._writer is None:
            self._sink = pa.OSFile(descriptor_path(self._data.fileno()), "wb")  # writes without Python's lock
            self._writer = pa.ipc.new_stream(self._sink, batch.schema)
        place = self._sink.tell()
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        self._index.write(PLACE.pack(place, self._rows))

    def finish(self) -> None:
        """Write the end of the stream."""
        if self._writer is not None:
            self._writer.close()

    def close(self) -> None:
        """Free the disk."""
        if self._sink is not None:
            self._sink.close()
        self._data.close()
        self._index.close()


def _stream_of(batch: Any) -> bytes:
    """A record batch as an Arrow stream of its own."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data: bytes = sink.getvalue().to_pybytes()
    return data
