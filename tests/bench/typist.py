"""A person at a pseudo terminal: presses a key, sees the first byte, and waits until nothing more comes."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import termios
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self


@dataclass(frozen=True, slots=True)
class Answer:
    """What a key brought: seconds to its last byte, how many bytes, and seconds to the first of them."""

    settled: float
    size: int
    first: float = 0.0


class Typist:
    """A command in a terminal of `size`, lines and columns. Leaving the context kills it."""

    def __init__(
        self, command: Sequence[str], env: dict[str, str] | None = None, *, size: tuple[int, int] = (50, 160)
    ) -> None:
        self.begun = time.perf_counter()
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            try:
                termios.tcsetwinsize(0, size)
                told = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
                os.execvpe(command[0], list(command), {**os.environ, **told, **(env or {})})
            finally:
                os._exit(127)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)

    def until(self, text: str, within: float = 30.0) -> float:
        """Read up to a text; seconds since the command began."""
        seen, deadline = b"", time.monotonic() + within
        while text.encode() not in seen:
            assert time.monotonic() < deadline, seen[-2000:]
            seen += self._read(0.5)
        return time.perf_counter() - self.begun

    def settle(self, quiet: float = 0.5, within: float = 10.0) -> int:
        """Read until nothing has come for `quiet` seconds; how many bytes came."""
        size, deadline = 0, time.monotonic() + within
        while (piece := self._read(quiet)) and time.monotonic() < deadline:
            size += len(piece)
        return size

    def drain(self) -> None:
        """Read until the command ends, so that it never waits for its terminal."""
        with contextlib.suppress(OSError):  # as a terminal says that nobody is there any more
            while True:
                os.read(self._terminal, 1 << 16)

    def send(self, keys: str) -> None:
        """Press keys, and wait for nothing."""
        os.write(self._terminal, keys.encode())

    def press(self, key: str, quiet: float = 0.12) -> Answer:
        """Press a key, and wait for all of its answer."""
        pressed = first = last = time.perf_counter()
        os.write(self._terminal, key.encode())
        size = 0
        while piece := self._read(quiet if size else 2.0):
            last = time.perf_counter()
            first = first if size else last
            size += len(piece)
        return Answer(last - pressed, size, first - pressed)

    def _read(self, wait: float) -> bytes:
        ready, _, _ = select.select([self._terminal], [], [], wait)
        return os.read(self._terminal, 1 << 16) if ready else b""
