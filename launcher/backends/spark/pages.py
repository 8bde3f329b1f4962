"""A standalone master's pages: JSON and HTML, read by HTTP."""

from __future__ import annotations

import http.client
import json
import re
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

ASK_S = 3.0
_MOST = 16 << 20
_CORES = re.compile(r"Cores:\s*</strong>\s*(\d+)\s*\(\s*\d+ granted")
_EXECUTORS = re.compile(r"Executor Limit:\s*</strong>\s*\d")


def live_master(pages: Iterable[str]) -> tuple[str, Mapping[str, Any]] | None:
    """The page of the master that is in charge, and its JSON; None if none of these can be read."""
    for page in pages:
        state = read_json(f"{page}/json/")
        if isinstance(state, dict) and state.get("status", "ALIVE") == "ALIVE":
            return page, state
    return None


def active_applications(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The applications on a master's page that have not ended."""
    return (app for app in state.get("activeapps", ()) if app.get("id"))


def core_limit(page: str, application: str) -> int | None:
    """The cores to which an application is limited, which only its page at the master shows.

    None if it has no limit, if the page cannot be read, or if dynamic allocation decides how many it takes.
    """
    text = read_text(f"{page}/app/?{urllib.parse.urlencode({'appId': application})}")
    match = _CORES.search(text)
    return int(match[1]) if match and not _EXECUTORS.search(text) else None


def read_json(url: str) -> Any:
    """A page as JSON; None if it cannot be read within seconds."""
    try:
        return json.loads(read_text(url))
    except (ValueError, RecursionError):
        return None


def read_text(url: str) -> str:
    """A page; empty if it cannot be read within seconds."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_S) as answer:
            return str(answer.read(_MOST).decode(errors="replace"))
    except (OSError, ValueError, http.client.HTTPException):
        return ""
