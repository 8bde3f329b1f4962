"""Launch options: what each is called, how its values are read and written, and where it applies.

A field of `JobSpec` that people may give has its `Option` in its metadata. The options of commands, the
fields of forms, settings, recorded runs and `Distributor` are all derived from these.
"""

from __future__ import annotations

import difflib
import os
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
        noun: what a value is, for a message about another one.
        read: the value that words of a command mean, said in a folder.
        write: the words that mean a value.
        types: what a settings file has for it.
        given: the value that a caller from Python means.
        many: the option may be given several times, with a word each time.
        local: the words are paths of this machine, on which ``~`` is somebody's home.
        choices: all words that there are; empty for any.
    """

    noun: str
    read: Read
    write: Write = lambda _, value: [str(value)]
    types: tuple[type, ...] = (str,)
    given: Callable[[Any], Any] = lambda value: value
    many: bool = False
    local: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """One launch option.

    Attributes:
        flag: the option on a command line, with its opposite for a switch; empty where `row` says both.
        kind: how its values are read and written.
        help: what it does, for a command's help.
        doc: the same for Python, where that differs.
        short: a short flag.
        metavar: its value in a command's help.
        label: what a form calls it.
        hint: what stands in its empty field; ``{}`` is the default.
        row: the field of a draft that a form shows in a row of its own; empty for one of the folded fields.
        setting: its key in a settings file, if not its name; empty for none.
        group: the backends that it applies to; empty for all.
        noun: what is counted, for a message about a value out of bounds.
        least: the least value that there can be.
        above: a value than which it must be more.
        name: its own name, which is that of its field unless it says otherwise.
        path: where a spec has it: the names of fields, the outermost first.
        default: the value of who does not give it.
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
    name: str = ""
    path: tuple[str, ...] = ()
    default: Any = None

    @property
    def said(self) -> str:
        """The flag as messages name it: that of a switch without its opposite."""
        return self.flag.partition("/")[0]

    @property
    def place(self) -> str:
        """What a record calls the place of its texts."""
        return self.said.removeprefix("--")

    @property
    def placeholder(self) -> str:
        """What stands in its empty field."""
        return self.hint.format("" if self.default is None else self.text(self.default))

    def value(self, spec: Any) -> Any:
        """What a spec has of it."""
        for name in self.path:
            spec = getattr(spec, name)
        return spec

    def check(self, value: Any) -> None:
        """Refuse a number out of bounds; None is no number, and in none.

        Raises:
            SpecError: it is.
        """
        unit = " seconds" if self.kind is SECONDS else ""
        if value is None:
            return
        if self.least is not None and not value >= self.least:
            raise SpecError(f"the {self.noun} must be {self.least:g} or more{unit}, not {value}")
        if self.above is not None and not value > self.above:
            raise SpecError(f"the {self.noun} must be more than {self.above:g}{unit}, not {value}")

    def read(self, words: Sequence[str], here: Path) -> Any:
        """The value that words of a command mean, said in a folder.

        Raises:
            SpecError: they mean none.
        """
        return self.kind.read(self, words, here)

    def read_text(self, text: str, here: Path) -> Any:
        """The value that the text of one field means, in which words are split as a shell would.

        Raises:
            SpecError: it means none.
        """
        return self.read(self._at_home(split(text) if self.kind.many else [text]), here)

    def text(self, value: Any) -> str:
        """A value as the text of one field."""
        words = self.kind.write(self, value)
        return shlex.join(words) if self.kind.many else "".join(words)

    def words(self, text: str) -> list[str]:
        """The text of one field as words of a command. What cannot be split stays one word."""
        if self.kind in (SWITCH, FLAG):
            yes, _, no = self.flag.partition("/")
            return [flag for flag in ({"yes": yes, "no": no}.get(text.strip(), ""),) if flag]
        try:
            values = split(text) if self.kind.many else [text]
        except SpecError:
            return [self.said, text]
        return [word for value in self._at_home(values) for word in (self.said, value)]

    def _at_home(self, words: list[str]) -> list[str]:
        """Neither a form nor quotes around a command's word leave the tilde to a shell."""
        return [os.path.expanduser(word) for word in words] if self.kind.local else words


def launch_option(default: Any, flag: str, kind: ValueKind, /, **told: Any) -> Any:
    """A dataclass's field that is a launch option; a type as the default makes one of its own each time."""
    metadata = {_METADATA: Option(flag, kind, **told)}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def options_of(kind: Any, *path: str) -> tuple[Option, ...]:
    """The options among a dataclass's fields, and among those of dataclasses in it, in their order."""
    return tuple(_options(kind, path))


