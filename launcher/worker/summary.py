"""A return value for people: as JSON if it is small and plain enough, else as a short text.

The console shows this and never opens the pickle. Nothing here may cost memory in proportion to the value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

MAX_NODES = 2000
MAX_TEXT = 4096
_PREVIEW = 200
_UNPLAIN = object()


def qualified_type(value: object) -> str:
    """The value's type as one would write it, without `builtins`."""
    kind = type(value)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def describe(value: object) -> dict[str, Any]:
    """The fields `type`, `json`, `value` and `preview` of a `RankReturned`."""
    plain = _plain(value, [MAX_NODES])
    if plain is _UNPLAIN:
        return {"type": qualified_type(value), "json": False, "preview": preview(value)}
    return {"type": qualified_type(value), "json": True, "value": plain, "preview": ""}


def _plain(value: Any, budget: list[int]) -> Any:
    """The value in JSON's own types, or `_UNPLAIN`; `budget` bounds how many nodes are looked at."""
    budget[0] -= 1
    if budget[0] < 0:
        return _UNPLAIN
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else _UNPLAIN
    if isinstance(value, Mapping):
        return _plain_mapping(value, budget)
    if isinstance(value, (list, tuple)):
        return _plain_sequence(value, budget)
    return _plain_scalar(value, budget)


def _plain_mapping(value: Mapping[Any, Any], budget: list[int]) -> Any:
    if len(value) > budget[0] or not all(isinstance(k, (str, int)) for k in value):
        return _UNPLAIN
    items = {str(k): _plain(v, budget) for k, v in value.items()}
    return _UNPLAIN if any(v is _UNPLAIN for v in items.values()) else items


def _plain_sequence(value: list[Any] | tuple[Any, ...], budget: list[int]) -> Any:
    if len(value) > budget[0]:
        return _UNPLAIN
    items = [_plain(v, budget) for v in value]
    return _UNPLAIN if any(v is _UNPLAIN for v in items) else items


def _plain_scalar(value: Any, budget: list[int]) -> Any:
    """numpy and torch scalars, known by their shape rather than by importing either."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return _UNPLAIN
    inner = value.item()
    return _plain(inner, budget) if isinstance(inner, (bool, int, float, str)) else _UNPLAIN


def preview(value: object) -> str:
    """At most a line or two about a value that JSON cannot hold."""
    if isinstance(value, (bytes, bytearray, str)):
        return f"{qualified_type(value)} of length {len(value)}: {value[:40]!r}…"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{qualified_type(value)} of shape {tuple(shape)}, {getattr(value, 'dtype', '')}"
    if hasattr(value, "__len__"):
        return f"{qualified_type(value)} of length {len(value)}"
    return _safe_repr(value)


def _safe_repr(value: object) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001  a user's __repr__ may raise anything, and is not the run's failure
        return f"{qualified_type(value)} (its repr raised {type(error).__name__})"
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"
