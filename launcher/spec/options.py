"""Launch options: their names, how their values are read and written, and where they apply.

A field of `JobSpec` that people can set has an `Option` in its metadata. The options of commands, the fields
of forms, settings, recorded runs and `Distributor` are all derived from these.
"""

from __future__ import annotations

import json
import math
import operator
import os
import re
import reprlib
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from enum import Enum, StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from ..errors import SpecError

_METADATA = "option"
Read = Callable[["Option", Sequence[str], Path], Any]
Write = Callable[["Option", Any], list[str]]


@dataclass(frozen=True, slots=True)
class ValueKind:
    """How the values of some options are read and written.

    Attributes:
        noun: what a value must be, for the message about a wrong one.
        read: parses the words of a command; relative paths start in the folder that it is given.
        write: formats a value as words of a command.
        types: the types of its values in a settings file.
        from_python: converts the value that a Python caller passed; TypeError, ValueError or OverflowError
            if it is no such value.
        wanted: what a Python caller must pass, where `noun` does not say it.
        many: the option may be given several times, with a word each time.
        paired: a value is a table of names and texts, and a word gives one of them.
        local: the words are paths of this machine, in which ``~`` is expanded.
        choices: all allowed words; empty for any.
    """

    noun: str
    read: Read
    write: Write = lambda _, value: [str(value)]
    types: tuple[type, ...] = (str,)
    from_python: Callable[[Any], Any] = lambda value: value
    wanted: str = ""
    many: bool = False
    paired: bool = False
    local: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One launch option.

    Attributes:
        flag: the option on a command line, with its opposite for a switch; empty for `min_processes`, which
            is given with `num_processes`.
        kind: how its values are read and written.
        help: what it does, for a command's help.
        doc: the same for Python, where that differs.
        short: a short flag.
        metavar: its value in a command's help.
        label: its label in a form.
        hint: the placeholder of its empty field; ``{}`` is the default.
        row: the field of a draft that a form shows in its own row; empty for one of the folded fields.
        setting: its key in a settings file, if not its name; empty for none.
        group: the group of backends that it applies to; empty for all.
        noun: the quantity, for the message about a value out of bounds.
        least: the smallest allowed value.
        above: the value must be greater than this.
        most: the highest allowed value.
        name: its name; by default that of its field.
        path: its place in a spec: the names of fields, the outermost first.
        default: the value if it is not given.
    """

    flag: str
    kind: ValueKind
    help: str = ""
    doc: str = ""
    short: str = ""
    metavar: str = ""
    label: str = ""
    hint: str = ""
    row: str = ""
    setting: str | None = None
    group: str = ""
    noun: str = ""
    least: float | None = None
    above: float | None = None
    most: int | None = None
    name: str = ""
    path: tuple[str, ...] = ()
    default: Any = None

    @property
    def flag_name(self) -> str:
        """The flag for messages: that of a switch without its opposite."""
        return self.flag.partition("/")[0]

    @property
    def place(self) -> str:
        """The name of its texts' place in a record."""
        return self.flag_name.removeprefix("--")

    @property
    def placeholder(self) -> str:
        """The placeholder of its empty field."""
        return self.hint.format("" if self.default is None else self.text(self.default))

    def value(self, spec: Any) -> Any:
        """Its value in a spec."""
        for name in self.path:
            spec = getattr(spec, name)
        return spec

    def check(self, value: Any) -> None:
        """Refuse a number that is out of bounds; None is allowed.

        Raises:
            SpecError: it is out of bounds.
        """
        unit = " seconds" if self.kind is SECONDS else ""
        if value is None:
            return
        if self.least is not None and not value >= self.least:
            raise SpecError(f"the {self.noun} must be {self.least:g} or more{unit}, not {_number(value)}")
        if self.above is not None and not value > self.above:
            raise SpecError(f"the {self.noun} must be more than {self.above:g}{unit}, not {_number(value)}")
        if self.most is not None and not value <= self.most:
            raise SpecError(f"the {self.noun} must be {self.most:,} or less{unit}, not {_number(value)}")

    def take(self, value: Any) -> Any:
        """The value that a Python caller passed, converted; a number of numpy becomes one of Python.

        Raises:
            SpecError: it is no value of this option.
        """
        if value is None and self.default is None:
            return None
        try:
            return self.kind.from_python(_scalar(value))
        except (TypeError, ValueError, OverflowError):
            wanted = self.kind.wanted or self.kind.noun
            raise SpecError(f"{self.name} takes {wanted}, not {reprlib.repr(value)}") from None

    def read(self, words: Sequence[str], here: Path) -> Any:
        """Parse the words of a command that was typed in the folder `here`.

        Raises:
            SpecError: they are no value of this option.
        """
        return self.kind.read(self, words, here)

    def read_text(self, text: str, here: Path) -> Any:
        """Parse the text of a form's field; it is split into words like in a shell if there may be many.

        Raises:
            SpecError: it is no value of this option.
        """
        return self.read(self._at_home(split(text) if self.kind.many else [text]), here)

    def text(self, value: Any) -> str:
        """A value as the text of a form's field."""
        words = self.kind.write(self, value)
        return shlex.join(words) if self.kind.many else "".join(words)

    def words(self, text: str) -> list[str]:
        """The text of a form's field as words of a command. Text that cannot be split stays one word."""
        if self.kind in (SWITCH, FLAG):
            yes, _, no = self.flag.partition("/")
            told = {**dict.fromkeys(self.kind.choices, ""), "yes": yes, "no": no}
            return [flag for flag in (told.get(text.strip(), f"{yes}={text}"),) if flag]
        try:
            values = split(text) if self.kind.many else [text]
        except SpecError:
            return [self.flag_name, text]
        return [word for value in self._at_home(values) for word in (self.flag_name, value)]

    def _at_home(self, words: list[str]) -> list[str]:
        """Expand ``~`` in paths: no shell does so in a form's field or in a quoted word."""
        return [os.path.expanduser(word) for word in words] if self.kind.local else words


