"""Frozen dataclasses to JSON values and back, by their own annotations.

Facts and specs are written as JSON that people read. The schema is the dataclass: there is no second
description to keep in step. Unknown keys are ignored, so an older reader opens a newer folder.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Hashable, Mapping
from enum import Enum
from functools import cache
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
    hints = _hints(kind)  # type: ignore[arg-type]  # mypy does not see that a class is hashable
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    return kind(**{k: _revive(hints[k], v) for k, v in data.items() if k in names})


@cache
def _hints(kind: Hashable) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _revive(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return _revive(next(a for a in args if a is not type(None)), value)
    if origin is tuple:
        inner = args[:1] * len(value) if args[-1] is ... else args
        return tuple(_revive(h, v) for h, v in zip(inner, value, strict=False))
    if origin is not None and isinstance(value, Mapping):
        key, item = args
        return {_revive(key, k) if key is str else key(k): _revive(item, v) for k, v in value.items()}
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return from_plain(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return float(value) if hint is float else value
