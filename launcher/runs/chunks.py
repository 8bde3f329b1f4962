"""The order in which output arrived: one fixed-size record for each piece of bytes, for all ranks.

The bytes themselves are in one file a rank and stream, untouched. A record says only when a piece came,
whose it was and how long, so offsets follow by addition, and a merged view is a walk over the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

MAGIC = b"rankdeck chunks1"
_RECORD = struct.Struct("<QIIBxxxxxxx")
SIZE = _RECORD.size
LONGEST = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of one rank's output: arrival in nanoseconds since the epoch, and length in bytes."""

    time_ns: int
    rank: int
    length: int
    stream: int


def pack(chunk: Chunk) -> bytes:
    """The record of one piece."""
    return _RECORD.pack(chunk.time_ns, chunk.rank, chunk.length, chunk.stream)


def unpack(data: bytes) -> Iterator[Chunk]:
    """The pieces in whole records of `data`; a torn last record is left alone."""
    whole = len(data) - len(data) % SIZE
    for time_ns, rank, length, stream in _RECORD.iter_unpack(data[:whole]):
        yield Chunk(time_ns, rank, length, stream)


@dataclass(frozen=True, slots=True)
class Columns:
    """Many pieces: their times in nanoseconds, ranks, lengths in bytes and streams, in order."""

    times: tuple[int, ...]
    ranks: tuple[int, ...]
    lengths: tuple[int, ...]
    streams: tuple[int, ...]


def columns(data: bytes) -> Columns | None:
    """The pieces in whole records of `data`, by column, which is quick; None if there is none."""
    whole = len(data) - len(data) % SIZE
    if not whole:
        return None
    return Columns(*zip(*_RECORD.iter_unpack(data[:whole]), strict=True))
