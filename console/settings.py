"""The console's settings in ``config.toml``, and every problem in that file with its line.

[console]                [keys]                    [defaults]
theme = "rankdeck-dark"  run.stop = "ctrl+x"       mode = "cluster"
mouse = true             log.follow = "f,F"        num_processes = 8
ascii = false                                      gpu = "auto"
timestamps = "clock"     [columns]                 spark = "spark://head:7077"
                         ranks = ["state", "loss"] env.NCCL_DEBUG = "WARN"

``[defaults]`` may set every launch option, for the form and for `rankdeck run`. ``[commands.NAME]`` is a
command of the user, as `data.finding.own` describes it.
An option of the command line comes first, then ``RANKDECK_THEME``, ``RANKDECK_MOUSE`` and ``RANKDECK_ASCII``,
then the file. A wrong setting is reported and ignored; the other settings apply.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher import settings as launcher_settings
from launcher.errors import SpecError
from launcher.notify import settings as notify_settings
from launcher.notify.settings import NotifySettings

from .glyphs import wants_ascii

if TYPE_CHECKING:
    from launcher.spec.options import Option

    from .data.finding.own import OwnCommand  # noqa: TC004 (only for types: not every start needs it)
    from .data.launch.draft import Draft

DEFAULT = "default"
"""The origin of a value that no file, variable or option sets."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting's effective value, and where it comes from."""

    table: str
    key: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """The effective settings of a console.

    `theme` is empty for the default one. `keys` maps bindings' ids to keys, `form` launch options to texts,
    `columns` tables of the console to the names of their columns. `commands` are the user's own, by name.
    """

    theme: str = ""
    mouse: bool = True
    ascii: bool = False
    timestamps: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    notify: NotifySettings = field(default_factory=NotifySettings)
    commands: Mapping[str, OwnCommand] = field(default_factory=dict)
    columns: Mapping[str, Sequence[str]] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def load(
    options: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ
) -> ConsoleSettings:
    """The effective settings; `options` of the command line come first. Problems are listed, never raised."""
    config = read(environ)
    look = {entry.key: entry.value for entry in console_entries(config, environ, options)}
    problems = tuple(f"{config.path.name}:{p.line}: {p.text}" if p.line else p.text for p in config.problems)
    notify = notify_settings.chosen(table_of(config, notify_settings.TABLE))
    return ConsoleSettings(
        **look,  # type: ignore[arg-type]
        keys=keys_of(config),
        form=default_texts(config),
        notify=notify,
        commands=commands_of(config),
        columns=columns_of(config),
        problems=problems,
    )


def default_texts(config: Config) -> dict[str, str]:
    """The valid launch options of ``[defaults]``, as the user would type them."""
    table = table_of(config, "defaults")
    texts = {key: _typed(value) for key, value in table.items() if form_problem(key, value) is None}
    return {key: text for key, text in texts.items() if text}


def current_defaults() -> dict[str, str]:
    """The launch options of ``[defaults]`` in the file as it is now."""
    return default_texts(read())


