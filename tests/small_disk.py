"""A real file system of a few megabytes, to be filled to the last byte."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """Mount one at `place`; skips the test where that is not allowed."""
    place.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", os.fspath(place)]
    try:
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"a file system cannot be mounted here: {done.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", os.fspath(place)], check=True)


def fill(disk: Path, *, leave: int = 0) -> Path:
    """Take all the room there is but `leave` bytes; the file that takes it."""
    filler = disk / "filler"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    try:
        for piece in (1 << 16, 4096, 1):
            _append_until_full(descriptor, b"x" * piece)
        if leave:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size - leave)
    finally:
        os.close(descriptor)
    return filler


def _append_until_full(descriptor: int, piece: bytes) -> None:
    try:
        while True:
            os.write(descriptor, piece)
    except OSError:
        return
