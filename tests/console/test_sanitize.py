from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.runs.logs.text import plain, shown

COLOUR = re.compile(r"\x1b\[[0-9;:]*m")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"a\x00b", "ab"),
        (b"caf\xc3\xa9 \xff", "café �"),
        (b"a\tb", "a       b"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"\x1b[2Jgone\x1b[10;10H", "gone"),
        (b"\x1b]0;title\x07text", "text"),
        (b"\x1b]52;c;aGVsbG8=\x1b\\text", "text"),
        (b"\x1b]8;;unterminated", ""),
        (b"\x1bPdevice\x1b\\x", "x"),
        (b"\x1b\x00[2Jx", "x"),
        ("\x9b2Jx".encode(), "2Jx"),
        ("\u202eright\u2066".encode(), "right"),
        (b"10%\r50%\r100%", "100%"),
        (b"100%\r", "100%"),
        (b"windows\r\r", "windows"),
        (b"\x1b[3\x1b[2J1mx", "31mx"),
    ],
)
def test_only_text_and_colours_are_shown(data: bytes, text: str) -> None:
    assert shown(data) == text


def test_a_search_looks_at_text_without_colours() -> None:
    assert plain(b"\x1b[1mlo\x1b[0mss") == "loss"


@given(st.binary(max_size=60) | st.text("\x1b\x9b[]P0;mJ\x07\\\r\x00x", max_size=30).map(str.encode))
def test_no_bytes_whatever_reach_the_terminal_as_a_command(data: bytes) -> None:
    rest = COLOUR.sub("", shown(data))

    assert "\x1b" not in rest
    assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in rest)
