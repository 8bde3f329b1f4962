"""Access control of the console in browsers, and the one-time address that admits a person.

An address with a token works once. The browser that opens it gets a cookie, which its later requests need.
Other users of this machine, and other sites' pages in the person's browser, have neither.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import secrets
import shlex
import signal
import sys
import threading
import webbrowser
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from types import TracebackType
from typing import Self

from launcher.runs.paths import FILE_MODE
from launcher.runtime_dir import runtime_folder

from ..echo import print_text, print_while_possible, say

LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost", "[::1]")
_FOREIGN_SITES = ("cross-site", "same-site")  # another port of this machine is of the same site
_MAX_SESSIONS = 64


@dataclass(frozen=True, slots=True)
class PageRequest:
    """The parts of a request that decide on access; missing ones are empty. `hosts` are all its Host headers.

    `token` is None if the address has none. `site` and `fetch_mode` are the headers by which the browser
    reports where the request comes from (Sec-Fetch-Site) and whether it is a navigation (Sec-Fetch-Mode).
    """

    path: str = "/"
    method: str = "GET"
    hosts: tuple[str, ...] = ()
    origin: str = ""
    token: str | None = None
    cookie: str = ""
    site: str = ""
    fetch_mode: str = ""
    socket: bool = False


class AdmissionAnswer(Enum):
    """The decisions on a request.

    `ENTER`: serve it; `WELCOME`: set the cookie and redirect; `RETRY`: let our own page load it again,
    because browsers withhold the cookie from requests of other sites; `REFUSE`: answer 403.
    """

    ENTER = auto()
    WELCOME = auto()
    RETRY = auto()
    REFUSE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision. `text` is a welcome's new cookie, empty if the old one is valid; or a refusal's reason."""

    answer: AdmissionAnswer
    text: str = ""


class Admission:
    """Decides on requests by the valid token and the sessions' cookies. Not thread-safe."""

    def __init__(self, port: int, *, secret: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> None:
        self._hosts = [f"{name}:{port}" for name in _NAMES]
        self._secret = secret
        self._token = ""
        self._sessions: list[str] = []
        self.cookie_name = f"rankdeck-{port}"  # browsers share cookies among all ports of a host

    def issue(self) -> str:
        """Make a new token, which replaces the one before; sessions stay valid."""
        self._token = self._secret()
        return self._token

    def judge(self, request: PageRequest) -> Verdict:
        """Decide on a request. A valid token in it is used up."""
        if reason := self._foreign(request):
            return Verdict(AdmissionAnswer.REFUSE, reason)
        if request.token is not None and request.path == "/" and request.method == "GET":
            return self._redeem(request)
        if self._knows(request.cookie):
            return Verdict(AdmissionAnswer.ENTER)
        if request.path == "/" and request.site == "cross-site":
            return Verdict(AdmissionAnswer.RETRY)
        return Verdict(AdmissionAnswer.REFUSE, "open the address that `rankdeck serve` prints")

    def _foreign(self, request: PageRequest) -> str:
        """Why a request cannot come from our pages, whatever cookie or token it has; empty if it can."""
        if len(request.hosts) != 1 or request.hosts[0].lower() not in self._hosts:
            return f"this is reached as {self._hosts[0]} only; a tunnel must have the same port at both ends"
        if (request.origin or request.socket) and request.origin != f"http://{request.hosts[0].lower()}":
            return "the request comes from another site's page"
        if request.site in _FOREIGN_SITES and request.fetch_mode != "navigate":
            return "the request comes from another site's page"
        return ""

    def _redeem(self, request: PageRequest) -> Verdict:
        if self._token and _same(request.token or "", self._token):
            self._token = ""
            session = self._secret()
            self._sessions = [*self._sessions, session][-_MAX_SESSIONS:]
            return Verdict(AdmissionAnswer.WELCOME, session)
        if self._knows(request.cookie):
            return Verdict(AdmissionAnswer.WELCOME)
        return Verdict(
            AdmissionAnswer.REFUSE, "this address was used or replaced; press Enter there for a new one"
        )

    def _knows(self, cookie: str) -> bool:
        return any([_same(cookie, session) for session in self._sessions])  # noqa: C419  constant time


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


_FORWARD = '<!doctype html><meta http-equiv="refresh" content="0;url={url}"><title>rankdeck</title>\n'


class Invitation:
    """Prints a one-time address, and another at each Enter or SIGUSR1, while its context lasts.

    `issue` makes the tokens. A browser does not get the address on its command line, which all users of the
    machine can read, but the path of a private file that redirects to it.
    """

    def __init__(self, issue: Callable[[], str], port: int, *, open_page: bool) -> None:
        self._issue, self._port, self._open = issue, port, open_page
        self._file: Path | None = None

    def __enter__(self) -> Self:
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGUSR1, self._invite)
        say(f"serving on {LOOPBACK}:{self._port}, to this machine only; Ctrl-C ends it, and no run")
        if line := tunnel(os.environ, self._port):
            say(f"first run this where your browser is: {line}")
        self._invite()
        again = f"kill -USR1 {os.getpid()}"
        if sys.stdin is not None and sys.stdin.isatty():
            loop.add_reader(sys.stdin.fileno(), self._read_enter)
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
        print_while_possible(print_text, url)
        if self._open:
            self._open = False
            self._file = _forward(url, self._port)
            threading.Thread(target=_browse, args=(self._file.as_uri(),), daemon=True).start()

    def _read_enter(self) -> None:
        """Print another address at Enter, unless this process is in the background of its terminal."""
        descriptor = sys.stdin.fileno()
        with suppress(OSError):  # the terminal hung up; its signal ends this process
            if os.tcgetpgrp(descriptor) != os.getpgrp():
                return
            if os.read(descriptor, 1024):
                self._invite()
                return
        asyncio.get_running_loop().remove_reader(descriptor)


def tunnel(environ: Mapping[str, str], port: int) -> str:
    """The command that forwards the port from the machine of our SSH client; empty without SSH."""
    words = environ.get("SSH_CONNECTION", "").split()
    if len(words) != 4:
        return ""
    other = [] if words[3] == "22" else ["-p", words[3]]
    place = f"{getpass.getuser()}@{words[2]}"
    return shlex.join(["ssh", "-N", *other, "-L", f"{port}:{LOOPBACK}:{port}", place])


def has_screen(environ: Mapping[str, str]) -> bool:
    """Whether a browser started here would be visible to the user."""
    graphical = environ.get("DISPLAY") or environ.get("WAYLAND_DISPLAY")
    return bool(graphical and not environ.get("SSH_CONNECTION"))


def _forward(url: str, port: int) -> Path:
    path = runtime_folder() / f"serve-{port}.html"
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, FILE_MODE), "w") as file:
        file.write(_FORWARD.format(url=url))
    return path


def _browse(address: str) -> None:
    """Start the user's browser. Blocks: some browsers return only when they are closed."""
    if not webbrowser.open(address):
        say("no browser could be started; open the address in one")
