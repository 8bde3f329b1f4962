"""Models and functions as pickles that can be read where the caller's own modules are not installed."""

from __future__ import annotations

import contextlib
import io
import pickle
import sys
import threading
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from pyspark.cloudpickle import cloudpickle  # executors need have no other

from ..errors import SpecError
from ..spec.files.packing import is_installed
from . import keras_models

_registry = threading.Lock()
"""Held while modules are registered: cloudpickle has one list of them for the process."""


def dumps(value: object) -> bytes:
    """The pickle of a function, of a module of PyTorch, of a model of Keras, or of a tuple of such.

    It contains the code of the caller's own modules that define them, and a model's layers.

    Raises:
        SpecError: it cannot be pickled.
    """
    own = {module for part in _parts(value) if (module := _own_module(part))}
    with _by_value({*own, keras_models}):  # and what makes a model again, for processes without this package
        try:
            _Pickler(file := io.BytesIO()).dump(value)
        except Exception as error:  # a user's __reduce__ may raise anything
            raise SpecError(f"{_kind(value)} cannot be pickled: {error}") from error
    return file.getvalue()


def _kind(value: object) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {', '.join(map(_kind, value))}"
    return type(value).__name__


class _Pickler(cloudpickle.Pickler):
    """cloudpickle's, with models and optimizers of Keras as they are saved."""

    def reducer_override(self, value: Any) -> Any:
        reduced = keras_models.reduced(value)
        return super().reducer_override(value) if reduced is NotImplemented else reduced


def loads(data: bytes) -> Any:
    """The value of a pickle, which may run any code: read only what you trust.

    Raises:
        SpecError: it cannot be read.
    """
    try:
        return pickle.loads(data)
    except Exception as error:  # whatever spoiled bytes or missing modules lead to
        raise SpecError(f"a pickle cannot be read: {type(error).__name__}: {error}") from error


def _parts(value: object) -> Iterator[object]:
    for each in value if isinstance(value, tuple) else (value,):
        yield each
        if keras_models.library_of(each):
            yield from keras_models.own_objects(each).values()
        elif (torch := sys.modules.get("torch")) and isinstance(each, torch.nn.Module):
            yield from each.modules()


def _own_module(part: object) -> ModuleType | None:
    """The module or package that defines a function or an object's class, if it is the caller's own."""
    name = getattr(part, "__module__", None)
    module = sys.modules.get(name.partition(".")[0]) if isinstance(name, str) else None
    if module is None or module.__name__ == "__main__":
        return None  # cloudpickle itself takes what __main__ has by value
    file = getattr(module, "__file__", None)  # a module of Python's own has none
    places = [file] if file else list(getattr(module, "__path__", []))
    return module if places and not any(map(is_installed, places)) else None


@contextlib.contextmanager
def _by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    with _registry, contextlib.ExitStack() as stack:
        for module in modules:
            if module.__name__ not in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.register_pickle_by_value(module)
                stack.callback(cloudpickle.unregister_pickle_by_value, module)
        yield
