"""The part of YAML that config files of Hydra are written in: mappings, lists, scalars, comments.

Anchors, tags and texts over several lines are known to be there, but their values are not: they cannot blow
up what is read. A file that is not of this form has no entries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_MOST_CHARS, _MOST_LINES, _MOST_DEPTH = 256 << 10, 4000, 16
_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#'"\[\]{},&*!|>%@`][^#]*?)\s*:(?:\s+(.*))?$""")
_NUMBER = re.compile(r"[-+]?(\d[\d_]*)")
_FLOAT = re.compile(r"[-+]?(\d[\d_]*)?\.?\d*([eE][-+]?\d+)?|[-+]?\.(inf|nan)", re.IGNORECASE)
_BOOLS = {"true": "True", "false": "False", "yes": "True", "no": "False", "on": "True", "off": "False"}
_NULLS = {"", "~", "null", "Null", "NULL"}


@dataclass(slots=True)
class Scalar:
    """A value that is no mapping: its text, whether it was quoted, and the comment behind it."""

    text: str
    quoted: bool = False
    comment: str = ""
    known: bool = True

    @property
    def kind(self) -> str:
        """``int``, ``float``, ``bool``, ``list``, ``dict``, or empty for text and nothing."""
        if self.quoted or not self.known:
            return ""
        if self.text[:1] in ("[", "{"):
            return "list" if self.text[0] == "[" else "dict"
        if self.text.lower() in _BOOLS:
            return "bool"
        if _NUMBER.fullmatch(self.text):
            return "int"
        return "float" if any(c.isdigit() for c in self.text) and _FLOAT.fullmatch(self.text) else ""

    @property
    def source(self) -> str | None:
        """The value as a literal of Python; None for no value. Interpolations and lists keep their text."""
        if not self.known:
            return "…"
        if not self.quoted and self.text in _NULLS:
            return None
        kind = self.kind
        if kind == "bool":
            return _BOOLS[self.text.lower()]
        if "${" in self.text or kind in ("list", "dict"):
            return self.text
        return self.text if kind == "int" else repr(self.text) if kind == "" else self.text


@dataclass(slots=True)
class Table:
    """A mapping: values by key, in the order of the file."""

    entries: dict[str, Scalar | Table | list[Scalar | Table]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _ConfigLine:
    indent: int
    text: str
    comment: str


def read_config(text: str) -> Table:
    """The mapping that a file holds; empty if it holds something else."""
    lines = list(_lines(text[:_MOST_CHARS]))[:_MOST_LINES]
    if not lines:
        return Table()
    value, _ = _block(lines, 0, lines[0].indent, 0)
    return value if isinstance(value, Table) else Table()


def _lines(text: str) -> Iterator[_ConfigLine]:
    for raw in text.split("\n"):
        line = raw.rstrip("\r")
        if line.startswith(("---", "...", "%")) or "\t" in line[: len(line) - len(line.lstrip())]:
            continue
        content, comment = _without_comment(line)
        if content.strip():
            yield _ConfigLine(len(content) - len(content.lstrip(" ")), content.strip(), comment)


def _without_comment(line: str) -> tuple[str, str]:
    """The line before its comment, and the comment; a ``#`` inside quotes begins none."""
    quote = ""
    for at, letter in enumerate(line):
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "'\"" and (at == 0 or line[at - 1] in " [{,:"):
            quote = letter
        elif letter == "#" and (at == 0 or line[at - 1] in " \t"):
            return line[:at], " ".join(line[at:].lstrip("#").split())
    return line, ""


def _block(
    lines: list[_ConfigLine], at: int, indent: int, depth: int
) -> tuple[Scalar | Table | list[Scalar | Table], int]:
    """The value that begins at a line, and the number of the line after it."""
    if depth > _MOST_DEPTH:
        return Scalar("", known=False), _skipped(lines, at, indent)
    if lines[at].text.startswith("- ") or lines[at].text == "-":
        return _list(lines, at, indent, depth)
    return _mapping(lines, at, indent, depth)


def _skipped(lines: list[_ConfigLine], at: int, indent: int) -> int:
    while at < len(lines) and lines[at].indent >= indent:
        at += 1
    return at


def _list(lines: list[_ConfigLine], at: int, indent: int, depth: int) -> tuple[list[Scalar | Table], int]:
    items: list[Scalar | Table] = []
    while at < len(lines) and lines[at].indent == indent and lines[at].text[:2] in ("- ", "-"):
        line = lines[at]
        rest = line.text[1:].strip()
        key = _KEY.fullmatch(rest) if rest[:1] not in ("[", "{") else None
        if key:
            inner = indent + len(line.text) - len(rest)
            lines[at] = _ConfigLine(inner, rest, line.comment)
            value, at = _mapping(lines, at, inner, depth + 1)
            items.append(value)
        else:
            items.append(_scalar(rest, line.comment))
            at = _skipped(lines, at + 1, indent + 1)
    return items, at


def _mapping(lines: list[_ConfigLine], at: int, indent: int, depth: int) -> tuple[Table, int]:
    made = Table()
    while at < len(lines) and lines[at].indent == indent:
        line = lines[at]
        match = _KEY.fullmatch(line.text)
        at += 1
        if match is None:
            at = _skipped(lines, at, indent + 1)
            continue
        key, rest = _unquoted(match[1])[0], (match[2] or "").strip()
        below = lines[at] if at < len(lines) else None
        dashed = below is not None and below.indent == indent and below.text[:2] in ("- ", "-")
        if not rest and below is not None and (below.indent > indent or dashed):
            made.entries[key], at = _block(lines, at, below.indent, depth + 1)
        else:
            made.entries[key] = _scalar(rest, line.comment)
            at = _skipped(lines, at, indent + 1)
    return made, at


def _scalar(text: str, comment: str) -> Scalar:
    if text[:1] in ("&", "*", "!", "|", ">") or (text[:1] in ("[", "{") and text[-1:] not in ("]", "}")):
        return Scalar(text, comment=comment, known=False)
    plain, quoted = _unquoted(text)
    return Scalar(plain, quoted, comment)


def _unquoted(text: str) -> tuple[str, bool]:
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'"), True
    if len(text) >= 2 and text[0] == text[-1] == '"':
        return text[1:-1].replace('\\"', '"').replace("\\\\", "\\"), True
    return text, False
