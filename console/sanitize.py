"""Cleaning of untrusted text for terminals: text, tabs as spaces and a rank's colours stay, nothing else.

A control sequence that reached the terminal could move the cursor, retitle the terminal or fake another
rank's output. The bytes on disk stay as they are.
"""

from __future__ import annotations

import json
import re

from launcher.runs.logs.rows import last_segment

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*(?:[@-~]|$)"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]*[0-~]",  # short sequences
    re.DOTALL,
)
# C0 without bell, tab and escape, which are handled separately; DEL and C1; then invisible characters that
# change how their neighbours look: directions, line and paragraph separators, annotations, tags, the byte
# order mark. The zero-width space is among them: terminals disagree about its width, and names that differ
# by it look the same. The joiners U+200C and U+200D stay: scripts and emoji need them, and they move nothing.
_UNSEEN = (
    "\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[\x00-\x06\x08\x0a-\x1a\x1c-\x1f{_UNSEEN}]")
_ANY_CONTROL = re.compile(f"[\x00-\x1f{_UNSEEN}]")
_REST = re.compile(r"\x1b(?!\[[0-9;:]*m)|\x07")


def shown(data: bytes) -> str:
    """The text of one line as a terminal would show it; of its control sequences only colours stay."""
    text = last_segment(data).decode("utf-8", "replace")
    if text.isascii() and text.isprintable():
        return text
    # controls go first, or one inside a sequence would hide it from the pattern that removes it
    kept = _SEQUENCE.sub(_colour_or_nothing, _CONTROL.sub("", text))
    return _REST.sub("", kept).expandtabs(8)


def plain(data: bytes) -> str:
    """The text of one line without colours, for searching."""
    text = shown(data)
    return _COLOUR.sub("", text) if "\x1b" in text else text


def printable(text: str) -> str:
    """Text of several lines without control characters and sequences; its line breaks stay."""
    return "\n".join(plain(line.encode(errors="replace")) for line in text.split("\n"))


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


def _colour_or_nothing(match: re.Match[str]) -> str:
    sequence = match.group()
    return sequence if _COLOUR.fullmatch(sequence) else ""
