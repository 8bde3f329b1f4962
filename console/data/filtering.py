"""The language in which lists are narrowed: what is typed on a screen, and what flags of a command ask for.

``llama state:failed !user:ada temp>75`` asks for all of these at once: a bare word may stand anywhere in a
subject's texts, ``name:value`` asks a field, ``name>number`` and ``name<number`` compare a figure, and what
follows ``!`` must not be so. Words in quotation marks belong together. What is not finished yet, as one
types it, asks for nothing. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from launcher.errors import SpecError

S = TypeVar("S")
Test: TypeAlias = Callable[[S], bool]

_NOTHING = frozenset({"", "!", "<", ">"})
_TERM = re.compile(r"(\w+)([:<>])(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamedField(Generic[S]):
    """What ``name:value`` asks for.

    Attributes:
        name: by which it is asked for.
        takes: the values that mean something, in words.
        test: the test that a value stands for; it raises a ValueError for one that means nothing.
        examples: of terms, for a line of help.
    """

    name: str
    takes: str
    test: Callable[[str], Test[S]]
    examples: tuple[str, ...] = ()

    def means(self, value: str, *, option: str = "") -> Test[S]:
        """The test that a value stands for, typed as a term, or as the value of a command's option.

        Raises:
            SpecError: it means nothing; the sentence says what would.
        """
        try:
            return self.test(value)
        except ValueError:
            raise SpecError(f"{option or self.name + ':'} takes {self.takes}, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class Figure(Generic[S]):
    """What ``name>number`` asks for.

    Attributes:
        name: by which it is asked for.
        value: the figure of a subject; one that is not known is neither greater nor less.
        units: letters that may stand behind the number.
    """

    name: str
    value: Callable[[S], float | None]
    units: str = ""

    def compared(self, sign: str, number: str) -> Test[S]:
        """The test that a comparison stands for.

        Raises:
            SpecError: that is no number.
        """
        try:
            limit = float(number.lower().rstrip(self.units))
        except ValueError:
            example = f"{self.name}{sign}75"
            raise SpecError(
                f"a figure is compared with a number, such as {example}, not {number!r}"
            ) from None
        return lambda subject: _lies(self.value(subject), sign, limit)


def _lies(value: float | None, sign: str, limit: float) -> bool:
    return value is not None and (value > limit if sign == ">" else value < limit)


@dataclass(frozen=True, slots=True)
class Filter(Generic[S]):
    """What passes every test.

    Attributes:
        text: as it was typed, without what surrounds it.
        tests: one a term.
    """

    text: str = ""
    tests: tuple[Test[S], ...] = ()

    def accepts(self, subject: S) -> bool:
        """Whether it passes."""
        return all(test(subject) for test in self.tests)


def parse_filter(
    text: str,
    texts: Callable[[S], str],
    fields: Sequence[NamedField[S]] = (),
    figures: Sequence[Figure[S]] = (),
) -> Filter[S]:
    """What a text asks for.

    Args:
        text: as it was typed, finished or not.
        texts: everything in which a word may stand, in small letters.
        fields: what can be asked for by name.
        figures: what can be compared by name.

    Raises:
        SpecError: a value means nothing; the sentence says what would.
    """
    named, compared = {f.name: f for f in fields}, {f.name: f for f in figures}
    tests = [_test(word, texts, named, compared) for word in _words(text)]
    return Filter(text.strip(), tuple(test for test in tests if test is not None))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that is still open
        return text.replace('"', " ").replace("'", " ").split()


def _test(
    word: str,
    texts: Callable[[S], str],
    fields: Mapping[str, NamedField[S]],
    figures: Mapping[str, Figure[S]],
) -> Test[S] | None:
    """The test of one word; none of one that asks for nothing yet."""
    if word in _NOTHING:
        return None
    if word.startswith("!"):
        test = _test(word[1:], texts, fields, figures)
        return None if test is None else lambda subject: not test(subject)
    if match := _TERM.fullmatch(word):
        name, sign, value = match[1].lower(), match[2], match[3]
        if sign == ":" and name in fields:
            return fields[name].means(value) if value else None
        if sign != ":" and name in figures:
            return figures[name].compared(sign, value) if value else None
    part = word.lower()
    return lambda subject: part in texts(subject)


def help_line(fields: Sequence[NamedField[S]]) -> str:
    """What can be typed, in a line."""
    examples = [example for field in fields for example in field.examples]
    return f"words, {', '.join(examples)}; ! before one inverts it"
