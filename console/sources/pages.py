"""Pages of others as JSON, several at once, within a time that is kept whatever they do."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

ASK_S = 3.0
_MOST = 16 << 20
_AT_ONCE = 8
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class Answer:
    """What a page said; `problem` is why it said nothing."""

    body: Any = None
    problem: str = ""


Ask = Callable[[str], Answer]


def ask(url: str) -> Answer:
    """One page; it has a few seconds for all of it."""
    if not url.startswith(("http://", "https://")):
        return Answer(problem="no web address")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_S) as answer:
            return Answer(json.loads(_read(answer, time.monotonic() + ASK_S)))
    except urllib.error.HTTPError as error:
        error.close()
        return Answer(problem=f"HTTP {error.code}")
    except (OSError, ValueError, RecursionError) as error:
        return Answer(problem=_words(error))


def _read(answer: Any, deadline: float) -> bytes:
    body = bytearray()
    while piece := answer.read1(_PIECE):
        body += piece
        if len(body) > _MOST:
            raise ValueError("it says too much")
        if time.monotonic() > deadline:
            raise TimeoutError("it is too slow")
    return bytes(body)


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "it does not answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return "it speaks no JSON" if isinstance(reason, json.JSONDecodeError) else str(reason)


def ask_all(urls: Iterable[str], ask: Ask = ask, *, limit_s: float = 3 * ASK_S) -> dict[str, Answer]:
    """Several pages, a few at a time; those that were not read within the limit are missing.

    The threads are daemons: a program that ends does not wait for the pages of others.
    """
    left = deque(dict.fromkeys(urls))
    found: dict[str, Answer] = {}
    deadline = time.monotonic() + limit_s

    def work() -> None:
        while left and time.monotonic() < deadline:
            try:
                url = left.popleft()
            except IndexError:
                return
            found[url] = ask(url)

    threads = [
        threading.Thread(target=work, name="rankdeck-pages", daemon=True)
        for _ in range(min(len(left), _AT_ONCE))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)
