"""Modules of ours in Spark's Python workers, which cannot import them: they are sent as their source."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any


def module_by_value(module: ModuleType) -> Callable[[], Any]:
    """A function that makes the module anew, and leaves nothing of it behind; pickled by value.

    Args:
        module: one that imports nothing of `launcher`.
    """
    name, source = module.__name__, inspect.getsource(module)

    def make() -> Any:
        import sys
        import types

        made = types.ModuleType(f"rankdeck_{name.rpartition('.')[2]}")
        sys.modules[made.__name__] = made  # dataclasses look their module up
        try:
            exec(compile(source, name, "exec"), vars(made))
        finally:
            del sys.modules[made.__name__]
        return made

    return make
