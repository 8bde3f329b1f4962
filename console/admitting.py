"""Who may reach the console that is served to browsers: rules over what a request says of itself.

An address with a token opens once. Whoever brought it gets a cookie, and from then on only that cookie
counts. Other users of this machine, and pages that a person's browser shows from elsewhere, bring neither.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

LOOPBACK = "127.0.0.1"
_NAMES = (LOOPBACK, "localhost", "[::1]")
_ELSEWHERE = ("cross-site", "same-site")  # another port of this machine is of the same site
_KEPT = 64


@dataclass(frozen=True, slots=True)
class Asked:
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


class Answer(Enum):
    """What becomes of a request."""

    ENTER = auto()
    WELCOME = auto()
    RETRY = auto()
    REFUSE = auto()


@dataclass(frozen=True, slots=True)
class Verdict:
    """An answer. `text` is the new cookie's value for a welcome, if there is one, and why for a refusal."""

    answer: Answer
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

    def judge(self, asked: Asked) -> Verdict:
        """What becomes of a request. A good token is used up by this."""
        if reason := self._stranger(asked):
            return Verdict(Answer.REFUSE, reason)
        if asked.token is not None and asked.path == "/" and asked.method == "GET":
            return self._redeem(asked)
        if self._knows(asked.cookie):
            return Verdict(Answer.ENTER)
        if asked.path == "/" and asked.site == "cross-site":
            return Verdict(Answer.RETRY)
        return Verdict(Answer.REFUSE, "come in by the address that `rankdeck serve` prints")

    def _stranger(self, asked: Asked) -> str:
        """Why a request cannot be from a page of ours, if it cannot, whatever else it brings."""
        if len(asked.hosts) != 1 or asked.hosts[0].lower() not in self._hosts:
            return f"this is reached as {self._hosts[0]} only; a tunnel must have the same port at both ends"
        if (asked.origin or asked.socket) and asked.origin != f"http://{asked.hosts[0].lower()}":
            return "another site's page asks for this"
        if asked.site in _ELSEWHERE and asked.sort != "navigate":
            return "another site's page asks for this"
        return ""

    def _redeem(self, asked: Asked) -> Verdict:
        if self._token and _same(asked.token or "", self._token):
            self._token = ""
            session = self._secret()
            self._sessions = [*self._sessions, session][-_KEPT:]
            return Verdict(Answer.WELCOME, session)
        if self._knows(asked.cookie):
            return Verdict(Answer.WELCOME)
        return Verdict(Answer.REFUSE, "this address was used or replaced; press Enter there for a new one")

    def _knows(self, cookie: str) -> bool:
        return any([_same(cookie, session) for session in self._sessions])  # noqa: C419  as long for a miss


def _same(given: str, secret: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), secret.encode())
