"""What a docstring says about each parameter, as Google, NumPy and Sphinx write it. Pure."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

_MOST_LINES, _MOST_TEXT = 500, 400
_TITLES = {"args", "arguments", "parameters", "params", "attributes", "keyword args", "keyword arguments"}
_OTHERS = {"returns", "return", "raises", "yields", "example", "examples", "note", "notes", "see also"}
_GOOGLE = re.compile(r"\*{0,2}(\w+)(?: ?\([^)]{0,200}\))? ?: (.*)|\*{0,2}(\w+)(?: ?\([^)]{0,200}\))? ?:\s*$")
_NUMPY = re.compile(r"(\w+(?:, \w+)*)(?: ?: .*)?")
_SPHINX = re.compile(r"[:@]param(?:eter)?\s+(?:[^:]{0,80}\s)?\*{0,2}(\w+)\s*:\s*(.*)")


def described_parameters(doc: str) -> dict[str, str]:
    """The text about each parameter, on one line; a parameter without one is left out."""
    lines = inspect.cleandoc(doc[:40_000]).splitlines()[:_MOST_LINES]
    found: dict[str, list[str]] = {}
    for names, text in _entries(lines):
        for name in names:
            found.setdefault(name, []).append(text)
    joined = {name: " ".join(" ".join(texts).split()) for name, texts in found.items()}
    return {name: text[:_MOST_TEXT] for name, text in joined.items() if text}


def _entries(lines: list[str]) -> Iterator[tuple[list[str], str]]:
    """Names of parameters with a line of the text about them."""
    section = numpy = False
    indent, names = 0, list[str]()
    for number, line in enumerate(lines):
        text, depth = line.strip(), len(line) - len(line.lstrip())
        below = lines[number + 1].strip() if number + 1 < len(lines) else ""
        underlined = len(below) > 2 and set(below) == {"-"}
        if text.rstrip(":").lower() in _TITLES and (underlined or text.endswith(":")):
            section, numpy, indent, names = True, underlined, -1, []
        elif underlined or (section and not numpy and text and depth == 0 and _ends(text, indent)):
            section, names = False, []
        elif match := _SPHINX.match(text):
            names, section = [match[1]], False
            indent = depth
            yield names, match[2]
        elif section and text and set(text) != {"-"}:
            indent = depth if indent < 0 else indent
            if depth > indent:
                yield names, text
            else:
                names, rest = _named(text, numpy=numpy)
                yield names, rest
        elif names and text and depth > indent:
            yield names, text
        elif not section:
            names = []


def _ends(text: str, indent: int) -> bool:
    """Whether a line at the margin ends a section; a docstring that begins with one has all of it there."""
    return indent > 0 or text.rstrip(":").lower() in _OTHERS


def _named(text: str, *, numpy: bool) -> tuple[list[str], str]:
    """The parameters that a line begins to tell about, and what it says of them."""
    if numpy:
        match = _NUMPY.fullmatch(text)
        return (match[1].split(", "), "") if match else ([], "")
    match = _GOOGLE.fullmatch(text)
    return ([match[1] or match[3]], match[2] or "") if match else ([], "")
