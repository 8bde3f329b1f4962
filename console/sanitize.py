"""Cleaning of untrusted text for terminals and documents: paths, arguments, messages, JSON.

The lines of a rank's output are cleaned by the same rules, in `launcher.runs.logs.text`.
"""

from __future__ import annotations

import json
import re

from launcher.runs.logs.text import UNSEEN, plain_text

_ANY_CONTROL = re.compile(f"[\x00-\x1f{UNSEEN}]")


def printable(text: str) -> str:
    """Text of several lines without control characters and sequences; its line breaks stay."""
    return plain_text(text)


def escaped(text: str) -> str:
    """One line in which control characters are written as Python's escapes instead of removed.

    For text that the user checks before trusting it: no part of a path or an argument may be hidden.
    """
    return _ANY_CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_escaped(line: str) -> str:
    """A line of JSON with its control characters escaped; its value is the same."""
    return _ANY_CONTROL.sub(
        lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", line
    )
