"""Terminals that go away: a pseudo terminal with a command in it, and a tmux server of a test's own."""

from __future__ import annotations

import os
import pty
import select
import shutil
import signal
import subprocess
import termios
import threading
import uuid
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.commands import until

TMUX = shutil.which("tmux")


class Pty:
    """A command whose controlling terminal is ours. Leaving the context closes the terminal and reaps it."""

    def __init__(self, command: Sequence[str | Path], *, columns: int = 120, rows: int = 40) -> None:
        self.received = b""
        self._codes: list[int] = []
        self.pid, self._descriptor = pty.fork()
        if not self.pid:
            try:
                os.environ |= {"TERM": "xterm-256color", "LANG": "C.UTF-8"}
                os.execv(command[0], [os.fspath(word) for word in command])
            finally:
                os._exit(127)
        self._wake = os.eventfd(0)
        termios.tcsetwinsize(self._descriptor, (rows, columns))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while self._wake not in select.select([self._descriptor, self._wake], [], [])[0]:
                self.received += os.read(self._descriptor, 1 << 16)
        except OSError:  # its last user has gone
            return

    def await_text(self, *texts: str) -> None:
        try:
            until(lambda: all(text.encode() in self.received for text in texts), within=60)
        except AssertionError:
            raise AssertionError(f"never saw {texts}: {self.received[-2000:]!r}") from None

    def press(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def hang_up(self) -> None:
        """Close the terminal's own end, as a dropped connection does."""
        if self._reader.is_alive():
            os.eventfd_write(self._wake, 1)
            self._reader.join()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            os.close(self._wake)
            self._descriptor = -1

    def exit_code(self) -> int:
        """Wait for the command's end; negative for a signal."""
        if not self._codes:
            self._codes.append(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))
        return self._codes[0]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if not self._codes:
            os.kill(self.pid, signal.SIGKILL)
            self.exit_code()
        self.hang_up()


class Tmux:
    """A tmux server with a socket of its own. Leaving the context kills it."""

    def __init__(self, command: str) -> None:
        self._socket = f"rankdeck-{uuid.uuid4().hex[:12]}"
        dead_are_seen = (";", "set-option", "-g", "remain-on-exit", "on")
        self._tell("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", command, *dead_are_seen)

    def _tell(self, *words: str) -> str:
        done = subprocess.run(
            [str(TMUX), "-L", self._socket, *words], capture_output=True, text=True, check=False
        )
        assert 0 == done.returncode, done.stderr
        return done.stdout

    @property
    def screen(self) -> str:
        return self._tell("capture-pane", "-p", "-S", "-")

    def await_text(self, text: str) -> None:
        try:
            until(lambda: text in self.screen, within=60)
        except AssertionError:
            raise AssertionError(f"never saw {text}:\n{self.screen}") from None

    def press(self, *keys: str) -> None:
        self._tell("send-keys", *keys)

    @property
    def shell(self) -> int:
        """The pid of the pane's first process."""
        return int(self._tell("display-message", "-p", "#{pane_pid}"))

    def kill_server(self) -> None:
        self._tell("kill-server")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        command = [str(TMUX), "-L", self._socket, "kill-server"]
        subprocess.run(command, capture_output=True, check=False)