def _number(value: Any) -> str:
    """A number for a message; Python writes none of several thousand digits."""
    return str(value) if abs(value) < 1e15 or value != value or value in _ENDLESS else "so large a number"


_ENDLESS = (math.inf, -math.inf)


def launch_option(default: Any, flag: str, kind: ValueKind, /, **attributes: Any) -> Any:
    """A dataclass's field that is a launch option; a type as the default is called for each instance."""
    metadata = {_METADATA: Option(flag, kind, **attributes)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def options_of(kind: Any, *path: str) -> tuple[Option, ...]:
    """The options of a dataclass's fields, and of the dataclasses in it, in the order of fields."""
    return tuple(_options(kind, path))


def _options(kind: Any, path: tuple[str, ...]) -> Iterator[Option]:
    for each in fields(kind):
        option = each.metadata.get(_METADATA)
        if option is not None:
            name = option.name or each.name
            setting = name if option.setting is None else option.setting
            where = (*path, each.name)
            yield replace(option, name=name, setting=setting, path=where, default=_default(each))
        elif is_dataclass(inner := each.default_factory):
            yield from options_of(inner, *path, each.name)


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def check_bounds(spec: Any) -> None:
    """Refuse numbers of a spec's own options that are out of bounds.

    Raises:
        SpecError: one is out of bounds.
    """
    kind: Any = type(spec)
    for each in options_of(kind):
        if len(each.path) == 1:
            each.check(each.value(spec))


def require_known(names: Iterable[str], known: Iterable[str], who: str) -> None:
    """Refuse names of unknown options.

    Raises:
        SpecError: a name is unknown.
    """
    allowed = list(known)
    for name in names:
        if name not in allowed:
            import difflib

            near = difflib.get_close_matches(name, allowed, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(allowed)}"
            raise SpecError(f"{who} takes no option {name}", hint=hint)


def texts_in(option: Option, value: Any) -> dict[str, str]:
    """The texts of a value, by their places: ``name``, ``env NAME``, ``py-files 0``."""
    if isinstance(value, Mapping):
        return {f"{option.place} {name}": text for name, text in value.items() if isinstance(text, str)}
    if isinstance(value, tuple):
        return {f"{option.place} {i}": text for i, text in enumerate(value)}
    return {option.place: value} if isinstance(value, str) and not isinstance(value, Enum) else {}


def with_texts_in(option: Option, value: Any, texts: Mapping[str, str]) -> Any:
    """A value with other texts in some places."""
    own = {place: texts.get(place, text) for place, text in texts_in(option, value).items()}
    if isinstance(value, Mapping):
        return {name: own.get(f"{option.place} {name}", text) for name, text in value.items()}
    return tuple(own.values()) if isinstance(value, tuple) else own.get(option.place, value)


def split(text: str) -> list[str]:
    """Split text into words like a shell.

    Raises:
        SpecError: a quotation mark is not closed.
    """
    try:
        return shlex.split(text)
    except ValueError as error:
        raise SpecError(f"{text!r} cannot be split into words: {error}") from error


def pairs(words: Iterable[str], flag: str = "it") -> dict[str, str]:
    """``K=V`` words as a mapping.

    Raises:
        SpecError: one has no name or no value, or a name is given twice.
    """
    found: dict[str, str] = {}
    for word in words:
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise SpecError(f"{flag} takes NAME=VALUE, not {word!r}")
        if key in found:
            raise SpecError(f"{flag} {key} is given twice")
        found[key] = value
    return found


def _text(_: Option, words: Sequence[str], __: Path) -> str:
    return words[-1]


def _whole(option: Option, words: Sequence[str], _: Path) -> int:
    try:
        return int(words[-1])
    except ValueError:
        raise SpecError(f"{option.flag_name} takes a whole number, not {words[-1]!r}") from None


def _seconds(option: Option, words: Sequence[str], _: Path) -> float:
    try:
        return float(words[-1])
    except ValueError:
        raise SpecError(f"{option.flag_name} takes a number of seconds, not {words[-1]!r}") from None


def _path(_: Option, words: Sequence[str], here: Path) -> str:
    return str((here / words[-1]).absolute())


def _located(program: str, here: Path) -> str:
    """A bare name is left for the ranks' PATH; anything else is a path."""
    return str((here / program).absolute()) if "/" in program else program


def _paths(_: Option, words: Sequence[str], here: Path) -> tuple[str, ...]:
    return tuple(str((here / word).absolute()) for word in words)


def _pairs(option: Option, words: Sequence[str], _: Path) -> dict[str, str]:
    return pairs(words, option.flag_name)


def _variables(option: Option, words: Sequence[str], _: Path) -> dict[str, str]:
    return pairs((_with_value(word, option.flag_name) for word in words), option.flag_name)


def _with_value(word: str, flag: str) -> str:
    """A variable with its value; a name alone means the value that it has here."""
    if "=" in word or not word:
        return word
    if word not in os.environ:
        raise SpecError(f"{flag}: {word} is not set here", hint=f"export it, or write {word}=VALUE")
    return f"{word}={os.environ[word]}"


def _counts(option: Option, words: Sequence[str], _: Path) -> dict[str, int]:
    found = pairs(words, option.flag_name)
    if wrong := next((f"{name}={text}" for name, text in found.items() if not text.isdecimal()), None):
        raise SpecError(f"{option.flag_name} takes NAME=N with a whole number, not {wrong!r}")
    return {name: int(text) for name, text in found.items()}


def _counts_of(value: Any) -> dict[str, int]:
    return {_one_text(name): whole(count) for name, count in dict(() if value is None else value).items()}


TRACKERS = ("mlflow", "tensorboard")


def _trackers(option: Option, words: Sequence[str], here: Path) -> tuple[str, ...]:
    found: dict[str, str] = {}
    for word in words:
        name, sign, folder = word.partition("=")
        if name not in TRACKERS or (sign and (name != "tensorboard" or not folder)):
            raise SpecError(f"{option.flag_name} takes mlflow, tensorboard or tensorboard=DIR, not {word!r}")
        if name in found:
            raise SpecError(f"{option.flag_name} {name} is given twice")
        found[name] = f"{name}={(here / os.path.expanduser(folder)).absolute()}" if sign else name
    return tuple(found.values())


def _trackers_of(value: Any) -> tuple[str, ...]:
    words = [value] if isinstance(value, str) else list(value)
    if not all(isinstance(word, str) for word in words):
        raise TypeError
    return _trackers(Option("--track", TRACKER), words, Path.cwd())


def one_of(kind: type[StrEnum]) -> ValueKind:
    """The kind of options whose values are the members of an enumeration."""

    def read(option: Option, words: Sequence[str], _: Path) -> StrEnum:
        try:
            return kind(words[-1])
        except ValueError:
            raise SpecError(
                f"the {option.noun} must be one of {', '.join(kind)}, not {words[-1]!r}"
            ) from None

    wanted = f"one of {', '.join(kind)}"
    return ValueKind("one of these", read, from_python=kind, wanted=wanted, choices=tuple(map(str, kind)))


_SWITCH: Mapping[str, bool | None] = {"auto": None, "yes": True, "no": False}


def _switch(option: Option, words: Sequence[str], _: Path) -> bool | None:
    if (word := words[-1].strip()) not in option.kind.choices:
        raise SpecError(f"{option.flag_name} is one of {', '.join(option.kind.choices)}, not {word!r}")
    return _SWITCH[word]


def _switched(_: Option, value: Any) -> list[str]:
    return [word for word, each in _SWITCH.items() if each is value]


def _scalar(value: Any) -> Any:
    """A scalar of numpy or torch as Python's own; neither is imported."""
    return value.item() if getattr(value, "shape", None) == () and hasattr(value, "item") else value


def whole(value: Any) -> int:
    """The whole number that a Python caller passed; a bool is none.

    Raises:
        TypeError: it is no whole number.
    """
    if isinstance(value, bool):
        raise TypeError
    return operator.index(value)


def _amount(value: Any) -> int | float:
    if isinstance(value, (bool, str, bytes, bytearray)):
        raise TypeError
    number = float(value)
    return value if type(value) is int else number


def _one_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _one_path(value: Any) -> str:
    return _one_text(os.fspath(value))


def _several_paths(value: Any) -> tuple[str, ...]:
    if isinstance(value, (str, bytes, os.PathLike)):  # else each letter would be a path
        raise TypeError
    return tuple(map(_one_path, value))


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


TEXT = ValueKind("a text", _text, from_python=_one_text)
SHARED_PATH = ValueKind("a path", _text, from_python=_one_path)
"""A path on other machines too: it is used as given."""
WHOLE = ValueKind("a whole number", _whole, types=(int,), from_python=whole)
SECONDS = ValueKind(
    "a number of seconds",
    _seconds,
    lambda _, value: [str(value).removesuffix(".0")],
    types=(int, float),
    from_python=_amount,
)


def bytes_of(text: str) -> int:
    """The bytes of a size such as ``500M`` or ``1.5T``: powers of 1000, or with an i (``10Gi``) of 1024.

    Raises:
        SpecError: the text is not a size.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower(), re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise SpecError(f"{text!r} is no size", hint="such as 500M, 10G or 1.5T")
    power = "kmgt".find(match[2]) + 1 if match[2] else 0
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


def _sized(option: Option, words: Sequence[str], _: Path) -> int:
    try:
        return bytes_of(words[-1])
    except SpecError:
        wanted = option.kind.noun
        raise SpecError(f"{option.flag_name} takes {wanted}, not {words[-1]!r}") from None


def _size_of(value: Any) -> int:
    return bytes_of(value) if isinstance(value, str) else whole(value)


_UNITS = {"TiB": 1 << 40, "GiB": 1 << 30, "MiB": 1 << 20, "KiB": 1 << 10, "": 1}


def _size_words(_: Option, value: int) -> list[str]:
    if not value:
        return ["0"]
    unit, size = next((unit, size) for unit, size in _UNITS.items() if value >= size and value % size == 0)
    return [f"{value // size}{unit}"]


BYTES = ValueKind(
    "a size such as 500MB or 10GiB",
    _sized,
    _size_words,
    types=(int, str),
    from_python=_size_of,
    wanted="a number of bytes, or a text such as 10GiB",
)
PATH = ValueKind(
    "a path",
    _path,
    from_python=lambda value: str((Path.cwd() / _one_path("" if value is None else value)).absolute()),
    local=True,
)


def _config(value: Any, here: Path) -> str:
    """A JSON object as text, or the path of a file of one."""
    if isinstance(value, Mapping):
        try:
            return json.dumps(dict(value))
        except (TypeError, ValueError, RecursionError) as error:
            raise SpecError(f"a configuration must be a JSON object: {error}") from error
    text = "" if value is None else _one_path(value)
    return text if not text or text.lstrip().startswith("{") else str((here / text).absolute())


INTERPRETER = ValueKind(
    "a path, or the name of a program",
    lambda _, words, here: _located(words[-1], here),
    from_python=lambda value: _located("" if value is None else _one_path(value), Path.cwd()),
    local=True,
)
CONFIG = ValueKind(
    "a path, or a JSON object as text",
    lambda _, words, here: _config(words[-1], here),
    from_python=lambda value: _config(value, Path.cwd()),
    local=True,
)
PATHS = ValueKind(
    "a list of paths",
    _paths,
    lambda _, value: list(value),
    types=(list,),
    from_python=_several_paths,
    many=True,
    local=True,
)
TRACKER = ValueKind(
    "a list of trackers",
    _trackers,
    lambda _, value: list(value),
    types=(list,),
    from_python=_trackers_of,
    many=True,
    wanted="mlflow, tensorboard or tensorboard=DIR, or a list of these",
)
PAIRS = ValueKind(
    "a table of names and texts",
    _pairs,
    lambda _, value: [f"{name}={text}" for name, text in dict(value).items()],
    types=(dict,),
    from_python=lambda value: dict(() if value is None else value),
    many=True,
    paired=True,
)
VARIABLES = replace(PAIRS, read=_variables)
"""Pairs, and names of variables of this process's own environment."""
COUNTS = replace(
    PAIRS,
    noun="a table of names and whole numbers",
    read=_counts,
    from_python=_counts_of,
    wanted="a dict of names and whole numbers",
)
SWITCH = ValueKind(
    "one of these",
    _switch,
    _switched,
    from_python=_truth,
    wanted="True, False or None",
    choices=tuple(_SWITCH),
)
"""Yes, no, or None: rankdeck decides."""
FLAG = ValueKind(
    "true or false",
    _switch,
    _switched,
    types=(bool,),
    from_python=_truth,
    wanted="True or False",
    choices=("yes", "no"),
)
