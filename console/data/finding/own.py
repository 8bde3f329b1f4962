"""Commands of the user in ``config.toml``: what they are, what is wrong with them, and their arguments.

[commands.code]
keys = "ctrl+g"
argv = ["code", "-g", "{file}:{line}"]
about = "the failing line in the editor"
where = ["run"]
terminal = false

A command is an argv. What stands for a placeholder becomes a part of one argument, whatever is in it: no
shell reads it, and it cannot become an option.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from launcher.errors import SpecError

from ...sanitize import escaped

PLACEHOLDERS = {
    "run": "the run's id",
    "folder": "its folder",
    "rank": "the rank under the cursor",
    "host": "its host",
    "pid": "its process",
    "file": "the file that failed, else the target's",
    "line": "the line in it",
}
"""Each placeholder, and what stands for it."""
SCREENS = ("launch", "run", "history", "cluster")

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
_PART = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_LONGEST = 80


@dataclass(frozen=True, slots=True)
class OwnCommand:
    """A valid command.

    Attributes:
        name: its name in the file.
        argv: the program and its arguments, with placeholders.
        keys: the keys that run it, as in the file; empty for none.
        about: what it does, for the help.
        where: the screens on which it can be run.
        terminal: whether it needs the terminal; else it runs in the background.
    """

    name: str
    argv: tuple[str, ...]
    keys: str = ""
    about: str = ""
    where: tuple[str, ...] = SCREENS
    terminal: bool = False

    @property
    def says(self) -> str:
        """What it does; without a text of the user, its argv."""
        return self.about or " ".join(self.argv)

    @property
    def needs(self) -> frozenset[str]:
        """The placeholders in its arguments."""
        return frozenset(name for word in self.argv for name in _names(word))


def own_commands(table: Mapping[str, Any]) -> dict[str, OwnCommand]:
    """The valid commands of the table ``commands``, by name."""
    found = {}
    for name, settings in table.items():
        if not any(_problems(name, settings)):
            lists: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in settings.items()}
            found[name] = OwnCommand(name, **lists)
    return found


def own_problems(table: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], str]]:
    """What is wrong in the table ``commands``: the place of each error, and a sentence."""
    for name, settings in table.items():
        for key, why in _problems(name, settings):
            place = ("commands", name, key) if key else ("commands", name)
            yield place, f"{'.'.join(place)} {why}"


def _problems(name: str, settings: object) -> Iterator[tuple[str, str]]:
    """The key of each error, empty for the command itself, and the rest of its sentence."""
    if not _NAME.fullmatch(name):
        yield "", "is no name for a command: it has small letters, digits, - and _, at most 32"
    elif not isinstance(settings, dict):
        yield "", f"must be a table with an argv, not {_shown(settings)}"
    else:
        if "argv" not in settings:
            yield "", 'needs an argv, such as ["code", "{file}"]'
        for key, value in settings.items():
            if key not in _CHECKS:
                yield key, f"is no setting of a command; there are {', '.join(_CHECKS)}"
            elif why := _CHECKS[key](value):
                yield key, why


def _shown(value: object) -> str:
    return repr(value)[:_LONGEST]


def _argv_problem(value: object) -> str:
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        return f"must be a list of texts, the program first, not {_shown(value)}"
    if any("\0" in word for word in value):
        return "cannot hold a NUL character"
    if not value[0].strip() or any(_PART.finditer(value[0])):
        return f"must begin with a program, not {_shown(value[0])}"
    return next(filter(None, map(_word_problem, value)), "")


def _word_problem(word: str) -> str:
    for part in _PART.finditer(word):
        if part[1] is None and part[0] in "{}":
            return f"has a single {part[0]} in {_shown(word)}; a brace is written twice"
        if part[1] is not None and part[1] not in PLACEHOLDERS:
            known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
            return f"has {part[0][:_LONGEST]}, which is unknown; there are {known}, and {{{{ is a brace"
    return ""


def _text_problem(value: object) -> str:
    return "" if isinstance(value, str) else f"must be a text in quotes, not {_shown(value)}"


def _where_problem(value: object) -> str:
    fine = isinstance(value, list) and value and all(screen in SCREENS for screen in value)
    names = ", ".join(f'"{screen}"' for screen in SCREENS)
    return "" if fine else f"must be a list of {names}, not {_shown(value)}"


def _switch_problem(value: object) -> str:
    return "" if isinstance(value, bool) else f"must be true or false, not {_shown(value)}"


_CHECKS: Mapping[str, Callable[[object], str]] = {
    "keys": _text_problem,
    "argv": _argv_problem,
    "about": _text_problem,
    "where": _where_problem,
    "terminal": _switch_problem,
}


def _names(word: str) -> Iterator[str]:
    return (part[1] for part in _PART.finditer(word) if part[1] is not None)


def filled(command: OwnCommand, values: Mapping[str, str]) -> list[str]:
    """The argv of a command, with `values` in place of its placeholders.

    Raises:
        SpecError: a value is not known here, has control characters, or would be read as an option.
    """
    for name in sorted(command.needs):
        if not values.get(name):
            raise SpecError(f"{command.name} needs {{{name}}}, {PLACEHOLDERS[name]}: there is none here")
        if not values[name].isprintable():
            raise SpecError(f"{command.name} was not started: {{{name}}} is {_odd(values[name])}")
    argv = [_filled(word, values) for word in command.argv]
    for word, template in zip(argv, command.argv, strict=True):
        if word.startswith("-") and not template.startswith("-"):
            raise SpecError(f"{command.name} was not started: {_odd(word)} would be read as an option")
    return argv


def _odd(text: str) -> str:
    return f"'{escaped(text[:_LONGEST])}'"


def _filled(word: str, values: Mapping[str, str]) -> str:
    def of(part: re.Match[str]) -> str:
        return part[0][0] if part[1] is None else values[part[1]]

    return _PART.sub(of, word)


def shown_keys(commands: Mapping[str, OwnCommand]) -> Sequence[tuple[OwnCommand, str]]:
    """Each command with each of its keys."""
    pairs = ((command, key.strip()) for command in commands.values() for key in command.keys.split(","))
    return [(command, key) for command, key in pairs if key]
