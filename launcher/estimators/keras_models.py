"""Models of Keras in pickles: what Keras saves, and the caller's own layers and functions beside it.

Both Keras 3 and `tf_keras`, the Keras that strategies of TensorFlow were made for, save models so that only
a process that has the classes of their layers can load them. Here these classes are part of the pickle.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
import types
import warnings
from collections.abc import Callable, Iterator
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


def make_model(given: Any) -> Any:
    """A model that was given, or the one that a function makes.

    Raises:
        SpecError: it makes none.
    """
    model = given if library_of(given) else given()
    if not library_of(model):
        raise SpecError(f"model=… makes a {type(model).__name__}, which is no model of Keras")
    return model


def own_objects(model: Any) -> dict[str, Any]:
    """The classes and functions of a model that are no part of Keras, by the names that Keras gives them."""
    return {each.__name__: each for each in _objects(model)}


def _objects(model: Any) -> Iterator[type | Callable[..., Any]]:
    given = [getattr(model, "loss", None), getattr(model, "optimizer", None)]  # of a compiled model
    for layer in model._flatten_layers():
        given += [layer, *filter(callable, vars(layer).values())]
    for each in given:
        made = each if isinstance(each, (type, types.FunctionType)) else type(each)
        if (made.__module__ or "").partition(".")[0] not in (*LIBRARIES, "tensorflow", "builtins"):
            yield made


def reduced(value: Any) -> Any:
    """A model or an optimizer as pickle wants it: a function that makes it, and its arguments.

    NotImplemented for anything else.

    Raises:
        Exception: Keras cannot save it, and says why.
    """
    if library := library_of(value):
        compiled = (value.optimizer, value.loss) if getattr(value, "optimizer", None) is not None else None
        return restore, (library, _saved(value), own_objects(value), compiled)
    if is_optimizer(value):
        return type(value).from_config, (value.get_config(),)
    return NotImplemented


def is_optimizer(value: object) -> bool:
    """Whether it is an optimizer of Keras, and not its name or what makes one."""
    loaded = (sys.modules[name] for name in LIBRARIES if name in sys.modules)
    return any(isinstance(value, keras.optimizers.Optimizer) for keras in loaded)


def _saved(model: Any) -> bytes:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a model has no weights yet, which it gets by its first rows
        path = Path(folder) / "model.keras"
        model.save(path)
        return path.read_bytes()


def restore(library: str, content: bytes, objects: dict[str, Any], compiled: tuple[Any, Any] | None) -> Any:
    """The model. Pickled by value: this module need not be where the model is wanted."""
    models = importlib.import_module(library).models
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.keras"
        path.write_bytes(content)
        model = models.load_model(path, custom_objects=objects, compile=False, safe_mode=False)
    if compiled is not None:
        model.compile(optimizer=compiled[0], loss=compiled[1])
    return model
