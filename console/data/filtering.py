"""The filter language of lists, typed on a screen or built from a command's flags.

``llama state:failed !user:ada temp>75``: a subject must pass every term. A bare word must occur in the
subject's texts, ``name:value`` tests a field, ``name>number`` and ``name<number`` compare a figure (also with
``>=`` and ``<=``), and ``!`` inverts the term after it. Words in quotation marks form one term. A term
without its value, as while typing, is ignored. Pure.
"""

from __future__ import annotations

import operator
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from launcher.errors import SpecError

S = TypeVar("S")
Test: TypeAlias = Callable[[S], bool]
Unnamed: TypeAlias = Callable[[str, str, str], Test[S] | None]
"""What a term with a name that no field or figure has means: name, sign and value; None if only its words."""

_NOTHING = frozenset({"", "!", "<", ">", "<=", ">="})
_TERM = re.compile(r"([^\s:<>]+)(:|[<>]=?)(.*)", re.DOTALL)
_SIGNS: Mapping[str, Callable[[float, float], bool]] = {
    ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NamedField(Generic[S]):
    """A field that ``name:value`` tests.

    Attributes:
        name: the name before the colon.
        takes: the valid values, in words.
        test: returns the test for a value; it raises ValueError for an invalid value.
        examples: terms for a line of help.
    """

    name: str
    takes: str
    test: Callable[[str], Test[S]]
    examples: tuple[str, ...] = ()

    def means(self, value: str, *, option: str = "") -> Test[S]:
        """The test for a value, which was typed in a term, or as the value of a command's `option`.

        Raises:
            SpecError: the value is invalid; the message names the valid ones.
        """
        try:
            return self.test(value)
        except SpecError:
            raise
        except ValueError:
            raise SpecError(f"{option or self.name + ':'} takes {self.takes}, not {value!r}") from None


@dataclass(frozen=True, slots=True)
class Figure(Generic[S]):
    """A figure that ``name>number`` and ``name<number`` compare.

    Attributes:
        name: the name before the sign.
        value: the figure of a subject; an unknown one is neither greater nor less.
        units: letters that may follow the number.
        read: reads a number that is no plain one, such as a size; it raises ValueError or SpecError.
    """

    name: str
    value: Callable[[S], float | None]
    units: str = ""
    read: Callable[[str], float] | None = None

    def compared(self, sign: str, number: str) -> Test[S]:
        """The test for a comparison.

        Raises:
            SpecError: `number` is not a number.
        """
        try:
            limit = float(number.lower().rstrip(self.units)) if self.read is None else self.read(number)
        except (ValueError, SpecError):
            example = f"{self.name}{sign}75"
            raise SpecError(
                f"a figure is compared with a number, such as {example}, not {number!r}"
            ) from None
        return lambda subject: _compare(self.value(subject), sign, limit)


def _compare(value: float | None, sign: str, limit: float) -> bool:
    return value is not None and _SIGNS[sign](value, limit)


@dataclass(frozen=True, slots=True)
class Filter(Generic[S]):
    """A parsed filter.

    Attributes:
        text: the typed text without surrounding spaces.
        tests: one test for each term.
    """

    text: str = ""
    tests: tuple[Test[S], ...] = ()

    def accepts(self, subject: S) -> bool:
        """Whether the subject passes every test."""
        return all(test(subject) for test in self.tests)


def parse_filter(
    text: str,
    texts: Callable[[S], str],
    fields: Sequence[NamedField[S]] = (),
    figures: Sequence[Figure[S]] = (),
    unnamed: Unnamed[S] | None = None,
) -> Filter[S]:
    """Parse a filter.

    Args:
        text: the typed text, finished or not.
        texts: returns the text of a subject in which bare words are searched, in lower case.
        fields: the fields that terms can name.
        figures: the figures that terms can compare.
        unnamed: the meaning of terms with another name; without it, they are words.

    Raises:
        SpecError: a value is invalid; the message names the valid ones.
    """
    named, compared = {f.name: f for f in fields}, {f.name: f for f in figures}
    tests = [_test(word, texts, named, compared, unnamed) for word in _words(text)]
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
    unnamed: Unnamed[S] | None,
) -> Test[S] | None:
    """The test of one term; None for an unfinished term."""
    if word in _NOTHING:
        return None
    if word.startswith("!"):
        test = _test(word[1:], texts, fields, figures, unnamed)
        return None if test is None else lambda subject: not test(subject)
    if match := _TERM.fullmatch(word):
        name, sign, value = match[1].lower(), match[2], match[3]
        if sign == ":" and name in fields:
            return fields[name].means(value) if value else None
        if sign != ":" and name in figures:
            return figures[name].compared(sign, value) if value else None
        if unnamed is not None and not value:
            return None
        if unnamed is not None and (meant := unnamed(match[1], sign, value)) is not None:
            return meant
    part = word.lower()
    return lambda subject: part in texts(subject)


def help_line(fields: Sequence[NamedField[S]]) -> str:
    """One line of help on what can be typed."""
    examples = [example for field in fields for example in field.examples]
    return f"words, {', '.join(examples)}; ! before one inverts it"
