"""The line of a script's arguments, and the values of its options in it: read from it, and written into it.

The line is what is launched. Writing a value changes only the words of that option; all else stays as a
person typed it, quotes included. Pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field

from .option import ScriptOption

_WORD = re.compile(r"""(?:[^ \t\r\n'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_NUMBER = re.compile(r"-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")


@dataclass(frozen=True, slots=True)
class Word:
    """A word of a line, and where it stands."""

    text: str
    start: int
    end: int


@dataclass(slots=True)
class Given:
    """An option as it is given once: its name as typed, its values, and the numbers of its words."""

    option: ScriptOption
    name: str
    values: list[str]
    first: int
    last: int
    joined: bool = False


@dataclass(slots=True)
class ArgumentLine:
    """A line that has been read.

    Attributes:
        given: each option that is given, in the order of the line.
        rest: the numbers of words that belong to no option.
        command: the subcommand that is given; empty for none.
        ended: the number of the word ``--``, after which nothing is an option; else the number of words.
    """

    words: list[Word]
    given: list[Given] = field(default_factory=list)
    rest: list[int] = field(default_factory=list)
    command: str = ""
    ended: int = 0

    def of(self, option: ScriptOption) -> list[Given]:
        """Where an option is given."""
        return [each for each in self.given if each.option == option]

    def value(self, option: ScriptOption) -> str | None:
        """The value of an option as a person would type it into its field; None if it is not given."""
        given = self.of(option)
        if not given:
            return None
        if option.counts:
            return str(sum(_times(each) for each in given))
        last = given[-1]
        if option.switch:
            return str(last.name not in option.off) if not last.values else last.values[0].capitalize()
        if option.repeats:
            return shlex.join(value for each in given for value in each.values)
        return shlex.join(last.values) if option.listed else "".join(last.values[:1])


def split_line(text: str) -> list[Word] | None:
    """The words of a line, split as a shell would; None for an open quotation."""
    words, at = [], 0
    try:
        for match in _WORD.finditer(text):
            if text[at : match.start()].strip(" \t\r\n"):
                return None
            words.append(Word("".join(shlex.split(match[0])), match.start(), match.end()))
            at = match.end()
    except ValueError:
        return None
    return None if text[at:].strip(" \t\r\n") else words


def suited(options: Sequence[ScriptOption], command: str) -> list[ScriptOption]:
    """The options that may be given with a subcommand, or before one is chosen."""
    return [option for option in options if option.command in ("", command)]


def read_line(options: Sequence[ScriptOption], text: str) -> ArgumentLine | None:
    """What is given in a line; None if it cannot be split."""
    words = split_line(text)
    return None if words is None else _LineReader(options, words).line


class _LineReader:
    """Reads words from left to right, as the libraries do."""

    def __init__(self, options: Sequence[ScriptOption], words: list[Word]) -> None:
        self._options = options
        self._texts = [word.text for word in words]
        self.line = ArgumentLine(words, ended=len(words))
        self._known = suited(options, "")
        self._names = self._names_of(self._known)
        self._commands = next((o for o in options if o.commands), None)
        self._loose: list[int] = []
        self._read()
        self._place(self._loose)

    @staticmethod
    def _names_of(options: Sequence[ScriptOption]) -> dict[str, ScriptOption]:
        return {name: o for o in options if not o.positional for name in (*o.names, *o.off)}

    def _read(self) -> None:
        at, only_values = 0, False
        while at < len(self._texts):
            text = self._texts[at]
            if only_values or not text.startswith("-") or _NUMBER.match(text) or text == "-":
                at = self._bare(at)
            elif text == "--":
                only_values, self.line.ended, at = True, at, at + 1
            else:
                at = self._dashed(at)

    def _bare(self, at: int) -> int:
        """Read a word without dashes: an override, a subcommand, or a value for a positional argument."""
        text = self._texts[at]
        key, equals, value = text.lstrip("+~").partition("=")
        option = self._names.get(key)
        if equals and option is not None and option.assigned and not text.startswith("~"):
            self.line.given.append(Given(option, key, [value], at, at, joined=True))
        elif self._commands is not None and not self.line.command and text in self._commands.choices:
            self._place(self._loose)
            self._loose = []
            self.line.given.append(Given(self._commands, text, [text], at, at))
            self.line.command = text
            self._known = suited(self._options, text)
            self._names = self._names_of(self._known)
        else:
            self._loose.append(at)
        return at + 1

    def _dashed(self, at: int) -> int:
        """Read a word with dashes, and the values that follow it."""
        text = self._texts[at]
        name, equals, value = text.partition("=")
        option = self._named(name)
        if option is None:
            return self._short(at)
        if equals:
            self.line.given.append(Given(option, name, [value], at, at, joined=True))
            return at + 1
        last = at + (0 if option.flag or name in option.off else self._values(option, at + 1))
        self.line.given.append(Given(option, name, self._texts[at + 1 : last + 1], at, last))
        return last + 1

    def _named(self, name: str) -> ScriptOption | None:
        """The option of this name, or the only one that begins with it."""
        if name in self._names:
            return self._names[name]
        if not name.startswith("--") or len(name) < 3:
            return None
        near = {id(o): o for n, o in self._names.items() if n.startswith(name)}
        return next(iter(near.values())) if len(near) == 1 else None

    def _short(self, at: int) -> int:
        """Read ``-l0.1`` and ``-vvv``; anything else belongs to no option."""
        text = self._texts[at]
        option = self._names.get(text[:2])
        if text.startswith("--") or option is None:
            self.line.rest.append(at)
        elif option.flag and set(text[1:]) == {text[1]}:
            self.line.given.append(Given(option, text, [], at, at))
        elif option.flag:
            self.line.rest.append(at)
        else:
            self.line.given.append(Given(option, text[:2], [text[2:]], at, at, joined=True))
        return at + 1

    def _values(self, option: ScriptOption, start: int) -> int:
        """How many of the words from `start` are the option's values."""
        most = {"": 1, "?": 1, "*": len(self._texts), "+": len(self._texts)}.get(option.many)
        most = int(option.many) if most is None else most
        count = 0
        while count < most and start + count < len(self._texts):
            text = self._texts[start + count]
            if text == "--" or self._is_option(text, sure=option.many in ("", "1") or option.many.isdigit()):
                break
            if (
                option.many == "?"
                and option.switch
                and text.lower() not in ("true", "false", "1", "0", "yes", "no")
            ):
                break
            count += 1
        return count

    def _is_option(self, text: str, *, sure: bool) -> bool:
        """Whether a word begins another option; where a value must follow, only if it surely does."""
        if not text.startswith("-") or _NUMBER.match(text) or text == "-":
            return False
        return self._named(text.partition("=")[0]) is not None if sure else True

    def _place(self, loose: list[int]) -> None:
        """Give words to the positional arguments, in their order; the last ones may be left over."""
        mine = [o for o in self._known if o.positional and not o.commands and o.command == self.line.command]
        left = list(loose)
        for number, option in enumerate(mine):
            later = sum(1 for o in mine[number + 1 :] if o.required)
            count = {"": 1, "?": 1}.get(
                option.many, len(left) if not option.many.isdigit() else int(option.many)
            )
            taken = left[: max(min(count, len(left) - later), int(option.required))]
            left = left[len(taken) :]
            if taken:
                values = [self._texts[at] for at in taken]
                self.line.given.append(Given(option, "", values, taken[0], taken[-1]))
        self.line.rest += left


def _times(given: Given) -> int:
    return 1 if given.name.startswith("--") else len(given.name) - 1


# --- writing ---------------------------------------------------------------------------------------------


def write_value(options: Sequence[ScriptOption], text: str, option: ScriptOption, value: str) -> str | None:
    """The line with another value of an option; an empty value, or the default, takes its words away.

    None if the line or the value cannot be split, or if a positional argument before this one is not given.
    """
    line = read_line(options, text)
    if line is None:
        return None
    given = line.of(option)
    if value == line.value(option):
        return text
    unsaid = not value or value == option.typed_default or (option.default is None and value == "False")
    if option.commands or (option.positional and (given or not unsaid)):
        return _positioned(options, line, text, option, "" if unsaid and not option.commands else value)
    words = [] if unsaid else _words(option, value, given[-1] if given else None)
    if words is None:
        return None
    if not words or given:
        return _replaced(text, line, given, words)
    return _inserted(text, line, option, words)


def _words(option: ScriptOption, value: str, before: Given | None) -> list[str] | None:
    """The words that give a value, by the name that a person used before; None for an open quotation."""
    name = next((n for n in option.names if n.startswith("--")), option.names[0])
    if before is not None and before.name in option.names:
        name = before.name
    if option.assigned:
        return [f"{name}={value}"]
    if option.counts:
        times = int(value) if value.isdecimal() and int(value) <= 20 else 0
        return [name] * times
    if option.flag:
        return [name] if value == "True" else list(option.off[:1])
    values = _split(value) if option.listed else [value]
    if values is None:
        return None
    if option.repeats:
        return [word for each in values for word in _pair(name, [each])]
    return _pair(name, values, joined=before is not None and before.joined)


def _pair(name: str, values: list[str], *, joined: bool = False) -> list[str]:
    """A name and its values; one value that looks like an option is joined to the name."""
    if len(values) == 1 and (joined or values[0].startswith("-")):
        return [f"{name}={values[0]}" if name.startswith("--") else f"{name}{values[0]}"]
    return [name, *values]


def _split(value: str) -> list[str] | None:
    words = split_line(value)
    return None if words is None else [word.text for word in words]


def _replaced(text: str, line: ArgumentLine, given: list[Given], words: Sequence[str]) -> str:
    """The line with words in place of those that gave the option last, and without its other ones."""
    pieces = [(each.first, each.last, "") for each in given[:-1]]
    pieces += [(each.first, each.last, shlex.join(words)) for each in given[-1:]]
    for first, last, new in reversed(pieces):
        start, end = line.words[first].start, line.words[last].end
        if not new:
            while start > 0 and text[start - 1] in " \t":
                start -= 1
            if start == 0:
                while end < len(text) and text[end] in " \t":
                    end += 1
        text = text[:start] + new + text[end:]
    return text


def _inserted(text: str, line: ArgumentLine, option: ScriptOption, words: Sequence[str]) -> str:
    """The line with words at its end, or before what must come after them: a subcommand, or ``--``."""
    before = [number for number, word in enumerate(line.words) if word.text == "--"][:1]
    if not option.command:
        before += [given.first for given in line.given if given.option.commands]
    if not before:
        return " ".join([*filter(None, [text.rstrip()]), shlex.join(words)])
    at = line.words[min(before)].start
    return f"{text[:at]}{shlex.join(words)} {text[at:]}"


def _positioned(
    options: Sequence[ScriptOption], line: ArgumentLine, text: str, option: ScriptOption, value: str
) -> str | None:
    """The line with another value of a positional argument, or with another subcommand."""
    given = line.of(option)
    values = [] if not value else _split(value) if option.listed else [value]
    if values is None:
        return None
    mine = [o for o in options if o.positional and o.command == option.command and not o.commands]
    behind = mine[mine.index(option) + 1 :] if option in mine else []
    if given:
        if not values and any(line.of(o) for o in behind):
            return None  # the next argument would take this one's place
        return _replaced(text, line, given, values)
    before = mine[: mine.index(option)] if option in mine else mine
    if any(not line.of(o) for o in before if not option.commands):
        return None
    ends = [line.words[g.last].end for o in before for g in line.of(o)]
    ends += [line.words[g.last].end for g in line.given if g.option.commands and option.command]
    if option.commands:
        return " ".join(filter(None, [text.rstrip(), shlex.join(values)]))
    return _put(text, max(ends, default=0), shlex.join(values))


def _put(text: str, at: int, words: str) -> str:
    """The text with words put in at a place between two others."""
    return " ".join(filter(None, [text[:at].rstrip(" "), words, text[at:].lstrip(" ")]))
