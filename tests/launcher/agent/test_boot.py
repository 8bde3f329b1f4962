from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator

import pytest

from launcher.agent import boot
from launcher.agent.boot import Boot, read_boot
from launcher.channel.connecting import Endpoint
from launcher.serialization import to_plain
from launcher.spec.places import Device

BOOT = Boot(
    agent=3,
    token="t",
    endpoints=(Endpoint("::1", 4000), Endpoint("b", 5)),
    credentials={"key": "k\n"},
    lost_after_s=20.0,
    lifeline=True,
    devices=(Device(0, "u", "n", 1 << 40),),
    gpus=("0", "1"),
)
LINE = json.dumps(to_plain(BOOT)).encode() + b"\n"

Said = Callable[[bytes], int]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Iterator[Said]:
    """Puts bytes on what is standard input to the code under test; its descriptor, whose other end closes."""
    opened: list[int] = []

    def put(data: bytes) -> int:
        reader, writer = os.pipe()
        opened.append(reader)
        thread = threading.Thread(target=_write, args=(writer, data))
        thread.start()
        monkeypatch.setattr(boot, "STDIN", reader)
        threads.append(thread)
        return reader

    threads: list[threading.Thread] = []
    yield put
    for descriptor in opened:
        os.close(descriptor)
    for thread in threads:
        thread.join()


def _write(descriptor: int, data: bytes) -> None:
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
    except BrokenPipeError:
        pass


def test_what_was_written_is_read(said: Said) -> None:
    said(LINE)

    assert read_boot() == BOOT


@pytest.mark.parametrize("more", [b"", b"x", b'["an answer"]\n' * 3])
def test_not_a_byte_after_the_line_is_taken(said: Said, more: bytes) -> None:
    descriptor = said(LINE + more)
    read_boot()

    rest = b""
    while piece := os.read(descriptor, 100):
        rest += piece
    assert rest == more


def test_a_large_line_is_read_whole(said: Said) -> None:
    large = {**to_plain(BOOT), "credentials": {"key": "k" * 200_000}}
    said(json.dumps(large).encode() + b"\n")

    assert len(read_boot().credentials["key"]) == 200_000


def test_a_line_without_end_is_not_read_for_ever(said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "_LIMIT", 1000)
    said(b"x" * 5000)

    with pytest.raises(ValueError, match="no boot line"):
        read_boot()


@pytest.mark.parametrize("data", [b"", LINE[:-1], LINE[:50]])
def test_a_line_that_breaks_off_is_none(said: Said, data: bytes) -> None:
    said(data)

    with pytest.raises(ValueError, match="no boot line"):
        read_boot()


@pytest.mark.parametrize(
    "data", [b"\n", b"{\n", b"null\n", b"[]\n", b'"text"\n', b"{}\n", b"\xff\n", b'{"agent": 1}\n']
)
def test_a_line_that_says_something_else_is_refused(said: Said, data: bytes) -> None:
    said(data)

    with pytest.raises((ValueError, TypeError)):
        read_boot()


def test_what_a_newer_engine_adds_is_passed_over(said: Said) -> None:
    said(json.dumps({**to_plain(BOOT), "new": [1]}).encode() + b"\n")

    assert read_boot() == BOOT


def test_secrets_are_not_shown() -> None:
    assert "k\n" not in repr(BOOT)
    assert "credentials" not in repr(BOOT)
