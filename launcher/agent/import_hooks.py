"""Acting in a rank when a certain module has been imported: on the module itself, or around its functions.

Nothing is imported for this. A hook that fails leaves the user's import and the user's call as they would be
without it: what is learnt here serves people, and must never end a training.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

Act = Callable[[types.ModuleType], None]
_waiting: dict[str, list[Act]] = {}
_holders: dict[Callable[..., Any], list[types.ModuleType]] = {}
"""Which modules have a function, where that is known."""


def when_imported(name: str, act: Act) -> None:
    """Call `act` with a module once that has been executed; at once if it has been already."""
    if (loaded := sys.modules.get(name)) is not None:
        return _perform([act], loaded)
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())
    _waiting.setdefault(name, []).append(act)
    return None


def note_holders(name: str) -> None:
    """Find now which modules have the functions of a module, if that is imported: forks need not look again.

    To look at a module is to write to it, and a fork gets a page of its own for each. Whatever imports from
    the module later must do so after `around`.
    """
    home = sys.modules.get(name)
    found: dict[Callable[..., Any], list[types.ModuleType]] = {each: [] for each in _functions(home)}
    for module in list(sys.modules.values()) if found else ():
        for function in _functions(module):
            if function in found:
                found[function].append(module)
    _holders.update(found)


def _functions(module: types.ModuleType | None) -> list[types.FunctionType]:
    """The functions that a module has. An object's own idea of its class is not asked: torch's warn then."""
    values = list(getattr(module, "__dict__", {}).values())
    return [value for value in values if type(value) is types.FunctionType]


def around(
    owner: Any,
    name: str,
    *,
    before: Callable[[types.FrameType], None] | None = None,
    after: Callable[[Any, tuple[Any, ...]], None] | None = None,
) -> None:
    """Call `before` and `after` around a function of a module or a class; one that is missing is left out.

    Modules that have imported the function from its module already, as in a fork, get it from here too.

    Args:
        owner: the module or class.
        name: the function.
        before: called with the frame of the function's caller.
        after: called with the function's value and its positional arguments, if it did not raise.
    """
    function = getattr(owner, name, None)
    if not callable(function):
        return

    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller
        value = function(*args, **kwargs)
        if after is not None:
            _try(after, value, args)
        return value

    setattr(owner, name, hooked)
    if isinstance(owner, types.ModuleType):
        _replace(function, name, hooked)


def _replace(function: Callable[..., Any], name: str, hooked: Callable[..., Any]) -> None:
    """Put a hook in a function's place in every module that has it."""
    known = _holders.get(function) if type(function) is types.FunctionType else None
    modules = list(sys.modules.values()) if known is None else known
    holders = [module for module in modules if getattr(module, "__dict__", {}).get(name) is function]
    for module in holders:
        setattr(module, name, hooked)
    _holders[hooked] = holders


def is_hook(code: types.CodeType) -> bool:
    """Whether code belongs to a function that `around` has put in place of another."""
    return code.co_filename == _try.__code__.co_filename


class _Finder:
    """An import hook that finds no module itself: it lets the others find one, and adds to its loader."""

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that performs what waits for the module."""
        acts = _waiting.pop(name, None)
        if acts is None:
            return None
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None and not isinstance(spec.loader, type):
            _perform_after(spec.loader, name, acts)
        return spec


def _perform_after(loader: Any, name: str, acts: Sequence[Act]) -> None:
    """Add to one loader; that of a zip loads other modules too."""
    execute = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        execute(module)
        if module.__name__ == name:
            _perform(acts, module)

    loader.exec_module = exec_module


def _perform(acts: Sequence[Act], module: types.ModuleType) -> None:
    for act in acts:
        _try(act, module)


def _try(act: Callable[..., None], *args: Any) -> None:
    try:
        act(*args)
    except Exception:  # noqa: BLE001  another version of a framework may have anything where we look
        return
