"""Frames between an agent and its engine: encode and decode, no I/O.

A frame is a fixed header and a payload. Output and results travel as raw bytes in large pieces;
everything else is a JSON object; those frames are rare, so their cost does not matter.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

PROTOCOL = 2
MAX_PAYLOAD = 4 << 20
STDOUT, STDERR = 1, 2  # a rank's descriptors, as POSIX numbers them
_HEADER = struct.Struct("!BBxxIIQ")
HEADER_SIZE = _HEADER.size


class Kind(IntEnum):
    """The first group opens and keeps a channel, agents send the second, engines the third.

    With the fourth agents send files that ranks wrote, one after another. With the last an engine asks about
    a host on which no rank was started, and the agent answers.
    """

    READY = 1
    CHALLENGE = 2
    HELLO = 3
    BEAT = 4

    FACT = 16
    OUTPUT = 17
    RESULT_BEGIN = 18
    RESULT_DATA = 19
    RESULT_END = 20
    RESULT_ABORT = 21
    IDLE = 22
    REACHED = 23
    STACKED = 24
    LACKS = 25
    PREPARED = 26
    SWEEPING = 27
    SWEPT = 28
    HELD = 29
    SHARES = 30

    PAYLOAD = 32
    START = 33
    STOP = 34
    QUIT = 35
    REACH = 36
    BUNDLE = 37
    AGREED = 38
    STACKS = 39
    INQUIRE = 40
    PREPARE = 41
    CONTENT = 42
    SWEEP = 43
    REFUSE = 44
    HOLD = 45
    PROCEED = 46
    RELEASE = 47

    FILE_BEGIN = 48
    FILE_DATA = 49
    FILE_END = 50
    FILE_ABORT = 51
    FILES_GONE = 52

    CHECK = 64
    CHECKED = 65


class WireError(Exception):
    """The peer sent something that is not this protocol."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame; `time_ns` is the sender's clock and matters for output only."""

    kind: Kind
    payload: bytes = b""
    rank: int = 0
    stream: int = 0
    time_ns: int = 0

    def document(self) -> dict[str, Any]:
        """The payload as a JSON object.

        Raises:
            WireError: the payload is no JSON object.
        """
        try:
            value = json.loads(self.payload)
        except (ValueError, RecursionError) as error:
            raise WireError(f"a {self.kind.name} frame that is not JSON") from error
        if not isinstance(value, dict):
            raise WireError(f"a {self.kind.name} frame that is not an object")
        return value


def header(kind: Kind, length: int, *, rank: int = 0, stream: int = 0, time_ns: int = 0) -> bytes:
    """The header of a frame whose payload of `length` bytes is sent after it."""
    return _HEADER.pack(kind, stream, rank, length, time_ns)


def encode(frame: Frame) -> bytes:
    """A whole frame."""
    head = header(frame.kind, len(frame.payload), rank=frame.rank, stream=frame.stream, time_ns=frame.time_ns)
    return head + frame.payload


def document(kind: Kind, value: Mapping[str, Any], *, rank: int = 0) -> bytes:
    """A whole frame with a JSON object. Lone surrogates in paths and environments are preserved."""
    return encode(Frame(kind, json.dumps(value, separators=(",", ":")).encode(), rank))


class Decoder:
    """Bytes in, frames out; holds at most one unfinished frame.

    Attributes:
        max_payload: the size of the largest payload that is accepted; it may be changed between frames.
    """

    def __init__(self, max_payload: int = MAX_PAYLOAD) -> None:
        self._buffer = bytearray()
        self.max_payload = max_payload

    def feed(self, data: bytes) -> Iterator[Frame]:
        """The frames that `data` completes.

        Raises:
            WireError: unknown kind or oversized payload; the channel is then unusable.
        """
        self._buffer += data
        start = 0
        try:
            while len(self._buffer) - start >= HEADER_SIZE:
                kind, stream, rank, length, time_ns = _HEADER.unpack_from(self._buffer, start)
                self._check(kind, length)
                end = start + HEADER_SIZE + length
                if len(self._buffer) < end:
                    break
                payload = bytes(memoryview(self._buffer)[start + HEADER_SIZE : end])
                start = end
                yield Frame(Kind(kind), payload, rank, stream, time_ns)
        finally:
            del self._buffer[:start]

    @property
    def unfinished(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def _check(self, kind: int, length: int) -> None:
        if kind not in Kind._value2member_map_:
            raise WireError(f"unknown kind of frame {kind}")
        if length > self.max_payload:
            raise WireError(f"a frame of {length} bytes; the limit is {self.max_payload}")
