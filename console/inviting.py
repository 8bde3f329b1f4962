"""The way into the served console: its address said in the terminal, opened in a browser, and made anew."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from console.admitting import LOOPBACK
from console.echo import lasting, say, tell
from launcher.runs.paths import FILE_MODE
from launcher.runtime import runtime_folder

_FORWARD = '<!doctype html><meta http-equiv="refresh" content="0;url={url}"><title>rankdeck</title>\n'


class Invitation:
    """Says an address that opens once, and another at each Enter or SIGUSR1, while its context lasts.

    `issue` makes the tokens. A browser is not handed the address on its command line, which all users of the
    machine can read, but a file of ours that leads to it.
    """

    def __init__(self, issue: Callable[[], str], port: int, *, open_page: bool) -> None:
        self._issue, self._port, self._open = issue, port, open_page
        self._file: Path | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._invite)
        say(f"serving on {LOOPBACK}:{self._port}, to this machine only; Ctrl-C ends it, and no run")
        if line := tunnel(os.environ, self._port):
            say(f"where your browser is, first: {line}")
        self._invite()
        again = f"kill -USR1 {os.getpid()}"
        if sys.stdin is not None and sys.stdin.isatty():
            loop.add_reader(sys.stdin.fileno(), self._listen)
            again = "press Enter"
        say(f"the address opens once; for another: {again}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_signal_handler(signal.SIGUSR1)
        if sys.stdin is not None and sys.stdin.isatty():
            loop.remove_reader(sys.stdin.fileno())
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _invite(self) -> None:
        url = f"http://{LOOPBACK}:{self._port}/?token={self._issue()}"
        lasting(tell, url)
        if self._open:
            self._open = False
            self._file = _forward(url, self._port)
            threading.Thread(target=_browse, args=(self._file.as_uri(),), daemon=True).start()

    def _listen(self) -> None:
        """Enter asks for another address. In the background the terminal is somebody else's."""
        descriptor = sys.stdin.fileno()
        with suppress(OSError):  # a terminal that was hung up; its signal ends us
            if os.tcgetpgrp(descriptor) != os.getpgrp():
                return
            if os.read(descriptor, 1024):
                self._invite()
                return
        asyncio.get_running_loop().remove_reader(descriptor)


def tunnel(environ: Mapping[str, str], port: int) -> str:
    """The command that brings the port to the machine that we were reached from by SSH; empty without SSH."""
    words = environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        return ""
    other = [] if words[3] == "22" else ["-p", words[3]]
    place = f"{getpass.getuser()}@{words[2]}"
    return shlex.join(["ssh", "-N", *other, "-L", f"{port}:{LOOPBACK}:{port}", place])


def has_screen(environ: Mapping[str, str]) -> bool:
    """Whether a browser that is started here would be seen by whoever starts it."""
    graphical = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return bool(graphical and not environ.get("SSH_CONNECTION"))


def _forward(url: str, port: int) -> Path:
    path = runtime_folder() / f"serve-{port}.html"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as file:
        file.write(_FORWARD.format(url=url))
    return path


def _browse(address: str) -> None:
    """Start the person's browser; some do not return before they are closed, so this is for a thread."""
    if not webbrowser.open(address):
        say("no browser could be started; open the address in one")
