"""Reading pickles whatever the library's import name was in the process that wrote them."""

from __future__ import annotations

import io
import pickle
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
