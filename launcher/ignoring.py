"""What the ``.gitignore`` files of a folder leave out, for folders that git itself does not know.

Pure but for reading those files. The rules are git's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

FILE = ".gitignore"
_MOST_BYTES = 1 << 18
_TOKEN = re.compile(r"/\*\*/|^\*\*/|/\*\*$|\*+|\?|\[!?\]?[^]]*\]|\\.|.", re.DOTALL)
_WILD = {"/**/": "/(?:.*/)?", "**/": "(?:.*/)?", "/**": "/.*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class Rule:
    """One line: what it matches, whether that is kept after all, and whether it speaks of folders only."""

    pattern: re.Pattern[str]
    kept: bool
    folders: bool


@dataclass(frozen=True, slots=True)
class Rules:
    """The lines that hold in a folder: its own after those of the folders above it."""

    levels: tuple[tuple[str, tuple[Rule, ...]], ...] = ()

    def within(self, folder: str) -> Rules:
        """The rules for what lies in a folder, with those of its own file."""
        own = tuple(parse(_read(os.path.join(folder, FILE))))
        return Rules((*self.levels, (folder, own))) if own else self

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether the last line that matches a path leaves it out."""
        said = False
        for folder, rules in self.levels:
            name = os.path.relpath(path, folder)
            for rule in rules:
                if (is_folder or not rule.folders) and rule.pattern.fullmatch(name):
                    said = not rule.kept
        return said


def parse(text: str) -> Iterator[Rule]:
    """The rules that a file's text says; a line that is no pattern is skipped."""
    for line in text.splitlines():
        stripped = re.sub(r"(?<!\\) +$", "", line)
        if not stripped or stripped.startswith("#"):
            continue
        kept = stripped.startswith("!")
        body = stripped[kept:]
        try:
            yield Rule(re.compile(_translated(body.rstrip("/")), re.DOTALL), kept, body.endswith("/"))
        except re.error:
            continue  # git, too, matches nothing by it


def _translated(pattern: str) -> str:
    """A pattern with a slash is taken from its folder, any other from every folder below."""
    anchored = "/" in pattern
    tokens = _TOKEN.findall(pattern.removeprefix("/"))
    return ("" if anchored else "(?:.*/)?") + "".join(map(_token, tokens))


def _token(token: str) -> str:
    if token in _WILD:
        return _WILD[token]
    if token[0] == "*":
        return "[^/]*"
    if token[0] == "[" and len(token) > 1:
        return "[^" + token[2:] if token[1] == "!" else token
    return re.escape(token[-1])


def _read(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # the usual case: there is none
