"""The manual: one topic a Markdown file beside this module, shown by `rankdeck help` and by the console.

A topic's file begins with its title, and a summary in one line. Its comments are for the tests, and its
links for where it is shown as a page: `readable` leaves both out.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_COMMENT = re.compile(r"^<!--.*-->\n", re.MULTILINE)
_LINK = re.compile(r"\[([^]\n]+)\]\([^)\s]+\)")


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic by its name, and its text as it stands in its file."""

    name: str
    text: str

    @property
    def title(self) -> str:
        """Its heading."""
        return self.text.partition("\n")[0].removeprefix("# ")

    @property
    def summary(self) -> str:
        """What it is about, in one line."""
        return self.text.split("\n\n")[1].strip()


@cache
def topics() -> dict[str, Topic]:
    """Every topic by its name, sorted."""
    found = [each for each in files(__package__).iterdir() if each.name.endswith(".md")]
    named = {each.name.removesuffix(".md"): each for each in found}
    return {name: Topic(name, named[name].read_text(encoding="utf-8")) for name in sorted(named)}


def readable(text: str) -> str:
    """A topic's text for a terminal: without comments, and with the words of each link in its place."""
    return _LINK.sub(r"\1", _COMMENT.sub("", text))
