"""Arguments of a script whose options are not known: what names an option, and what is a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")
_ASSIGNED = re.compile(r"([+~]*[A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Guess:
    """An option as it is given once, with its values; the name is empty for a word that belongs to none."""

    name: str
    values: tuple[str, ...] = ()

    @property
    def bare(self) -> str:
        """The name without dashes."""
        return self.name.lstrip("-")


def guessed(words: Sequence[str]) -> Iterator[Guess]:
    """The options among the words of a command line.

    An option takes the word after it, if that is no option; of several numbers, it takes all, as in
    ``--gpus 0 1``. ``--lr=0.1`` and ``lr=0.1`` have theirs with them. All that follows ``--`` is a value.
    """
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            yield from (Guess("", (rest,)) for rest in words[at:])
            return
        if assigned := _ASSIGNED.fullmatch(word):
            yield Guess(assigned[1], (assigned[2],))
        elif not _is_dashed(word):
            yield Guess("", (word,))
        elif "=" in word:
            name, _, value = word.partition("=")
            yield Guess(name, (value,))
        else:
            values = _values(words, at)
            yield Guess(word, tuple(values))
            at += len(values)


def _values(words: Sequence[str], at: int) -> Sequence[str]:
    following = (words[number] for number in range(at, len(words)))
    numbers = list(takewhile(_NUMBER.fullmatch, following))
    return numbers or [word for word in words[at : at + 1] if not _is_option(word)]


def _is_option(word: str) -> bool:
    return word == "--" or _is_dashed(word) or bool(_ASSIGNED.fullmatch(word))


def _is_dashed(word: str) -> bool:
    return word.startswith("-") and word.strip("-") != "" and not _NUMBER.fullmatch(word)
