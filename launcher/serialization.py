"""Frozen dataclasses to JSON values and back, by their own annotations.

Facts and specs are written as JSON that people can read. The dataclass is the schema: there is no second
description to keep in step. Unknown keys are ignored, so that an older version reads a newer folder. A folder
may come from anybody, so a value that its field's annotation does not allow is refused.
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
    """A value that its field does not allow; the message begins with the field's path."""

    def __init__(self, why: str, path: str = "") -> None:
        super().__init__(f"{path}: {why}" if path else why)
        self.why, self.path = why, path

    def inside(self, name: str) -> DecodeError:
        """The same error with the name of the containing field, or the index ``[0]``, before its path."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        return DecodeError(self.why, f"{name}{joint}{self.path}")


@dataclass(frozen=True, slots=True)
class Within:
    """For `Annotated`: bounds of the numbers that are read, both included."""

    low: float
    high: float


LATEST = 253_402_300_799.0
Moment = Annotated[float, Within(0.0, LATEST)]
"""Seconds since the epoch, up to the last year that `datetime` supports."""

MOST_INDEX = (1 << 20) - 1
Index = Annotated[int, Within(0, MOST_INDEX)]
"""The number of a rank, agent, attempt or device, or a count of these."""

MOST_AMOUNT = (1 << 62) - 1
Amount = Annotated[int, Within(0, MOST_AMOUNT)]
"""A number of bytes."""

ExitCode = Annotated[int, Within(0, 255)]
"""The exit code of a process."""


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and mappings as JSON values; fields that are None are left out."""
    kind = type(value)
    if kind in _AS_THEY_ARE:  # most values; the checks below take ten times as long
        return value
    if names := _names(kind):  # type: ignore[arg-type]  # mypy does not see that a class is hashable
        pairs = [(name, getattr(value, name)) for name in names]
        return {k: v if type(v) in _AS_THEY_ARE else to_plain(v) for k, v in pairs if v is not None}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(k): to_plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)  # JSON has no NaN, and a loss of NaN must be recorded
    return value


@cache
def _names(kind: type[Any]) -> tuple[str, ...]:
    """The names of a dataclass's fields; empty for another class."""
    return tuple(f.name for f in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def from_plain(kind: type[T], data: Any) -> T:
    """The dataclass `kind` made from a mapping.

    Raises:
        DecodeError: `data` is no mapping, lacks a field without a default, or has a value of a wrong type.
    """
    made: T = _reader(kind)(data)  # type: ignore[arg-type]  # mypy does not see that a class is hashable
    return made


def readable_part(kind: type[T], data: Any, **known: Any) -> tuple[T, tuple[DecodeError, ...]]:
    """The dataclass made from the fields of a mapping that can be read, and the errors of the others.

    Args:
        kind: the dataclass.
        data: the mapping.
        known: fields whose values in the mapping are ignored.

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
    """How a field is read: a value of type `exact` within the bounds is used as is, others are revived."""

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
    """The function that reads a `kind`, made once for each: large gangs send thousands of facts a second."""
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
        raise DecodeError(f"{kind.__name__} is written as an object, not as {_describe(data)}")


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
    """How a value of `hint` is read.

    Raises:
        TypeError: the hint is not supported: the dataclass, not the data, is wrong.
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
    raise TypeError(f"a field of type {hint} is not supported")


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
    raise TypeError(f"a field of type {kind} is not supported")


_EXPECTED = {str: "a text", bool: "true or false"}
_LARGEST = (1 << 63) - 1
_NOT_FINITE = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _refuse(expected: str, value: Any) -> NoReturn:
    raise DecodeError(f"{expected} is expected, not {_describe(value)}")


def _describe(value: Any) -> str:
    """A wrong value for a message: a number itself; of other values, which may hold anything, the type."""
    if value is None:
        return "null"
    if isinstance(value, float) or (isinstance(value, int) and abs(value) < 1e15):
        return str(value)
    kinds = {str: "a text", int: "so large a number", list: "a list", tuple: "a list"}
    return kinds.get(type(value), "an object" if isinstance(value, Mapping) else "such a value")


def _whole(value: Any) -> NoReturn:
    _refuse("a whole number of at most 64 bits" if type(value) is int else "a whole number", value)


def _float(value: Any) -> float:
    """Read an integer, or the text of a number that JSON lacks, such as ``nan``, as a float."""
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
        shown = f"{value[:40]!r}" if isinstance(value, str) else _describe(value)
        raise DecodeError(f"{shown} is no {name}") from None


def _bounded(field: _Field, within: Within) -> _Field:
    low, high = within.low, within.high

    def made(value: Any) -> Any:
        number = field(value)
        if low <= number <= high:
            return number
        raise DecodeError(f"{_describe(number)} is not between {low:g} and {high:g}")

    return _Field(field.exact, made, low, high)


def _optional(hints: list[Any], *, nullable: bool) -> _Field:
    if len(hints) != 1:
        raise TypeError(f"a union of {hints} is not supported")
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
        source, items = _list(value), list[Any]()
        try:
            items.extend(map(field, source))
        except DecodeError as error:
            raise error.inside(f"[{len(items)}]") from None
        return tuple(items)

    return made


def _fixed(each: list[_Field], value: Any) -> tuple[Any, ...]:
    if len(source := _list(value)) != len(each):
        raise DecodeError(f"a list of {len(each)} is expected, not of {len(source)}")
    items: list[Any] = []
    try:
        for field, item in zip(each, source, strict=True):
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
        raise TypeError(f"keys in JSON are texts, so a mapping with keys of {key} is not supported")
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
