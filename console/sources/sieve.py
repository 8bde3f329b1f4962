"""Which lines of output somebody wants to see: by what they say, and by how bad it is."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass

from console.sources.expression import Expression

_ERROR = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|Traceback|[A-Z]\w+(?:Error|Exception)\b)")
_WARNING = re.compile(r"\bWARN(?:ING)?\b|\b\w+Warning:")
_SAYS_ERROR = (b"ERROR", b"CRITICAL", b"FATAL", b"Traceback", b"Error", b"Exception")
_SAYS_WARNING = (b"WARN", b"Warning:")
_ATOM = re.compile(r"(?:\\[dDwWsSbBAZ]|[.^$]|\\([^\w\s])|([^\\|()\[\]{}*+?.^$]))([*+?]*)", re.ASCII)


class Level(enum.IntEnum):
    """How bad a line is, as far as its words tell."""

    ALL = 0
    WARNING = 1
    ERROR = 2

    @property
    def after(self) -> Level:
        """The next one, or the first after the last."""
        return Level((self + 1) % len(Level))


def level_of(text: str) -> Level:
    """What the words of a line say."""
    if _ERROR.search(text):
        return Level.ERROR
    return Level.WARNING if _WARNING.search(text) else Level.ALL


@dataclass(frozen=True, slots=True)
class Sieve:
    """What passes: lines of a level or worse in which an expression is found, or is not.

    Attributes:
        needles: a line of printable ASCII that passes has one of these; none if that cannot be told.
        folded: whether the needles stand for their capitals too.
    """

    pattern: Expression | None = None
    level: Level = Level.ALL
    invert: bool = False
    needles: tuple[bytes, ...] = ()
    folded: bool = False

    def passes(self, text: str) -> bool:
        """Whether a line passes.

        Raises:
            TooSlowError: that takes too long.
        """
        return self._is_bad_enough(text) and (
            self.pattern is None or self.pattern.found_in(text) != self.invert
        )

    def seems_to_pass(self, text: str) -> bool:
        """The same at a glance, for a line that is about to be shown: what takes longer is not found."""
        return self._is_bad_enough(text) and (
            self.pattern is None or bool(self.pattern.spans(text)) != self.invert
        )

    def _is_bad_enough(self, text: str) -> bool:
        return not self.level or level_of(text) >= self.level


def sieve_of(text: str, level: Level = Level.ALL, *, invert: bool = False) -> Sieve:
    """A sieve for a regular expression. Small letters match capitals too. An empty one lets all through.

    Raises:
        ValueError: the expression is none.
    """
    folded = not any(c.isupper() for c in text)
    pattern = Expression(text, folded=folded) if text else None
    if pattern is not None and not invert and (needle := required(text)):
        return Sieve(pattern, level, needles=(needle.encode(),), folded=folded)
    return Sieve(pattern, level, invert, needles=_needles(level))


def filter_of(text: str, level: Level = Level.ALL) -> Sieve:
    """The same as a filter is typed: after an exclamation mark, what does not match passes.

    Raises:
        ValueError: the expression is none.
    """
    return sieve_of(text.removeprefix("!"), level, invert=text.startswith("!") and len(text) > 1)


def required(expression: str) -> str:
    """The longest text that every match of a regular expression has; empty where that is not seen at once."""
    runs, at = [""], 0
    while at < len(expression):
        atom = _ATOM.match(expression, at)
        if atom is None or not expression.isascii():
            return ""
        literal, often, at = atom[1] or atom[2] or "", atom[3], atom.end()
        runs[-1] += literal if not often or often.startswith("+") else ""
        if often or not literal:
            runs.append("")
    return max(runs, key=len)


def _needles(level: Level) -> tuple[bytes, ...]:
    if level is Level.ALL:
        return ()
    return _SAYS_ERROR if level is Level.ERROR else (*_SAYS_ERROR, *_SAYS_WARNING)