def launch_defaults(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The launch options of ``[defaults]``, as the user would type them.

    Raises:
        SpecError: ``[defaults]`` has a problem: a launch must not silently ignore a default.
    """
    config = read(environ)
    for problem in config.problems:
        if problem.table == _LAUNCHES:
            at = f"{config.path}:{problem.line}: " if problem.line else ""
            raise SpecError(f"{at}{problem.text}", hint="--no-defaults leaves it aside")
    return default_texts(config)


def _typed(value: object) -> str:
    """A value as the user would type it into the form; variables as ``NAME=VALUE`` words."""
    if isinstance(value, Mapping):
        return shlex.join(f"{name}={text}" for name, text in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return shlex.join(value) if isinstance(value, list) else str(value)


def form_draft(settings: ConsoleSettings, workdir: Path) -> Draft | None:
    """The initial content of the launch form; None if the settings have no launch options."""
    form = settings.form
    if not form:
        return None
    from launcher.spec.modes import Mode

    from .data.launch.draft import EXTRAS, Draft

    usual = Draft()
    return Draft(
        processes=form.get("num_processes", usual.processes),
        mode=Mode(form.get("mode", usual.mode)),
        gpu=form.get("gpu", usual.gpu),
        spark=form.get("spark", usual.spark),
        extras={each.name: form[each.name] for each in EXTRAS if each.name in form},
        workdir=workdir,
    )


def keys_of(config: Config) -> dict[str, str]:
    """The keys that the file assigns to bindings, by the bindings' ids."""
    return {key: value for key, value in flat(table_of(config, "keys")).items() if isinstance(value, str)}


def commands_of(config: Config) -> dict[str, OwnCommand]:
    """The valid commands of the user, by name."""
    if not (table := table_of(config, "commands")):
        return {}
    from .data.finding.own import own_commands  # few have any

    return own_commands(table)


def command_entries(config: Config) -> Iterator[Entry]:
    """The settings of every valid command of the user, each with its origin."""
    for name in commands_of(config):
        for key, value in table_of(config, "commands")[name].items():
            yield Entry(f"commands.{name}", key, value, config.origin("commands", name, key))


COLUMNS = ("ranks", "history")
"""The tables of the console whose columns can be chosen: the keys of ``[columns]``."""


def columns_of(config: Config) -> dict[str, tuple[str, ...]]:
    """The valid columns that the file chooses, by table."""
    table = table_of(config, "columns")
    return {key: tuple(names) for key, names in table.items() if columns_problem(key, names) is None}


def columns_problem(key: str, names: object) -> str | None:
    """Why a list of ``[columns]`` is invalid, as the rest of a sentence; None if it is valid."""
    if key not in COLUMNS:
        return f"names no table; there are {', '.join(COLUMNS)}"
    if key == "ranks":
        from .data.ranks.columns import rank_columns_problem

        return rank_columns_problem(names)
    from .data.history.columns import run_columns_problem

    return run_columns_problem(names)


def column_entries(config: Config) -> Iterator[Entry]:
    """The effective columns of each table, each with its origin."""
    from .data.history import columns as of_runs
    from .data.ranks import columns as of_ranks

    chosen = columns_of(config)
    for key, usual in zip(COLUMNS, (of_ranks.USUAL, of_runs.USUAL), strict=True):
        origin = config.origin("columns", key) if key in chosen else DEFAULT
        yield Entry("columns", key, list(chosen.get(key, usual)), origin)


def console_entries(
    config: Config, environ: Mapping[str, str], options: Mapping[str, object] | None = None
) -> Iterator[Entry]:
    """The effective settings of ``[console]``, each with its origin."""
    table = table_of(config, "console")
    for key, default in LOOK.items():
        text, option = environ.get(VARIABLES.get(key, ""), ""), (options or {}).get(key)
        from_variable = value_of(key, text) if text else None
        if option is not None:
            yield Entry("console", key, option, "command line")
        elif from_variable is not None:
            yield Entry("console", key, from_variable, f"${VARIABLES[key]}")
        elif key in table and look_problem(key, table[key]) is None:
            yield Entry("console", key, table[key], config.origin("console", key))
        elif key == "ascii" and (locale := wants_ascii(environ)):
            yield Entry("console", key, True, f"${locale}")
        else:
            yield Entry("console", key, default, DEFAULT)


def notify_entries(config: Config) -> Iterator[Entry]:
    """The effective settings of ``[notify]``, each with its origin."""
    table = table_of(config, notify_settings.TABLE)
    for key, default in notify_settings.DEFAULTS.items():
        is_set = key in table and notify_settings.problem(key, table[key]) is None
        origin = config.origin(notify_settings.TABLE, key) if is_set else DEFAULT
        yield Entry(notify_settings.TABLE, key, table[key] if is_set else default, origin)


def form_entries(config: Config) -> Iterator[Entry]:
    """The effective defaults of all launch options, each with its origin."""
    table = table_of(config, "defaults")
    for key, option in _launch_options().items():
        is_set = key in table and form_problem(key, table[key]) is None
        origin = config.origin("defaults", key) if is_set else DEFAULT
        yield Entry("defaults", key, table[key] if is_set else _default_value(option), origin)


def _launch_options() -> dict[str, Option]:
    """The options that ``[defaults]`` may set, by key; of options that share a key, the first."""
    from launcher.spec.job import LAUNCH_OPTIONS

    options: dict[str, Option] = {}
    for each in LAUNCH_OPTIONS:
        if each.setting:
            options.setdefault(each.setting, each)
    return options


def _default_value(option: Option) -> object:
    """An option's default as it would stand in the file; an option without a default has an empty text."""
    types, default = option.kind.types, option.default
    if dict in types or list in types:
        return types[0](default)
    if isinstance(default, types) and type(default) is not str:
        return str(default) if str in types else default
    return "" if default is None and not option.kind.choices else option.text(default)


def launcher_entries(config: Config, environ: Mapping[str, str]) -> Iterator[Entry]:
    """The launcher's settings, each with its origin."""
    wrong = {keys for keys, _ in launcher_settings.complaints(config.tables, "the file")}
    variables = {name: variable for variable, name in launcher_settings.VARIABLES.items()}
    for table, values in launcher_settings.defaults().items():
        for key, default in values.items():
            own = table_of(config, table)
            variable = variables.get(key, "")
            if (number := _number(key, environ.get(variable, ""))) is not None:
                yield Entry(table, key, number, f"${variable}")
            elif key in own and (table, key) not in wrong:
                yield Entry(table, key, own[key], config.origin(table, key))
            else:
                yield Entry(table, key, default, DEFAULT)


def _number(key: str, text: str) -> float | None:
    try:
        return launcher_settings.from_text(key, text) if text else None
    except SpecError:
        return None


VARIABLES = {"theme": "RANKDECK_THEME", "mouse": "RANKDECK_MOUSE", "ascii": "RANKDECK_ASCII"}
LOOK: Mapping[str, object] = {"theme": "", "mouse": True, "ascii": False, "timestamps": ""}
"""The keys of ``[console]``, with their defaults."""

_YES, _NO = ("1", "true", "yes", "on"), ("0", "false", "no", "off")


@dataclass(frozen=True, slots=True)
class Problem:
    """One error: its line in the file, or 0 if it has none; a sentence; and the table that it is in."""

    line: int
    text: str
    table: str = ""


@dataclass(frozen=True, slots=True)
class Config:
    """The file as read: its tables, the line of each key, and its problems."""

    path: Path
    tables: Mapping[str, Any]
    lines: Mapping[str, int]
    problems: tuple[Problem, ...]

    def line(self, *keys: str) -> int:
        """The line of a key, or else of the nearest table around it; 0 if there is none."""
        parts = ".".join(keys).split(".")
        paths = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
        return next((self.lines[path] for path in paths if path in self.lines), 0)

    def origin(self, *keys: str) -> str:
        """The file and line of a key's value, for users."""
        return f"{self.path.name}:{self.line(*keys)}"


def read(environ: Mapping[str, str] = os.environ) -> Config:
    """Read the file, and check everything in it except the names of bindings and themes."""
    path = launcher_settings.config_file(environ)
    try:
        text = path.read_text(encoding="utf-8")
        import tomllib  # most users have no file

        tables = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        text, tables = "", {}
    except (OSError, ValueError, RecursionError) as error:
        return Config(path, {}, {}, (_unreadable(path, error),))
    config = Config(path, tables, _key_lines(text), ())
    problems = (Problem(config.line(*keys), why, *keys[:1]) for keys, why in _complaints(config, environ))
    return Config(path, tables, config.lines, tuple(sorted(problems, key=lambda p: p.line)))


_LAUNCHES = "defaults"
"""The table that a launch needs; a file that cannot be read is assumed to have one."""


def _unreadable(path: Path, error: Exception) -> Problem:
    at = re.search(r" ?\(at line (\d+), column \d+\)", str(error))
    if isinstance(error, OSError) or at is None:
        return Problem(0, f"{path} cannot be read: {error}", _LAUNCHES)
    return Problem(int(at[1]), str(error).replace(at[0], ""), _LAUNCHES)


_NAME = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_PATH = rf"{_NAME}(?:\s*\.\s*{_NAME})*"
_HEADER, _SETTING = re.compile(rf"\s*\[\[?\s*({_PATH})\s*\]"), re.compile(rf"\s*({_PATH})\s*=")


def _key_lines(text: str) -> dict[str, int]:
    """The line of every table and key, by its dotted name: tomllib does not report lines."""
    lines: dict[str, int] = {}
    table = ""
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _dotted(header[1])
            lines.setdefault(table, number)
        elif setting := _SETTING.match(line):
            parts = f"{table}.{_dotted(setting[1])}".lstrip(".").split(".")
            for count in range(len(parts), 0, -1):
                lines.setdefault(".".join(parts[:count]), number)
    return lines


def _dotted(path: str) -> str:
    return ".".join(name.strip("\"'") for name in re.findall(_NAME, path))


Complaint = tuple[tuple[str, ...], str]


def _complaints(config: Config, environ: Mapping[str, str]) -> Iterator[Complaint]:
    for keys, error in launcher_settings.complaints(config.tables, "the file"):
        yield keys, str(error)
    checks = (
        (look_problem, "console"),
        (columns_problem, "columns"),
        (form_problem, "defaults"),
        (notify_settings.problem, notify_settings.TABLE),
    )
    for check, table in checks:
        for key, value in table_of(config, table).items():
            if why := check(key, value):
                yield (table, key), f"{table}.{key} {why}"
    for key, value in flat(table_of(config, "keys")).items():
        if not isinstance(value, str):
            yield ("keys", key), f"keys.{key} must be a key's name in quotes, not {value!r}"
    if commands := table_of(config, "commands"):
        from .data.finding.own import own_problems

        yield from own_problems(commands)
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
    """The values of nested tables by dotted names: TOML reads ``run.stop = "x"`` as a nested table."""
    values: dict[str, object] = {}
    pending: list[tuple[str, Mapping[str, Any]]] = [("", table)]
    for prefix, inner in pending:
        for key, value in inner.items():
            if isinstance(value, dict):
                pending.append((f"{prefix}{key}.", value))
            else:
                values[f"{prefix}{key}"] = value
    return values


def look_problem(key: str, value: object) -> str | None:
    """Why a setting of ``[console]`` is invalid, as the rest of a sentence; None if it is valid."""
    if key not in LOOK:
        return f"is no setting; there are {', '.join(LOOK)}"
    if key == "timestamps":
        return _one_of(["", "clock", "since start"])(value)
    kind = type(LOOK[key])
    noun = "true or false" if kind is bool else "a name in quotes"
    return None if isinstance(value, kind) else f"must be {noun}, not {value!r}"


def form_problem(key: str, value: object) -> str | None:
    """Why an option of ``[defaults]`` is invalid, as the rest of a sentence; None if it is valid."""
    known = _launch_options()
    if (option := known.get(key)) is None:
        return f"is no option of a launch; there are {', '.join(known)}"
    kind = option.kind
    if kind.choices and bool not in kind.types:
        return _one_of(kind.choices)(value)
    if option.default is None and value == "":
        return None
    if not isinstance(value, kind.types) or isinstance(value, bool) is not (bool in kind.types):
        return f"must be {kind.noun}, not {value!r}"
    return _part_problem(value) or _value_problem(option, value)


def _part_problem(value: object) -> str | None:
    """Why the names or texts in a value are invalid, as the rest of a sentence; None if they are valid."""
    items = value.items() if isinstance(value, dict) else []
    for name, text in items:
        if not name or "=" in name or "\0" in name:
            return f"cannot have the name {name!r}"
        if isinstance(text, bool) or not isinstance(text, (str, int, float)) or "\0" in str(text):
            return f"must give {name} a text, not {text!r}"
    for text in value if isinstance(value, list) else [value]:
        if isinstance(value, list) and not isinstance(text, str):
            return f"must have texts in it, not {text!r}"
        if isinstance(text, str) and "\0" in text:
            return "cannot hold a NUL character"
    return None


def _value_problem(option: Option, value: object) -> str | None:
    """Why a launch option cannot have a value, as the rest of a sentence; None if it can."""
    from launcher.spec.job import RANKS

    try:
        parsed = option.read_text(_typed(value), Path.cwd())
        if option.kind is RANKS and parsed[1] < 1:
            return f"must be at least 1, not {value!r}"
        if option.kind is not RANKS:
            option.check(parsed)
    except SpecError as error:
        return f"is invalid: {error}"
    return None


def _one_of(values: Sequence[str]) -> Callable[[object], str | None]:
    return lambda value: None if value in values else f"must be one of {_list(values)}, not {value!r}"


def _list(values: Sequence[str]) -> str:
    return ", ".join(f'"{value}"' for value in values)


def value_of(key: str, text: str) -> object:
    """The value that an environment variable's text gives a setting; None if the text is invalid."""
    if isinstance(LOOK[key], str):
        return text
    return True if text.lower() in _YES else False if text.lower() in _NO else None
