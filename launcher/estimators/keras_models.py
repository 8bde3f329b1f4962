"""Models of Keras in pickles: what Keras saves, and the caller's own layers and functions beside it.

Both Keras 3 and `tf_keras`, the Keras that strategies of TensorFlow were made for, save models so that only
a process that has the classes of their layers can load them. Here these classes are part of the pickle.
"""

from __future__ import annotations

import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import SpecError

LIBRARIES = ("keras", "tf_keras")


def library_of(model: object) -> str:
    """The library that a model is of; empty for what is no model of Keras."""
    for kind in type(model).__mro__:
        name = kind.__module__.partition(".")[0]
        if name in LIBRARIES and name in sys.modules:
            return name if isinstance(model, sys.modules[name].Model) else ""
    return ""


def own_objects(model: Any) -> dict[str, Any]:
    """The classes and functions of a model that are no part of Keras, by the names that Keras gives them."""
    return {each.__name__: each for each in _objects(model)}


def _objects(model: Any) -> Iterator[type | Callable[..., Any]]:
    for layer in model._flatten_layers():
        for each in (type(layer), *vars(layer).values()):
            of = getattr(each, "__module__", None) if isinstance(each, (type, types.FunctionType)) else None
            if isinstance(of, str) and of.partition(".")[0] not in (*LIBRARIES, "tensorflow", "builtins"):
                yield each


def reduced(model: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A model as pickle wants an object: a function that makes it, and its arguments.

    Raises:
        Exception: Keras cannot save it, and says why.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a model has no weights yet, which it gets by its first rows
        path = Path(folder) / "model.keras"
        model.save(path)
        return restore, (library_of(model), path.read_bytes(), own_objects(model))


def restore(library: str, content: bytes, objects: dict[str, Any]) -> Any:
    """The model. Pickled by value: this module need not be where the model is wanted."""
    import importlib
    import os
    import tempfile

    models = importlib.import_module(library).models
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.keras")
        with open(path, "wb") as file:
            file.write(content)
        return models.load_model(path, custom_objects=objects, compile=False, safe_mode=False)


def optimizer_maker(optimizer: Any) -> str | Callable[..., Any]:
    """An optimizer as the name or function that makes one: itself belongs to the process that has made it.

    Raises:
        SpecError: it is none.
    """
    if hasattr(optimizer, "get_config") and not isinstance(optimizer, type):
        return partial(_again, type(optimizer), optimizer.get_config())
    if isinstance(optimizer, str):
        return optimizer
    if not callable(optimizer):
        raise SpecError(f"optimizer must be a name, an optimizer or what makes one, not {optimizer!r:.80}")
    made: Callable[..., Any] = optimizer
    return made


def _again(kind: Any, config: Mapping[str, Any], learning_rate: float | None = None) -> Any:
    rate = {} if learning_rate is None else {"learning_rate": learning_rate}
    return kind.from_config({**config, **rate})