def _options(kind: Any, path: tuple[str, ...]) -> Iterator[Option]:
    for each in fields(kind):
        found = each.metadata.get(_METADATA)
        if found is not None:
            name = found.name or each.name
            setting = name if found.setting is None else found.setting
            where = (*path, each.name)
            yield replace(found, name=name, setting=setting, path=where, default=_default(each))
        elif is_dataclass(inner := each.default_factory):
            yield from options_of(inner, *path, each.name)


def _default(each: Field[Any]) -> Any:
    return each.default if each.default_factory is MISSING else each.default_factory()


def check_bounds(spec: Any) -> None:
    """Refuse numbers of a spec's own options that are out of their bounds.

    Raises:
        SpecError: one is.
    """
    kind: Any = type(spec)
    for each in options_of(kind):
        if len(each.path) == 1:
            each.check(each.value(spec))


def require_known(names: Iterable[str], known: Iterable[str], who: str) -> None:
    """Refuse options that there are not.

    Raises:
        SpecError: there is one.
    """
    there = list(known)
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, 1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(there)}"
            raise SpecError(f"{who} takes no option {name}", hint=hint)


def texts_in(option: Option, value: Any) -> dict[str, str]:
    """The texts of a value, by their places: ``name``, ``env NAME``, ``py-files 0``."""
    if isinstance(value, Mapping):
        return {f"{option.place} {name}": text for name, text in value.items()}
    if isinstance(value, tuple):
        return {f"{option.place} {i}": text for i, text in enumerate(value)}
    return {option.place: value} if isinstance(value, str) and not isinstance(value, Enum) else {}


def with_texts_in(option: Option, value: Any, texts: Mapping[str, str]) -> Any:
    """A value with other texts in some places."""
    own = {place: texts.get(place, text) for place, text in texts_in(option, value).items()}
    if isinstance(value, Mapping):
        return dict(zip(value, own.values(), strict=True))
    return tuple(own.values()) if isinstance(value, tuple) else own.get(option.place, value)


def split(text: str) -> list[str]:
    """Words as a shell would see them.

    Raises:
        SpecError: a quotation does not end.
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
        raise SpecError(f"{option.said} takes a whole number, not {words[-1]!r}") from None


def _seconds(option: Option, words: Sequence[str], _: Path) -> float:
    try:
        return float(words[-1])
    except ValueError:
        raise SpecError(f"{option.said} takes a number of seconds, not {words[-1]!r}") from None


def _path(_: Option, words: Sequence[str], here: Path) -> str:
    return str((here / words[-1]).absolute())


def _paths(_: Option, words: Sequence[str], here: Path) -> tuple[str, ...]:
    return tuple(str((here / word).absolute()) for word in words)


def _pairs(option: Option, words: Sequence[str], _: Path) -> dict[str, str]:
    return pairs(words, option.said)


def one_of(kind: type[StrEnum]) -> ValueKind:
    """The kind of an option whose values are an enumeration's."""

    def read(option: Option, words: Sequence[str], _: Path) -> StrEnum:
        try:
            return kind(words[-1])
        except ValueError:
            raise SpecError(
                f"the {option.noun} must be one of {', '.join(kind)}, not {words[-1]!r}"
            ) from None

    return ValueKind(noun="one of these", read=read, choices=tuple(map(str, kind)))


_SWITCH: Mapping[str, bool | None] = {"auto": None, "yes": True, "no": False}


def _switch(option: Option, words: Sequence[str], _: Path) -> bool | None:
    if (word := words[-1].strip()) not in option.kind.choices:
        raise SpecError(f"{option.said} is one of {', '.join(option.kind.choices)}, not {word!r}")
    return _SWITCH[word]


def _switched(_: Option, value: Any) -> list[str]:
    return [word for word, each in _SWITCH.items() if each is value]


TEXT = ValueKind("a text", _text)
SHARED_PATH = ValueKind("a path", _text)
"""A path on other machines too: it stays as it was said."""
WHOLE = ValueKind("a whole number", _whole, types=(int,))
SECONDS = ValueKind(
    "a number of seconds", _seconds, lambda _, value: [str(value).removesuffix(".0")], types=(int, float)
)
PATH = ValueKind(
    "a path",
    _path,
    given=lambda value: str((Path.cwd() / (value or "")).absolute()),
    local=True,
)
PATHS = ValueKind(
    "a list of paths",
    _paths,
    lambda _, value: list(value),
    types=(list,),
    given=lambda value: tuple(map(os.fspath, value)),
    many=True,
    local=True,
)
PAIRS = ValueKind(
    "a table of names and texts",
    _pairs,
    lambda _, value: [f"{name}={text}" for name, text in dict(value).items()],
    types=(dict,),
    given=lambda value: dict(value or {}),
    many=True,
)
SWITCH = ValueKind("one of these", _switch, _switched, choices=tuple(_SWITCH))
"""Yes, no, or whatever fits."""
FLAG = ValueKind("true or false", _switch, _switched, types=(bool,), choices=("yes", "no"))
