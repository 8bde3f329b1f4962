"""Reading pickles whatever the library's import name was where they were written; what spoils a pickle."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable, Iterator
from typing import IO, Any

from .. import names


def loads(data: bytes) -> Any:
    """The value of a pickle."""
    return load(io.BytesIO(data))


def load(file: IO[bytes]) -> Any:
    """The value of a pickle in a file."""
    return _Unpickler(file).load()


_DEPTH, _CHILDREN = 8, 200


def unpicklable_part(value: object, can_pickle: Callable[[object], bool]) -> tuple[str, object] | None:
    """The innermost part that keeps a value from being pickled: its path (``.model.lock``), and itself.

    None if no part of it does: then it is the value itself, or a part that cannot be reached by attributes,
    keys and places.

    Args:
        value: what cannot be pickled.
        can_pickle: whether a part can.
    """
    path, part = "", value
    for _ in range(_DEPTH):
        spoilt = next((each for each in _children(part) if not can_pickle(each[1])), None)
        if spoilt is None:
            break
        path, part = path + spoilt[0], spoilt[1]
    return (path, part) if path else None


def _children(value: object) -> Iterator[tuple[str, object]]:
    """What a value holds, without running code of its class."""
    if type(value) is dict:
        yield from (
            (f"[{key!r}]", each) for key, each in list(value.items())[:_CHILDREN] if type(key) in (str, int)
        )
    elif type(value) in (list, tuple):
        yield from ((f"[{place}]", each) for place, each in enumerate(value[:_CHILDREN]))  # type: ignore[index]
    else:
        try:
            held = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if type(held) is dict:
            yield from ((f".{name}", each) for name, each in list(held.items())[:_CHILDREN])


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
