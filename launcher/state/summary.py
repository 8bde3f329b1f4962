"""A return value for people: as JSON if it is small and plain enough, else as a short text.

The console shows this and never opens the pickle. Nothing here may take memory in proportion to the value, or
fail: the value is already safe in the run folder, so an exception in its own methods must not end the run.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

MAX_NODES = 2000
MAX_DEPTH = 32
MAX_TEXT = 4096
MAX_JSON = 32 << 10
_PREVIEW = 200
_NAME = 300
_UNPLAIN = object()


def qualified_type(value: object) -> str:
    """The value's type as one would write it, without `builtins`."""
    kind = type(value)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    return _cut(name, _NAME)


def describe(value: object) -> dict[str, Any]:
    """The fields `type`, `json`, `value` and `preview` of a `RankReturned`, small enough for a packet."""
    kind = qualified_type(value)
    try:
        plain = _plain(value, [MAX_NODES], MAX_DEPTH)
        fits = plain is not _UNPLAIN and len(json.dumps(plain)) <= MAX_JSON
    except Exception:  # noqa: BLE001  a user's __len__ or property may raise anything
        fits = False
    if fits:
        return {"type": kind, "json": True, "value": plain, "preview": ""}
    return {"type": kind, "json": False, "preview": preview(value)}


def _plain(value: Any, budget: list[int], depth: int) -> Any:
    """The value in JSON's own types, or `_UNPLAIN`; `budget` bounds how many nodes are looked at."""
    budget[0] -= 1
    if budget[0] < 0 or depth < 0:
        return _UNPLAIN
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, str):
        return value if len(value) <= MAX_TEXT else _UNPLAIN
    if isinstance(value, Mapping):
        return _plain_mapping(value, budget, depth - 1)
    if isinstance(value, (list, tuple)):
        return _plain_sequence(value, budget, depth - 1)
    return _plain_scalar(value, budget)


def _plain_mapping(value: Mapping[Any, Any], budget: list[int], depth: int) -> Any:
    """Stops at the first item that JSON cannot hold: `__len__` may have returned less than there is."""
    if len(value) > budget[0]:
        return _UNPLAIN
    items: dict[str, Any] = {}
    for key, item in value.items():
        name = str(key) if isinstance(key, (str, int)) else ""
        plain = _plain(item, budget, depth)
        if plain is _UNPLAIN or name in items or len(name) > MAX_TEXT or not isinstance(key, (str, int)):
            return _UNPLAIN
        items[name] = plain
    return items


def _plain_sequence(value: Iterable[Any], budget: list[int], depth: int) -> Any:
    items = []
    for item in value:
        plain = _plain(item, budget, depth)
        if plain is _UNPLAIN:
            return _UNPLAIN
        items.append(plain)
    return items


def _plain_scalar(value: Any, budget: list[int]) -> Any:
    """The value of a numpy or torch scalar, recognised by its shape: neither is imported."""
    if getattr(value, "shape", None) != () or not hasattr(value, "item"):
        return _UNPLAIN
    inner = value.item()
    return _plain(inner, budget, 0) if isinstance(inner, (bool, int, float, str)) else _UNPLAIN


def preview(value: object) -> str:
    """A short text about a value that JSON cannot hold, at most 500 characters."""
    try:
        return _cut(_preview(value), _NAME + _PREVIEW)
    except Exception as error:  # noqa: BLE001  a user's __len__ or __repr__ may raise anything
        return f"{qualified_type(value)} (looking at it raised {type(error).__name__})"


def _preview(value: object) -> str:
    kind = qualified_type(value)
    if isinstance(value, (bytes, bytearray, str)):
        return f"{kind} of length {len(value)}: {value[:40]!r}…"
    shape = getattr(value, "shape", None)
    if shape is not None:
        return f"{kind} of shape {tuple(itertools.islice(shape, 32))}, {getattr(value, 'dtype', '')}"
    if hasattr(value, "__len__"):
        return f"{kind} of length {len(value)}"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _cut(f"{kind}({', '.join(_fields(value))})", _PREVIEW)
    return _cut(repr(value), _PREVIEW)


def _fields(value: Any) -> Iterable[str]:
    """A dataclass's first fields: small values by their repr, others by their type."""
    for field in dataclasses.fields(value)[:8]:
        item = getattr(value, field.name)
        small = item is None or isinstance(item, (bool, int, float))
        yield f"{field.name}={item!r}" if small else f"{field.name}: {qualified_type(item)}"


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
