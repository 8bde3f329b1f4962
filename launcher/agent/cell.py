"""A notebook's cell as a function for ranks: its source, and the notebook's values that it uses.

It runs as it would in the notebook: as top-level code of `__main__`, in the globals of the notebook's own
functions, so that they see what the cell assigns. Its value is that of its last expression.
"""

from __future__ import annotations

import ast
import contextlib
import importlib
import linecache
import sys
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ..spec import pickles
from . import report

_MAIN = "__main__"
_REPR = 10_000


class Cell:
    """One cell, to be called in a rank.

    Args:
        source: its Python code.
        name: what tracebacks call it, such as ``In[3]``.
        notebook: the notebook's name, for people.
        values: the pickle of a function whose globals are the notebook's, and of the values by their names.
        modules: modules to import besides those among the values.
        left: why values that the cell uses stay in the notebook, by their names.
    """

    def __init__(
        self,
        source: str,
        name: str,
        notebook: str,
        *,
        values: bytes,
        modules: Sequence[str] = (),
        left: Mapping[str, str],
    ) -> None:
        self.__module__, self.__qualname__ = notebook, name
        self._source, self._name = source, name
        self._values, self._modules, self._left = values, tuple(modules), dict(left)

    def __call__(self) -> Any:
        """Run it, and return the value of its last expression; of one that cannot be pickled, its repr."""
        namespace = self._namespace()
        linecache.cache[self._name] = len(self._source), None, self._source.splitlines(True), self._name
        tree = ast.parse(self._source, self._name)
        last = tree.body[-1] if tree.body else None
        expression = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        if expression:
            tree.body.pop()
        try:
            exec(compile(tree, self._name, "exec", dont_inherit=True), namespace)
            if expression is None:
                return None
            value = eval(compile(expression, self._name, "eval", dont_inherit=True), namespace)
        except NameError as error:
            if why := self._left.get(error.name or ""):
                error.add_note(f"{error.name} stays in the notebook: {why}")
            raise
        return value if report.can_pickle(value) else Shown(value)

    def _namespace(self) -> dict[str, Any]:
        """The globals of the notebook's functions, with the values; `__main__` has them as attributes."""
        for module in self._modules:
            with contextlib.suppress(ImportError):  # the cell's own use of it says what is missing
                importlib.import_module(module)
        function, values = pickles.loads(self._values)
        namespace: dict[str, Any] = function.__globals__
        namespace.update(values, __name__=_MAIN)
        main = types.ModuleType(_MAIN)
        main.__getattr__ = _attributes(namespace)  # type: ignore[method-assign]  # as modules may
        sys.modules[_MAIN] = main
        return namespace


def _attributes(namespace: Mapping[str, Any]) -> Any:
    """A module's `__getattr__`: pickle finds the cell's classes and functions by it."""

    def get(name: str) -> Any:
        if name in namespace:
            return namespace[name]
        raise AttributeError(f"module {_MAIN!r} has no attribute {name!r}")

    return get


class Shown:
    """Stands for a value that cannot leave its rank: its repr."""

    def __init__(self, value: object) -> None:
        try:
            self._text = repr(value)[:_REPR]
        except Exception as error:  # noqa: BLE001  a user's __repr__ may raise anything
            self._text = f"<{type(value).__name__}, whose repr raised {type(error).__name__}>"

    def __repr__(self) -> str:
        return self._text
