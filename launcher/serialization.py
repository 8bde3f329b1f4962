"""Frozen dataclasses to JSON values and back, by their own annotations.

Facts and specs are written as JSON that people read. The schema is the dataclass: there is no second
description to keep in step. Unknown keys are ignored, so an older reader opens a newer folder. What is read
may be anybody's: a value that its field's annotation does not allow is refused, and never taken as it comes.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache, partial
from typing import Annotated, Any, NoReturn, TypeVar

T = TypeVar("T")


class DecodeError(ValueError):
    """A value that cannot be what its field is declared to be; the message begins with the field's path."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.why, self.path = why, path

    def inside(self, name: str) -> DecodeError:
        """The same error, as seen from what holds the value: a field by its name, an item by ``[0]``."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return DecodeError(self.why, f"{name}{joint}{self.path}")


@dataclass(frozen=True, slots=True)
class Within:
    """For `Annotated`: numbers that are read must lie between these, both included."""

    low: float
    high: float


LATEST = 253_402_300_799.0
Moment = Annotated[float, Within(0.0, LATEST)]
"""Seconds since the epoch, up to the last year that a calendar can name."""

Index = Annotated[int, Within(0, (1 << 20) - 1)]
"""The number of a rank, an agent, an attempt, a device, and how many there are of these."""

ExitCode = Annotated[int, Within(0, 255)]
"""What a process leaves with."""


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and mappings as JSON values; fields that are None are left out."""
    if type(value) in _AS_THEY_ARE:  # most are; to ask for their classes takes ten times as long
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f.name, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {k: to_plain(v) for k, v in pairs if v is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN, and a loss of NaN must be told
    return value


def from_plain(kind: type[T], data: Any) -> T:
    """The dataclass `kind` made from a mapping.

    Raises:
        DecodeError: `data` is no mapping, lacks a field without a default, or has a value of a wrong type.
    """
    made: T = _reader(kind)(data)  # type: ignore[arg-type]  # mypy does not see that a class is hashable
    return made


def readable_part(kind: type[T], data: Any, **known: Any) -> tuple[T, tuple[DecodeError, ...]]:
    """The dataclass made from those of a mapping's fields that can be read, and what the others have wrong.

    Args:
        kind: the dataclass.
        data: the mapping.
        known: fields that are known already, whatever the mapping says.

    Raises:
        DecodeError: `data` is no mapping, or a field without a default is missing or cannot be read.
    """
    _require_object(kind, data)
    fields, errors = dict(known), []
    for name, field in _fields(kind).items():  # type: ignore[arg-type]  # the same
        if name in data and name not in known:
            try:
                fields[name] = field(data[name])
            except DecodeError as error:
                errors.append(error.inside(name))
    return _made(kind, fields), tuple(errors)


Reviver = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Field:
    """How a value is made: one of the type `exact` between the bounds, if any, is taken as it is."""

    exact: type | None
    revive: Reviver
    low: Any = None
    high: Any = None

    def __call__(self, value: Any) -> Any:
        """The value, revived."""
        if type(value) is self.exact and (self.low is None or self.low <= value <= self.high):
            return value
        return self.revive(value)


@cache
def _reader(kind: Any) -> Reviver:
    """What makes a `kind`, found out once a type: a large gang says thousands of facts a second."""
    revivers = {name: (f.exact, f.low, f.high, f.revive) for name, f in _fields(kind).items()}

    def read(data: Any) -> Any:
        if type(data) is not dict:
            _require_object(kind, data)
        fields: dict[str, Any] = {}
        name = ""
        try:
            for name, value in data.items():
                if name in revivers:
                    exact, low, high, revive = revivers[name]
                    if type(value) is exact and (low is None or low <= value <= high):
                        fields[name] = value
                    else:
                        fields[name] = revive(value)
        except DecodeError as error:
            raise error.inside(name) from None
        return _made(kind, fields)

    return read


def _require_object(kind: type[Any], data: Any) -> None:
    if not isinstance(data, Mapping):
        raise DecodeError(f"{kind.__name__} is written as an object, not as {_said(data)}")


def _made(kind: type[T], fields: dict[str, Any]) -> T:
    try:
        return kind(**fields)
    except TypeError:
        required = (
            f.name
            for f in dataclasses.fields(kind)  # type: ignore[arg-type]  # it is a dataclass
            if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        )
        if missing := [name for name in required if name not in fields]:
            raise DecodeError(f"{kind.__name__} lacks {', '.join(missing)}") from None
        raise


@cache
def _fields(kind: Any) -> dict[str, _Field]:
    hints = typing.get_type_hints(kind, include_extras=True)
    return {f.name: _field(hints[f.name]) for f in dataclasses.fields(kind)}


def _field(hint: Any) -> _Field:
    """How a value of `hint` is made.

    Raises:
        TypeError: there is no way: the dataclass, and not the data, is wrong.
    """
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _bounded(_field(args[0]), *args[1:])
    if origin in (typing.Union, types.UnionType):
        return _optional([a for a in args if a is not type(None)], nullable=type(None) in args)
    if origin is tuple:
        return _Field(None, _tuple(args))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _Field(None, _mapping(*args))
    if hint is Any:
        return _Field(None, lambda value: value)
    if isinstance(hint, type):
        return _plain(hint)
    raise TypeError(f"nothing is known of how {hint} is written")


def _plain(kind: type[Any]) -> _Field:
    if dataclasses.is_dataclass(kind):
        return _Field(None, _reader(kind))
    if issubclass(kind, Enum):
        members = {member.value: member for member in kind}
        return _Field(None, lambda value: _member(members, kind.__name__, value))
    if kind is float:
        return _Field(float, _float)
    if kind is int:
        return _Field(int, _whole, -_LARGEST, _LARGEST)
    if kind in _EXPECTED:
        return _Field(kind, partial(_refuse, _EXPECTED[kind]))
    raise TypeError(f"nothing is known of how {kind} is written")


_EXPECTED = {str: "a text", bool: "true or false"}
_LARGEST = (1 << 63) - 1
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _refuse(expected: str, value: Any) -> NoReturn:
    raise DecodeError(f"{expected} is expected, not {_said(value)}")


def _said(value: Any) -> str:
    """A wrong value in few words: what it says is anybody's, so its kind, and only of a number the number."""
    if value is None:
        return "null"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e15):
        return str(value)
    kinds = {str: "a text", int: "so large a number", list: "a list", tuple: "a list"}
    return kinds.get(type(value), "an object" if isinstance(value, Mapping) else "such a value")


