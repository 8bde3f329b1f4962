"""Running the installed command as a person or a shell does."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from launcher.runs.catalog import find_run, run_ids
from launcher.runs.paths import runs_root
from launcher.runs.reader import FactTail
from launcher.state import events as ev

COMMAND = os.fspath(Path(sys.executable).with_name("rankdeck"))
LIMIT_S = 60.0


def rankdeck(
    *words: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    return subprocess.run(
        [COMMAND, *map(str, words)],
        capture_output=True,
        text=True,
        errors="surrogateescape",
        timeout=LIMIT_S,
        stdin=subprocess.DEVNULL,
        cwd=cwd,
        env={**os.environ, **(env or {})},
        check=False,
    )


def runs() -> list[str]:
    return run_ids(runs_root())


def last() -> Path:
    return find_run(runs_root(), "last")


def facts(kind: type[ev.Event] = ev.Event) -> list[ev.Event]:
    return [e for e in FactTail(last()).poll() if isinstance(e, kind)]


def until(condition: Callable[[], bool], within: float = LIMIT_S) -> None:
    """Poll what has no event to wait for; fails after `within` seconds."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it never came true"
        time.sleep(0.01)  # not a wait for time to pass: the condition is what counts


class Gate:
    """Named pipes, one a rank, at which ranks wait by reading them until the test opens all."""

    def __init__(self, path: Path, ranks: int = 1) -> None:
        self.path = path
        self._pipes = [Path(f"{path}.{rank}") for rank in range(ranks)]
        for pipe in self._pipes:
            os.mkfifo(pipe)

    def open(self) -> None:
        for rank in range(len(self._pipes)):
            self.open_one(rank)

    def open_one(self, rank: int) -> None:
        until(lambda: _written(self._pipes[rank]))


def _written(pipe: Path) -> bool:
    """Write to a pipe if somebody reads it; whether somebody does."""
    try:
        os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        return False
    return True


class Foreground:
    """The command while it runs. Leaving the context kills what is left of it."""

    def __init__(self, *words: str | Path, folder: Path, env: Mapping[str, str] | None = None) -> None:
        self._errors = folder / "stderr.txt"
        with open(self._errors, "wb") as errors:
            self.process = subprocess.Popen(
                [COMMAND, *map(str, words)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, **(env or {})},
            )
        self.printed: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()

    @property
    def narrated(self) -> str:
        return self._errors.read_text()

    def await_line(self, text: str) -> str:
        """Read standard output up to a line that holds `text`."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.printed.append(line.rstrip("\n"))
            if text in line:
                return self.printed[-1]
        raise AssertionError(f"it ended before {text!r}: {self.printed} {self.narrated}")

    def await_narration(self, text: str) -> None:
        until(lambda: text in self.narrated)

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def finish(self) -> int:
        """Wait for the end; the exit code."""
        assert self.process.stdout is not None
        self.printed += self.process.stdout.read().splitlines()
        return self.process.wait(LIMIT_S)
