"""Python source as coloured rows, line by line: no parser and no library, so that it costs nothing to load.

The text may be cut anywhere and need not be valid: what is unknown has no colour. Colours are variables of
the theme.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Iterator

from .rows import Row, Span

KEYWORD, TEXT, NUMBER, COMMENT, DECORATOR, NAME = "tint-3", "tint-2", "tint-5", "muted", "tint-1", "bold"
_TOKEN = re.compile(
    r"""(?P<comment>\#.*)
      | (?P<triple>[rRbBuUfF]{0,2}(?:\"\"\"|'''))
      | (?P<text>[rRbBuUfF]{0,2}(?:"(?:[^"\\]|\\.)*(?:"|$)|'(?:[^'\\]|\\.)*(?:'|$)))
      | (?P<number>\b\d[\w.]*)
      | (?P<word>[^\W\d]\w*)
      | (?P<decorator>@[\w.]+)
      | (?P<other>[^\w"'\#@]+|.)""",
    re.VERBOSE,
)
_STYLES = {"comment": COMMENT, "text": TEXT, "number": NUMBER, "decorator": DECORATOR}


def coloured(lines: Iterable[str]) -> Iterator[Row]:
    """A row for each line of source."""
    quote = ""
    for line in lines:
        row, quote = _line(line, quote)
        yield row


def _line(line: str, quote: str) -> tuple[Row, str]:
    """A line that begins inside a text with this `quote`, if any; and the quote that is open at its end."""
    spans: list[Span] = []
    at, before = 0, ""
    if quote:
        end = line.find(quote)
        if end < 0:
            return ((line, TEXT),), quote
        at, quote = end + 3, ""
        spans.append((line[:at], TEXT))
    while at < len(line):
        match = _TOKEN.match(line, at)
        if match is None:
            break
        kind, word = match.lastgroup or "", match[0]
        at = match.end()
        if kind == "triple":
            end = line.find(word[-3:], at)
            if end < 0:
                return (*spans, (line[match.start() :], TEXT)), word[-3:]
            at = end + 3
            spans.append((line[match.start() : at], TEXT))
        else:
            spans.append((word, _style(kind, word, before)))
        before = before if word.isspace() else word
    return tuple(spans), ""


def _style(kind: str, word: str, before: str) -> str:
    if kind != "word":
        return _STYLES.get(kind, "")
    if keyword.iskeyword(word):
        return KEYWORD
    return NAME if before in ("def", "class") else ""