def _whole(value: Any) -> NoReturn:
    _refuse("a whole number of at most 64 bits" if type(value) is int else "a whole number", value)


def _float(value: Any) -> float:
    """A whole number is one too, and so are the words for what JSON has no numbers for."""
    if type(value) is int:
        try:
            return float(value)
        except OverflowError:
            _refuse("a number", value)
    if type(value) is str and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    _refuse("a number", value)


def _member(members: Mapping[Any, Enum], name: str, value: Any) -> Enum:
    try:
        return members[value]
    except (KeyError, TypeError):
        said = f"{value[:40]!r}" if isinstance(value, str) else _said(value)
        raise DecodeError(f"{said} is no {name}") from None


def _bounded(field: _Field, within: Within) -> _Field:
    low, high = within.low, within.high

    def made(value: Any) -> Any:
        number = field(value)
        if low <= number <= high:
            return number
        raise DecodeError(f"{_said(number)} is not between {low:g} and {high:g}")

    return _Field(field.exact, made, low, high)


def _optional(hints: list[Any], *, nullable: bool) -> _Field:
    if len(hints) != 1:
        raise TypeError(f"nothing is known of how one of {hints} is written")
    field = _field(hints[0])
    if not nullable:
        return field
    revive = field.revive
    return dataclasses.replace(field, revive=lambda value: None if value is None else revive(value))


def _tuple(args: tuple[Any, ...]) -> Reviver:
    each = [_field(a) for a in args if a is not ...]
    if args[-1] is not ...:
        return partial(_fixed, each)
    field = each[0]

    def made(value: Any) -> tuple[Any, ...]:
        found, items = _list(value), list[Any]()
        try:
            items.extend(map(field, found))
        except DecodeError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return made


def _fixed(each: list[_Field], value: Any) -> tuple[Any, ...]:
    if len(found := _list(value)) != len(each):
        raise DecodeError(f"a list of {len(each)} is expected, not of {len(found)}")
    items: list[Any] = []
    try:
        for field, item in zip(each, found, strict=True):
            items.append(field(item))
    except DecodeError as error:
        raise error.inside(f"[{len(items)}]") from None
    return tuple(items)


def _list(value: Any) -> list[Any] | tuple[Any, ...]:
    if isinstance(value, (list, tuple)):
        return value
    _refuse("a list", value)


def _mapping(key: Any, item: Any) -> Reviver:
    if key is not str:
        raise TypeError(f"JSON has no keys but texts, and so none of {key}")
    field = _field(item)

    def made(value: Any) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            _refuse("an object", value)
        name, items = "", {}
        try:
            for name, each in value.items():
                items[name] = field(each)
        except DecodeError as error:
            raise error.inside(f"[{name[:40]!r}]") from None
        return items

    return made
