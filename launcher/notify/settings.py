"""``[notify]`` of ``config.toml``: who is told of a run's end, failure or first alert, and how.

[notify]
on = ["end", "failure", "alert"]
title = true           bell = false           osc9 = false           osc777 = false
webhook = "https://hooks.example.com/x"
command = ["notify-send", "--", "{name}", "{state}: {why}"]

The terminal's part is the console's; the webhook and the command are the owner's, which has no terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .. import settings
from ..errors import SpecError

TABLE = "notify"
KINDS = ("end", "failure", "alert")
PLACEHOLDERS = ("id", "name", "state", "why", "exit_code", "kind", "target")
_MOST_WORDS, _MOST_TEXT, _MOST_URL = 64, 16 << 10, 2048
_NAMED = re.compile(r"\{([a-z_]+)\}")
_UNSAFE = re.compile(r"[\x00-\x20\x7f]|[^\x00-\x7f]")


@dataclass(frozen=True, slots=True)
class NotifySettings:
    """What is told, and how.

    Attributes:
        title: whether the terminal's title names the open run.
        bell, osc9, osc777: whether the terminal rings, or is asked to show a desktop notification.
        webhook: the URL to which a JSON document is posted; empty for none.
        command: the argv of a program, with placeholders; empty for none.
        on: the kinds of which anybody is told.
    """

    title: bool = True
    bell: bool = False
    osc9: bool = False
    osc777: bool = False
    webhook: str = ""
    command: tuple[str, ...] = ()
    on: tuple[str, ...] = KINDS


DEFAULTS: Mapping[str, object] = {
    each.name: list(default) if isinstance(default := each.default, tuple) else default
    for each in fields(NotifySettings)
}
"""The keys of the table with their defaults, as they would stand in the file."""


def problem(key: str, value: object) -> str | None:
    """Why a setting is invalid, as the rest of a sentence; None if it is valid."""
    if key not in DEFAULTS:
        return f"is no setting; there are {', '.join(DEFAULTS)}"
    if isinstance(DEFAULTS[key], bool):
        return None if isinstance(value, bool) else f"must be true or false, not {value!r}"
    if key == "webhook":
        return (
            _url_problem(value) if isinstance(value, str) else f"must be an address in quotes, not {value!r}"
        )
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        return f"must be a list of texts, not {value!r}"
    return _command_problem(value) if key == "command" else _kinds_problem(value)


def _url_problem(url: str) -> str | None:
    """Why this is no address to post to. The address is not repeated: there may be a secret in it."""
    if not url:
        return None
    from urllib.parse import urlsplit  # few have one, and every console reads these settings

    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        return "is no address"
    if parts.scheme not in ("http", "https") or not host:
        return "must begin with https:// or http://, and name a host"
    if len(url) > _MOST_URL or _UNSAFE.search(url):
        return f"must have no spaces and only ASCII characters, at most {_MOST_URL:,}"
    return None


def _command_problem(words: Sequence[str]) -> str | None:
    if not words:
        return None
    if not words[0] or len(words) > _MOST_WORDS or sum(map(len, words)) > _MOST_TEXT:
        return f"must name a program, with at most {_MOST_WORDS} words of {_MOST_TEXT:,} characters in all"
    if any("\0" in word for word in words):
        return "cannot hold a NUL character"
    for name in _NAMED.findall(" ".join(words)):
        if name not in PLACEHOLDERS:
            known = ", ".join(f"{{{each}}}" for each in PLACEHOLDERS)
            return f"has {{{name}}}, which stands for nothing; there are {known}"
    return "cannot have a placeholder for the program" if _NAMED.search(words[0]) else None


def _kinds_problem(kinds: Sequence[str]) -> str | None:
    known = ", ".join(f'"{kind}"' for kind in KINDS)
    wrong = next((kind for kind in kinds if kind not in KINDS), None)
    return None if wrong is None else f"may have {known}, not {wrong!r}"


def filled(words: Sequence[str], values: Mapping[str, object]) -> list[str]:
    """A command's words with their placeholders replaced; what is put in is never read again."""
    return [_NAMED.sub(lambda found: str(values.get(found[1], found[0])), word) for word in words]


def chosen(table: Any) -> NotifySettings:
    """The settings of a table; what is wrong in it has its default."""
    given = table if isinstance(table, dict) else {}
    valid = {key: value for key, value in given.items() if problem(key, value) is None}
    lists = {key: tuple(value) for key, value in valid.items() if isinstance(value, list)}
    return NotifySettings(**{**valid, **lists})


def load(environ: Mapping[str, str] = os.environ) -> NotifySettings:
    """The settings as the file has them now; the defaults where it cannot be read."""
    try:
        return chosen(settings.read(settings.config_file(environ)).get(TABLE))
    except SpecError:
        return NotifySettings()
