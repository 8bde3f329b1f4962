"""The tracebacks of what failed in the console, each once, in a file that stays small."""

from __future__ import annotations

import os
import time
import traceback
from pathlib import Path

from launcher.runs import paths

_MOST_BYTES = 1 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def failure_log() -> Path:
    """Where it lies."""
    return paths.home() / "console.log"


class FailureLog:
    """Remembers what was written, so that what fails again and again is told once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told: dict[tuple[type[BaseException], str, int], bool] = {}

    def note(self, error: BaseException) -> tuple[bool, bool]:
        """Whether it is the first of its kind at its place, and whether its traceback could be written."""
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error), last.filename if last else "", (last.lineno or 0) if last else 0)
        fresh = kind not in self._told
        if fresh:
            self._told[kind] = self._write(error)
        return fresh, self._told[kind]

    def _write(self, error: BaseException) -> bool:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        text = f"{when} pid {os.getpid()}\n{''.join(traceback.format_exception(error))}\n"
        data = "".join(c if c.isprintable() or c == "\n" else "?" for c in text).encode(errors="replace")
        try:
            self.path.parent.mkdir(mode=paths.FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(self.path, _FLAGS, paths.FILE_MODE)
            try:
                if os.fstat(descriptor).st_size > _MOST_BYTES:
                    os.ftruncate(descriptor, 0)
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError:  # a disk that is full is no reason to fail a second time
            return False
        return True


def said_of(error: BaseException) -> str:
    """An exception in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
