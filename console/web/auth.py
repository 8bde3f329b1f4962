"""Who may reach the console that is served to browsers, and the address that lets one person in.

An address with a token opens once. Whoever brought it gets a cookie, and from then on only that cookie
counts. Other users of this machine, and pages that a person's browser shows from elsewhere, bring neither.
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
_ELSEWHERE = ("cross-site", "same-site")  # another port of this machine is of the same site
_KEPT = 64


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a request says of itself. What it does not say is empty; `hosts` are all its Host headers.

    `token` is None without one. `site` and `sort` are what the browser tells of where the request comes from
    (Sec-Fetch-Site) and whether a person goes there (Sec-Fetch-Mode).
    """

    path: str = "/"
    method: str = "GET"
    hosts: tuple[str, ...] = ()
    origin: str = ""
    token: str | None = None
    cookie: str = ""
    site: str = ""
    sort: str = ""
    socket: bool = False


class AdmissionAnswer(Enum):
    """What becomes of a request."""

    ENTER = auto()
    WELCOME = auto()
    RETRY = auto()
    REFUSE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer. `text` is the new cookie's value for a welcome, if there is one, and why for a refusal."""

    answer: AdmissionAnswer
    text: str = ""


class Admission:
    """Remembers the token that is still good, and the sessions that were given out. Not for threads."""

    def __init__(self, port: int, *, secret: Callable[[], str] = lambda: secrets.token_urlsafe(32)) -> None:
        self._hosts = [f"{name}:{port}" for name in _NAMES]
        self._secret = secret
        self._token = ""
        self._sessions: list[str] = []
        self.cookie_name = f"rankdeck-{port}"  # browsers keep the cookies of all ports of a host together

    def issue(self) -> str:
        """A new token. The one before it opens nothing any more; sessions last."""
        self._token = self._secret()
        return self._token

    def judge(self, asked: PageRequest) -> Verdict:
        """What becomes of a request. A good token is used up by this."""
        if reason := self._stranger(asked):
            return Verdict(AdmissionAnswer.REFUSE, reason)
        if asked.token is not None and asked.path == "/" and asked.method == "GET":
            return self._redeem(asked)
        if self._knows(asked.cookie):
            return Verdict(AdmissionAnswer.ENTER)
        if asked.path == "/" and asked.site == "cross-site":
            return Verdict(AdmissionAnswer.RETRY)
        return Verdict(AdmissionAnswer.REFUSE, "come in by the address that `rankdeck serve` prints")

    def _stranger(self, asked: PageRequest) -> str:
        """Why a request cannot be from a page of ours, if it cannot, whatever else it brings."""
        if len(asked.hosts) != 1 or asked.hosts[0].lower() not in self._hosts:
            return f"this is reached as {self._hosts[0]} only; a tunnel must have the same port at both ends"
        if (asked.origin or asked.socket) and asked.origin != f"http://{asked.hosts[0].lower()}":
            return "another site's page asks for this"
        if asked.site in _ELSEWHERE and asked.sort != "navigate":
            return "another site's page asks for this"
        return ""

    def _redeem(self, asked: PageRequest) -> Verdict:
        if self._token and _same(asked.token or "", self._token):
            self._token = ""
            session = self._secret()
            self._sessions = [*self._sessions, session][-_KEPT:]
            return Verdict(AdmissionAnswer.WELCOME, session)
        if self._knows(asked.cookie):
            return Verdict(AdmissionAnswer.WELCOME)
        return Verdict(
            AdmissionAnswer.REFUSE, "this address was used or replaced; press Enter there for a new one"
        )

    def _knows(self, cookie: str) -> bool:
        return any([_same(cookie, session) for session in self._sessions])  # noqa: C419  as long for a miss


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())


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
        print_while_possible(print_text, url)
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
