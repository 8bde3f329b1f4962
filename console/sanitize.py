"""What of anybody's text may reach a terminal: text, tabs as spaces, and a rank's colours; nothing else.

The bytes on disk stay as they are. A control sequence that got through could move the cursor, retitle
the terminal or fake another rank's output.
"""

from __future__ import annotations

import json
import re

from launcher.runs.logs.rows import last_segment

_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]*[ -/]*(?:[@-~]|$)"  # CSI
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\|$)"  # OSC, DCS, SOS, PM, APC up to their end
    r"|\x1b[ -/]*[0-~]",  # the short ones
    re.DOTALL,
)
# C0 without what is met below (bell, tab, escape), DEL and C1; then what is not seen, but changes how its
# neighbours are: directions, line and paragraph separators, annotations, tags, the byte order mark. A space
# of no width is among them: terminals disagree about its width, and names that differ by it look the same.
# The joiners U+200C and U+200D stay: scripts and emoji need them, and they move nothing.
_UNSEEN = (
    "\x7f-\x9f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f"
)
_CONTROL = re.compile(f"[\x00-\x06\x08\x0a-\x1a\x1c-\x1f{_UNSEEN}]")
_ANY_CONTROL = re.compile(f"[\x00-\x1f{_UNSEEN}]")
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


def printable(text: str) -> str:
    """Text of several lines without what could control a terminal; its line breaks stay."""
    return "\n".join(plain(line.encode(errors="replace")) for line in text.split("\n"))


def escaped(text: str) -> str:
    """One line in which nothing is left out: what may not reach a terminal is written as Python would.

    For what a person looks at before trusting it: nothing of a path or an argument may hide.
    """
    return _ANY_CONTROL.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def json_escaped(line: str) -> str:
    """A line of JSON that says the same with nothing in it that a terminal might obey."""
    return _ANY_CONTROL.sub(
        lambda match: json.dumps(match[0])[1:-1] if match[0] != "\x7f" else "\\u007f", line
    )


def _colour_or_nothing(match: re.Match[str]) -> str:
    sequence = match.group()
    return sequence if _COLOUR.fullmatch(sequence) else ""
