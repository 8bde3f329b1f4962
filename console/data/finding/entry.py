"""One line of the command bar, its kind, and what a person has typed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

MOST_TEXT = 200
"""Characters of a name or a description; what comes from a run may be longer."""


class Kind(StrEnum):
    """The kinds of entries, in the order in which their groups are listed; the value narrows to the kind."""

    COMMAND = "command"
    ACTION = "action"
    SCREEN = "screen"
    PRESET = "preset"
    TARGET = "target"
    RUN = "run"
    RANK = "rank"
    HOST = "host"
    THEME = "theme"
    TOPIC = "topic"


KINDS = tuple(Kind)
PLACES = {kind: place for place, kind in enumerate(KINDS)}
_WORDS = {word: kind for kind in KINDS for word in (kind.value, f"{kind.value}s")}
_WORDS |= {"go": Kind.SCREEN, "key": Kind.ACTION, "help": Kind.TOPIC, "manual": Kind.TOPIC}


@dataclass(frozen=True, slots=True)
class BarEntry:
    """Something that the command bar can open or do.

    Attributes:
        kind: what it is.
        does: what identifies it among those of its kind: an id, a path, a number.
        name: its name, of at most `MOST_TEXT` characters.
        about: what it does, or what is known of it.
        key: the key that does the same, as it is shown.
        sought: the name and the description in lower case, letter for letter.
    """

    kind: Kind
    does: str
    name: str
    about: str = ""
    key: str = ""
    sought: tuple[str, str] = field(default=("", ""), compare=False, repr=False)

    @property
    def used_as(self) -> str:
        """Its name in the record of what was used."""
        return f"{self.kind.value}:{self.does}"


def entry(kind: Kind, does: str, name: str, about: str = "", key: str = "") -> BarEntry:
    """An entry with texts of bounded length."""
    name, about = name[:MOST_TEXT], about[:MOST_TEXT]
    return BarEntry(kind, does, name, about, key, (lowered(name), lowered(about)))


def lowered(text: str) -> str:
    """The text in lower case, and as long as before: a few capitals have two lower-case letters."""
    lower = text.lower()
    return lower if len(lower) == len(text) else "".join(c.lower()[0] for c in text)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What was typed: the kind that it narrows to, if it begins with one; and the words, in lower case."""

    kind: Kind | None = None
    words: tuple[str, ...] = ()


def wanted(text: str) -> Wanted:
    """Read what was typed. A kind counts once a space follows it: ``run`` alone may begin anything."""
    first, space, rest = text.lstrip().partition(" ")
    kind = _WORDS.get(first.lower()) if space else None
    return Wanted(kind, tuple((rest if kind else text).lower().split()))
