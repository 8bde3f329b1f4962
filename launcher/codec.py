"""Frozen dataclasses to JSON values and back, by their own annotations.

Facts and specs are written as JSON that people read. The schema is the dataclass: there is no second
description to keep in step. Unknown keys are ignored, so an older reader opens a newer folder.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Hashable, Mapping
from enum import Enum
from functools import cache, partial
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Dataclasses, enums, tuples and mappings as JSON values; fields that are None are left out."""
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


def from_plain(kind: type[T], data: Mapping[str, Any]) -> T:
    """The dataclass `kind` made from a mapping.

    Raises:
        TypeError: `data` is no mapping, or a field without a default is missing.
        ValueError: an enum field holds no known value.
    """
    if not isinstance(data, Mapping):
        raise TypeError(f"{kind.__name__} is written as an object, not as {type(data).__name__}")
    revivers = _revivers(kind)  # type: ignore[arg-type]  # mypy does not see that a class is hashable
    fields: dict[str, Any] = {}
    for name, value in data.items():
        if name in revivers:
            revive = revivers[name]
            fields[name] = value if revive is None or value is None else revive(value)
    return kind(**fields)


Reviver = Callable[[Any], Any]


@cache
def _revivers(kind: Hashable) -> dict[str, Reviver | None]:
    """How each field is revived, found out once a type: a large gang says thousands of facts a second."""
    hints = typing.get_type_hints(kind)
    return {f.name: _reviver(hints[f.name]) for f in dataclasses.fields(kind)}  # type: ignore[arg-type]


def _reviver(hint: Any) -> Reviver | None:
    """What makes a value of `hint` from one that is not None; None where nothing is to be done."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _reviver(next(a for a in args if a is not type(None)))
    if origin is tuple:
        return _tuple(args)
    if origin is not None:
        return _mapping(args)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return partial(from_plain, hint)
    return hint if isinstance(hint, type) and (hint is float or issubclass(hint, Enum)) else None


def _tuple(args: tuple[Any, ...]) -> Reviver:
    if args[-1] is ...:
        revive = _reviver(args[0])
        return tuple if revive is None else lambda value: tuple(_applied(revive, v) for v in value)
    each = [_reviver(a) for a in args]
    return lambda value: tuple(_applied(r, v) for r, v in zip(each, value, strict=False))


def _mapping(args: tuple[Any, ...]) -> Reviver | None:
    if len(args) != 2:
        return None
    key, item = args
    revive = _reviver(item)

    def made(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return {k if key is str else key(k): _applied(revive, v) for k, v in value.items()}

    return made


def _applied(revive: Reviver | None, value: Any) -> Any:
    return value if revive is None or value is None else revive(value)
