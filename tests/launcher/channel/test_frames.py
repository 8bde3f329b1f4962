"""Frames over any split of the bytes, and garbage that must end in `WireError` and nothing else."""

from __future__ import annotations

import itertools
import json
from collections.abc import Generator
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.channel import frames
from launcher.channel.frames import HEADER_SIZE, Decoder, Frame, Kind, WireError, document, encode

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect
FRAMES = st.lists(
    st.builds(
        Frame,
        st.sampled_from(list(Kind)),
        st.binary(max_size=40),
        st.integers(0, 2**32 - 1),
        st.integers(0, 255),
        st.integers(0, 2**64 - 1),
    ),
    max_size=8,
)


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@CALM
@given(FRAMES, st.lists(st.integers(0, 10_000), max_size=12))
def test_frames_come_out_whole_however_the_bytes_are_split(frames: list[Frame], cuts: list[int]) -> None:
    decoder = Decoder()
    pieces = split(b"".join(map(encode, frames)), cuts)
    assert frames == [frame for piece in pieces for frame in decoder.feed(piece)]
    assert 0 == decoder.unfinished


@CALM
@given(FRAMES.filter(bool), st.integers(1, 10_000))
def test_an_unfinished_frame_waits(frames: list[Frame], missing: int) -> None:
    data = b"".join(map(encode, frames))
    cut = len(data) - 1 - missing % len(encode(frames[-1]))
    decoder = Decoder()
    assert frames[:-1] == list(decoder.feed(data[:cut]))
    assert cut - len(b"".join(map(encode, frames[:-1]))) == decoder.unfinished
    assert frames[-1:] == list(decoder.feed(data[cut:]))


@CALM
@given(st.lists(st.binary(max_size=64), max_size=8))
def test_garbage_is_frames_or_a_wire_error_and_holds_no_memory(pieces: list[bytes]) -> None:
    decoder = Decoder(max_payload=100)
    try:
        for piece in pieces:
            for frame in decoder.feed(piece):
                assert len(frame.payload) <= 100
            assert decoder.unfinished < HEADER_SIZE + 100
    except WireError:
        pass


@CALM
@given(st.binary(max_size=200), FRAMES)
def test_bytes_fed_by_ones_say_the_same_as_at_once(garbage: bytes, frames: list[Frame]) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[Frame], str]:
        decoder, seen = Decoder(max_payload=50), list[Frame]()
        try:
            for piece in pieces:
                for frame in decoder.feed(piece):
                    seen.append(frame)
        except WireError as error:
            return seen, str(error)
        return seen, ""

    data = b"".join(map(encode, frames)) + garbage
    assert outcome([data]) == outcome([data[i : i + 1] for i in range(len(data))])


def test_a_reader_that_stops_after_one_frame_loses_none() -> None:
    frames = [Frame(Kind.FACT, b"a"), Frame(Kind.FACT, b"b"), Frame(Kind.FACT, b"c")]
    decoder = Decoder()
    feed = cast("Generator[Frame]", decoder.feed(b"".join(map(encode, frames))))
    assert frames[0] == next(feed)
    feed.close()
    assert frames[1:] == list(decoder.feed(b""))


@pytest.mark.parametrize("kind", [0, 5, 15, 31, 53, 254, 255])
def test_an_unknown_kind_is_refused_from_its_header_alone(kind: int) -> None:
    with pytest.raises(WireError, match=f"unknown kind of frame {kind}"):
        list(Decoder().feed(bytes([kind]) + bytes(HEADER_SIZE - 1)))


def test_an_oversized_frame_is_refused_from_its_header_alone() -> None:
    header = frames.header(Kind.OUTPUT, frames.MAX_PAYLOAD + 1)
    with pytest.raises(WireError, match="the limit is"):
        list(Decoder().feed(header))
    assert [] == list(Decoder().feed(frames.header(Kind.OUTPUT, frames.MAX_PAYLOAD)))


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"[]",
        b"3",
        b"null",
        b"\xff\xfe{}",
        b"\0",
        b'{"a":1}x',
        b"[" * 200_000,
        b"1" * 5000,
        b'{"a":' * 100_000,
    ],
    ids=lambda p: repr(p[:8]),
)
def test_a_document_that_is_none_is_a_wire_error(payload: bytes) -> None:
    with pytest.raises(WireError, match="FACT frame that is not"):
        Frame(Kind.FACT, payload).document()


JSON = st.dictionaries(st.text(max_size=6), st.none() | st.integers() | st.text(max_size=6), max_size=4)


@CALM
@given(JSON, st.integers(0, 2**32 - 1))
def test_documents_survive_the_trip(value: dict[str, object], rank: int) -> None:
    (frame,) = Decoder().feed(document(Kind.FACT, value, rank=rank))
    assert (value, rank, Kind.FACT) == (frame.document(), frame.rank, frame.kind)


def test_paths_that_are_no_utf_8_survive_the_trip() -> None:
    value = {"cwd": b"/w/\xff\xfe".decode("utf-8", "surrogateescape"), "lone": "\ud800"}
    (frame,) = Decoder().feed(document(Kind.START, value))
    assert value == frame.document()
    assert value == json.loads(frame.payload)
