"""Ranks that write: many lines, or everything that a terminal or a decoder could trip over."""

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LINES = 500_000
STREAMS = (1, 2)
LONG = 50_000_000


def line(rank: int, number: int) -> str:
    """100 bytes with the newline."""
    return f"{rank} {number:07d} ".ljust(99, ".") + "\n"


def torture(stream: int) -> Iterator[bytes]:
    """Pieces without a common encoding, line length or decency."""
    yield b"caf\xe9 \xff\xfe \xc3\n"
    yield b"nul \0 in the middle\n"
    yield b"\x1b[2J\x1b[H\x1b]0;owned\x07 screen cleared\n"
    yield b"\x9b31m c1 \x85 \xc2\x9b31m \xe2\x80\xae bidi\n"
    yield b"\r 10%\r 20%\r100% done\r\n"
    yield b"\n\n\t tab\n"
    yield b"x" * LONG + b"stream %d" % stream


def write_lines() -> None:
    rank = int(os.environ["RANK"])
    if "STAMPS" in os.environ:
        (Path(os.environ["STAMPS"]) / str(rank)).write_text(repr(time.time()))
    for number in range(LINES):
        sys.stdout.write(line(rank, number))


def write_torture() -> None:
    for stream in STREAMS:
        for piece in torture(stream):
            view = memoryview(piece)
            while view:
                view = view[os.write(stream, view) :]


if __name__ == "__main__":
    globals()[sys.argv[1]]()
