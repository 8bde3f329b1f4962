"""Markdown as rows of a pane: headings, paragraphs, lists, code and tables, as far as the manual uses them.

Paragraphs are wrapped to the width. A table that is too wide is shown as a paragraph for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from textwrap import wrap

from rich.cells import cell_len

from .rows import Row, Span, clip, width_of

_FENCE = "```"
_MARKER = re.compile(r"(?:-|\d+\.) ")
_SPANS = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*")
_CODE, _STRONG, _HEADING, _TITLE = "accent", "bold", "bold", "bold underline"
_INDENT = "  "


def markdown_rows(text: str, width: int) -> list[Row]:
    """The rows of a document that is `width` cells wide."""
    rows = chain.from_iterable(_block_rows(block, width) for block in _blocks(text))
    return [clip(row, width) for row in rows]


def _blocks(text: str) -> Iterator[list[str]]:
    """The lines of each block. Every item of a list is a block, and so is every blank line."""
    block: list[str] = []
    for line in text.rstrip("\n").splitlines():
        open_fence = bool(block) and block[0].startswith(_FENCE)
        if open_fence:
            block.append(line)
            if line.startswith(_FENCE):
                yield block
                block = []
            continue
        if block and not _continues(block[0], line):
            yield block
            block = []
        block.append(line)
    if block:
        yield block


def _continues(first: str, line: str) -> bool:
    """Whether a line belongs to the block that `first` began."""
    if not line.strip() or not first.strip() or first.startswith("#"):
        return False
    if line.startswith("|") or first.startswith("|"):
        return line.startswith("|") and first.startswith("|")
    return not line.startswith(("#", _FENCE)) and not _MARKER.match(line)


def _block_rows(block: Sequence[str], width: int) -> Iterator[Row]:
    first = block[0]
    if first.startswith(_FENCE):
        yield from _code_rows(block[1:-1], width)
    elif first.startswith("#"):
        yield ((first.lstrip("# "), _TITLE if first.startswith("# ") else _HEADING),)
    elif first.startswith("|"):
        yield from _table_rows([_cells(line) for line in block if not line.startswith("|--")], width)
    else:
        mark = found[0] if (found := _MARKER.match(first)) else ""
        text = " ".join(line.strip() for line in block)[len(mark) :]
        yield from _filled(text, width, mark, " " * len(mark))


def _code_rows(lines: Iterable[str], width: int) -> Iterator[Row]:
    """Code as it is written; lines wider than the pane are wrapped."""
    room = max(width - len(_INDENT), 1)
    for line in lines:
        parts = wrap(line, room, subsequent_indent=_INDENT, replace_whitespace=False) or [""]
        yield from (((f"{_INDENT}{part}", _CODE),) for part in parts)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table_rows(table: Sequence[Sequence[str]], width: int) -> Iterator[Row]:
    """A table in columns if it fits, else as a paragraph for each row."""
    head, *body = table
    plain = [[width_of(tuple(_spans(cell))) for cell in line] for line in table]
    columns = [max(column) for column in zip(*plain, strict=True)]
    if sum(columns) + 2 * len(columns) <= width:
        for line in table:
            yield tuple(chain.from_iterable(_padded(*cell, line is head) for cell in zip(line, columns)))  # noqa: B905
        return
    for first, *others in body:
        more = "; ".join(f"{name}: {cell}" for name, cell in zip(head[1:], others, strict=False))
        yield from _filled(f"**{first.replace('`', '')}**" if len(others) > 1 else first, width, "", _INDENT)
        yield from _filled(more if len(others) > 1 else "".join(others), width, _INDENT, _INDENT)


def _padded(text: str, width: int, is_head: bool) -> Iterator[Span]:
    spans = [(text, _HEADING)] if is_head else list(_spans(text))
    yield from spans
    yield (" " * (width + 2 - width_of(tuple(spans))), "")


def _spans(text: str) -> Iterator[Span]:
    """The parts of a line that are code or strong, and those between."""
    end = 0
    for match in _SPANS.finditer(text):
        yield (text[end : match.start()], "")
        yield (match[1], _CODE) if match[1] else (match[2], _STRONG)
        end = match.end()
    yield (text[end:], "")


def _filled(text: str, width: int, first: str, rest: str) -> Iterator[Row]:
    """A text wrapped to the width, with `first` before the first line and `rest` before the others."""
    row: list[Span] = [(first, "")]
    used, fresh = cell_len(first), True
    for word in _words(text):
        size = width_of(word)
        if not fresh and used + 1 + size > width:
            yield tuple(row)
            row, used, fresh = [(rest, "")], cell_len(rest), True
        row += word if fresh else ((" ", ""), *word)
        used += size + (not fresh)
        fresh = False
    yield tuple(row)


def _words(text: str) -> Iterator[Row]:
    """The words of a text, each as spans with their styles."""
    word: list[Span] = []
    for part, style in _spans(text):
        head, *others = part.split(" ")
        word.append((head, style))
        for other in others:
            if any(text for text, _ in word):
                yield tuple(word)
            word = [(other, style)]
    if any(text for text, _ in word):
        yield tuple(word)
