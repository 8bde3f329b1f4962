"""What of a rank's bytes may reach the screen: text, tabs as spaces, and colours; nothing else.

The bytes on disk stay as they are. A control sequence that got through could move the cursor, retitle
the terminal or fake another rank's output.
"""

from __future__ import annotations

import re

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*(?:[@-~]|$)"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]*[0-~]",  # the short ones
    re.DOTALL,
)
_CONTROL = re.compile(
    "[\x00-\x06\x08\x0a-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]"
)
_REST = re.compile(r"\x1b(?!\[[0-9;:]*m)|\x07")


def shown(data: bytes) -> str:
    """The text of one line as a terminal would leave it, with only its colour sequences kept."""
    text = last_segment(data).decode("utf-8", "replace")
    if text.isascii() and text.isprintable():
        return text
    # controls go first, or one inside a sequence would hide it from the pattern that removes it
    kept = _SEQUENCE.sub(_colour_or_nothing, _CONTROL.sub("", text))
    return _REST.sub("", kept).expandtabs(8)


def plain(data: bytes) -> str:
    """The same without colours: what a search looks at."""
    text = shown(data)
    return _COLOUR.sub("", text) if "\x1b" in text else text


def last_segment(data: bytes) -> bytes:
    """What stays of a line that was overwritten through carriage returns."""
    body = data.rstrip(b"\r")
    return body[body.rfind(b"\r") + 1 :]


def _colour_or_nothing(match: re.Match[str]) -> str:
    sequence = match.group()
    return sequence if _COLOUR.fullmatch(sequence) else ""
