"""Reading pickles whatever the library's import name was where they were written; what has no pickle."""

from __future__ import annotations

import io
import pickle
import time
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from typing import IO, Any

from .. import names


def loads(data: bytes) -> Any:
    """The value of a pickle."""
    return load(io.BytesIO(data))


def load(file: IO[bytes]) -> Any:
    """The value of a pickle in a file."""
    return _Unpickler(file).load()


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str, /) -> Any:
        """Find a class in the library under its name here, or else in a `launcher` of the user's own."""
        here = names.translated(module)
        try:
            return super().find_class(here, name)
        except (ImportError, AttributeError):
            if here == module:
                raise
            return super().find_class(module, name)


_DEPTH, _WIDTH = 12, 1000
_SEARCH_S = 2.0  # a rank's end waits for it, and each part is pickled once more


def unpicklable_part(value: object, can_pickle: Callable[[object], bool]) -> str:
    """Where in a value that cannot be pickled the reason lies: ``['best'].model``; empty if not found.

    It asks for the state of objects, which runs their code, as pickling did. Where that fails, and after two
    seconds, the search ends: the innermost part that is known by then is told.

    Args:
        value: what could not be pickled.
        can_pickle: whether a part can be.
    """
    path, deadline = "", time.monotonic() + _SEARCH_S
    for _ in range(_DEPTH):
        try:
            parts = takewhile(lambda _: time.monotonic() < deadline, islice(_parts(value), _WIDTH))
            found = next(((step, part) for step, part in parts if not can_pickle(part)), None)
        except Exception:  # noqa: BLE001  whatever a user's class raises when it is looked at
            return path
        if found is None:
            return path
        path, value = path + found[0], found[1]
    return path


def _parts(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds, each after its place: an index, a key, an attribute or a captured variable."""
    if isinstance(value, dict):
        yield from ((f"[{_key(key)}]", part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((f"[{at}]", part) for at, part in enumerate(value))
    elif isinstance(value, set | frozenset):
        yield from (("{…}", part) for part in value)
    elif cells := getattr(value, "__closure__", None):
        names = value.__code__.co_freevars  # type: ignore[attr-defined]  # a function, as it has a closure
        yield from ((f"'s {name}", cell.cell_contents) for name, cell in zip(names, cells, strict=True))
    else:
        yield from _attributes(value)


def _key(key: object) -> str:
    """A key in a few characters; a user's own ``__repr__`` may do anything."""
    plain = type(key) in (str, int, float, bool, bytes, type(None))
    return f"{key!r:.60}" if plain else f"a {type(key).__qualname__}"


def _attributes(value: object) -> Iterator[tuple[str, object]]:
    """The attributes that an object's pickle would hold."""
    try:
        reduced = value.__reduce_ex__(4)
    except Exception:  # noqa: BLE001  whatever a user's code raises: the object itself is the reason
        return
    state = reduced[2] if isinstance(reduced, tuple) and len(reduced) > 2 else None
    states = state if isinstance(state, tuple) else (state,)
    for each in states:
        if isinstance(each, dict):
            yield from ((f".{name}", part) for name, part in each.items())
