"""A run's output as text for people: cleaned lines, and the marks between attempts. Pure.

Of a line, text, tabs as spaces and a rank's colours stay, nothing else. A control sequence that reached the
terminal could move the cursor, retitle the terminal or fake another rank's output. The bytes on disk stay as
they are.
"""

from __future__ import annotations

import re

from .rows import last_segment

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
UNSEEN = (
    "\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[\x00-\x06\x08\x0a-\x1a\x1c-\x1f{UNSEEN}]")
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


def plain_text(text: str) -> str:
    """Text of several lines without control characters and sequences; its line breaks stay."""
    return "\n".join(plain(line.encode(errors="replace")) for line in text.split("\n"))


def attempt_mark(attempt: int, reason: str) -> str:
    """The line before an attempt's output, with the reason for the restart if known."""
    why = plain(reason.encode(errors="replace"))
    return f"── attempt {attempt}{f' ({why})' if why else ''} ──"


def _colour_or_nothing(match: re.Match[str]) -> str:
    sequence = match.group()
    return sequence if _COLOUR.fullmatch(sequence) else ""
