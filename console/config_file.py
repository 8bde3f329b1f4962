"""The console's tables of ``config.toml``: what they may say, and every problem with its line."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launcher import settings as launcher_settings
from launcher.errors import SpecError

VARIABLES = {"theme": "RANKDECK_THEME", "mouse": "RANKDECK_MOUSE", "ascii": "RANKDECK_ASCII"}
LOOK: Mapping[str, object] = {"theme": "", "mouse": True, "ascii": False, "timestamps": ""}
"""What ``[console]`` may say, with the defaults."""

FORM: Mapping[str, object] = {"mode": "local", "num_processes": "1", "gpu": "auto", "spark": "", "env": {}}
"""What ``[defaults]`` may say, with the defaults."""

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: the line of the file, or 0 if it is no line's, and a sentence."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Config:
    """The file as read: its tables, where each key stands, and what is wrong."""

    path: Path
    tables: Mapping[str, Any]
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]

    def line(self, *keys: str) -> int:
        """The line of a key, or of the nearest thing around it; 0 if there is none."""
        parts = ".".join(keys).split(".")
        paths = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.lines[path] for path in paths if path in self.lines), 0)

    def origin(self, *keys: str) -> str:
        """Where a key's value comes from, for a person."""
        return f"{self.path.name}:{self.line(*keys)}"


def read(environ: Mapping[str, str] = os.environ) -> Config:
    """The file, and everything that is wrong with it but for names of keys and themes."""
    path = launcher_settings.config_file(environ)
    try:
        text = path.read_text(encoding="utf-8")
        tables = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        text, tables = "", {}
    except (OSError, ValueError, RecursionError) as error:
        return Config(path, {}, {}, (_unreadable(path, error),))
    config = Config(path, tables, _places(text), ())
    found = (Problem(config.line(*keys), why) for keys, why in _complaints(config, environ))
    return Config(path, tables, config.lines, tuple(sorted(found, key=lambda p: p.line)))


def _unreadable(path: Path, error: Exception) -> Problem:
    at = re.search(r" ?\(at line (\d+), column \d+\)", str(error))
    if isinstance(error, OSError) or at is None:
        return Problem(0, f"{path} cannot be read: {error}")
    return Problem(int(at[1]), str(error).replace(at[0], ""))


_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER, _SETTING = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]"), re.compile(rf"\s*({_PATH})\s*=")


def _places(text: str) -> dict[str, int]:
    """The line of every table and key, by its dotted name: tomllib does not tell."""
    places: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            places.setdefault(table, number)
        elif setting := _SETTING.match(line):
            parts = f"{table}.{_dotted(setting[1])}".lstrip(".").split(".")
            for count in range(len(parts), 0, -1):
                places.setdefault(".".join(parts[:count]), number)
    return places


def _dotted(path: str) -> str:
    return ".".join(name.strip("\"'") for name in re.findall(_NAME, path))


Complaint = tuple[tuple[str, ...], str]


def _complaints(config: Config, environ: Mapping[str, str]) -> Iterator[Complaint]:
    for keys, error in launcher_settings.complaints(config.tables, "the file"):
        yield keys, str(error)
    for check, table in ((look_problem, "console"), (form_problem, "defaults")):
        for key, value in table_of(config, table).items():
            if why := check(key, value):
                yield (table, key), f"{table}.{key} {why}"
    for key, value in flat(table_of(config, "keys")).items():
        if not isinstance(value, str):
            yield ("keys", key), f"keys.{key} must be a key's name in quotes, not {value!r}"
    yield from _wrong_variables(environ)


def _wrong_variables(environ: Mapping[str, str]) -> Iterator[Complaint]:
    for variable, name in launcher_settings.VARIABLES.items():
        if environ.get(variable):
            try:
                launcher_settings.from_text(name, environ[variable])
            except SpecError as error:
                yield (), str(error)
    for key, variable in VARIABLES.items():
        if environ.get(variable) and value_of(key, environ[variable]) is None:
            yield (), f"{variable} must be 1 or 0, not {environ[variable]!r}"


def table_of(config: Config, name: str) -> Mapping[str, Any]:
    """A table of the file; empty if there is none."""
    table = config.tables.get(name, {})
    return table if isinstance(table, dict) else {}


def flat(table: Mapping[str, Any]) -> dict[str, object]:
    """Nested tables by dotted names: ``run.stop = "x"`` without quotes makes one."""
    found: dict[str, object] = {}
    left: list[tuple[str, Mapping[str, Any]]] = [("", table)]
    for prefix, inner in left:
        for key, value in inner.items():
            if isinstance(value, dict):
                left.append((f"{prefix}{key}.", value))
            else:
                found[f"{prefix}{key}"] = value
    return found


def look_problem(key: str, value: object) -> str | None:
    """Why a setting of ``[console]`` cannot be, as the rest of a sentence; None if it can."""
    if key not in LOOK:
        return f"is no setting; there are {', '.join(LOOK)}"
    if key == "timestamps":
        return _one_of(["", "clock", "since start"])(value)
    kind = type(LOOK[key])
    noun = "true or false" if kind is bool else "a name in quotes"
    return None if isinstance(value, kind) else f"must be {noun}, not {value!r}"


def form_problem(key: str, value: object) -> str | None:
    """Why a field of ``[defaults]`` cannot be, as the rest of a sentence; None if it can."""
    if key not in FORM:
        return f"is no field of the form; there are {', '.join(FORM)}"
    return _FIELDS[key](value)


def _one_of(values: Sequence[str]) -> Callable[[object], str | None]:
    return lambda value: None if value in values else f"must be one of {_list(values)}, not {value!r}"


def _list(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def _count_problem(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return f"must be a number or MIN:MAX, not {value!r}"
    from launcher.spec import world_size

    try:
        _, most = world_size(str(value))
    except SpecError as error:
        return f"cannot be: {error}"
    return None if most >= 1 else f"must be at least 1, not {value!r}"


def _mode_problem(value: object) -> str | None:
    from launcher.spec import Mode

    return _one_of([str(mode) for mode in Mode])(value)


def _env_problem(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"must be a table of variables, not {value!r}"
    for name, text in value.items():
        if not name or "=" in name or "\0" in name:
            return f"cannot have a variable {name!r}"
        if isinstance(text, bool) or not isinstance(text, (str, int, float)) or "\0" in str(text):
            return f"must give {name} a text, not {text!r}"
    return None


_FIELDS: Mapping[str, Callable[[object], str | None]] = {
    "mode": _mode_problem,
    "num_processes": _count_problem,
    "gpu": _one_of(["auto", "yes", "no"]),
    "spark": lambda value: None if isinstance(value, str) else f"must be an address, not {value!r}",
    "env": _env_problem,
}


def value_of(key: str, text: str) -> object:
    """What a variable's text means for a setting of the console; None if nothing."""
    if isinstance(LOOK[key], str):
        return text
    return True if text.lower() in _YES else False if text.lower() in _NO else None
