"""The order in which output arrived: one fixed-size record for each piece of bytes, for all ranks.

The bytes themselves are in one file a rank and stream, untouched. A record says only when a piece came,
whose it was and how long, so offsets follow by addition, and a merged view is a walk over the records.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from launcher.codec import LATEST
from launcher.worker import outputs

MAGIC = b"rankdeck chunks1"
_RECORD = struct.Struct("<QIIBxxxxxxx")
SIZE = _RECORD.size
LONGEST = (1 << 32) - 1
MOST_RANK = (1 << 20) - 1
_LATEST_NS = int(LATEST * 1e9)
_STREAMS = frozenset((outputs.STDOUT, outputs.STDERR))


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
    """The pieces in whole records of `data`, without a torn last one, and without what nobody wrote so."""
    if (found := columns(data)) is not None:
        wrong = frozenset(found.wrong)
        rows = zip(found.times, found.ranks, found.lengths, found.streams, strict=True)
        yield from (Chunk(*row) for i, row in enumerate(rows) if i not in wrong)


@dataclass(frozen=True, slots=True)
class Columns:
    """Many pieces: their times in nanoseconds, ranks, lengths in bytes and streams, in order.

    `wrong` are the places of records that nobody wrote so; a piece without bytes stands for each.
    """

    times: tuple[int, ...]
    ranks: tuple[int, ...]
    lengths: tuple[int, ...]
    streams: tuple[int, ...]
    wrong: tuple[int, ...] = ()


def columns(data: bytes) -> Columns | None:
    """The pieces in whole records of `data`, by column, which is quick; None if there is none."""
    whole = len(data) - len(data) % SIZE
    if not whole:
        return None
    times, ranks, lengths, streams = zip(*_RECORD.iter_unpack(data[:whole]), strict=True)
    if max(ranks) <= MOST_RANK and _STREAMS.issuperset(streams) and max(times) <= _LATEST_NS:
        return Columns(times, ranks, lengths, streams)
    rows = zip(times, ranks, lengths, streams, strict=True)
    right = [t <= _LATEST_NS and r <= MOST_RANK and s in _STREAMS for t, r, _, s in rows]
    return Columns(
        tuple(t if ok else 0 for t, ok in zip(times, right, strict=True)),
        tuple(r if ok else 0 for r, ok in zip(ranks, right, strict=True)),
        tuple(n if ok else 0 for n, ok in zip(lengths, right, strict=True)),
        tuple(s if ok else outputs.STDOUT for s, ok in zip(streams, right, strict=True)),
        tuple(i for i, ok in enumerate(right) if not ok),
    )
