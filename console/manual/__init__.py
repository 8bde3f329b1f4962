"""The manual: one Markdown file for each topic in this folder, shown by `rankdeck help` and by the console.

A topic's file begins with its title and a summary in one line. Its comments are for the tests, and its links
and pictures work only where it is shown as a page: `readable` removes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_COMMENT = re.compile(r"^<!--.*-->\n", re.MULTILINE)
_PICTURE = re.compile(r"^!\[[^]\n]*\]\([^)\s]+\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"\[([^]\n]+)\]\([^)\s]+\)")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic's name, and the text of its file."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """The topic's heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """The topic's summary, in one line."""
        return self.text.split("\n\n")[1].strip()


@cache
def topics() -> dict[str, Topic]:
    """Every topic by its name, sorted."""
    pages = [each for each in files(__package__).iterdir() if each.name.endswith(".md")]
    by_name = {each.name.removesuffix(".md"): each for each in pages}
    return {name: Topic(name, by_name[name].read_text(encoding="utf-8")) for name in sorted(by_name)}


def readable(text: str) -> str:
    """A topic's text for a terminal: without comments and pictures, each link replaced by its words."""
    return _LINK.sub(r"\1", _PICTURE.sub("", _COMMENT.sub("", text)))
