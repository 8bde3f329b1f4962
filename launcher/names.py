"""The library's two import names: `launcher`, and `rankdeck`, which clashes with no other package.

Both names stand for the same modules. If another package `launcher` comes first on the import path, the
library can be imported only as `rankdeck` (`as_rankdeck.py` loads it).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

FIRST, SECOND = "launcher", "rankdeck"


def load_on_use(package: dict[str, Any], homes: Mapping[str, str], name: str) -> Any:
    """A package's attribute from the module that has it, loaded now and kept in the package.

    Args:
        package: the package's globals.
        homes: the module of each such attribute, relative to the package.
        name: the attribute.

    Raises:
        AttributeError: the package has none of that name.
    """
    own_name = package["__name__"]  # it may have been renamed
    if name not in homes:
        raise AttributeError(f"module {own_name!r} has no attribute {name!r}")
    value = package[name] = getattr(import_module(homes[name], own_name), name)
    return value


def second_module() -> Path:
    """The source file of the module `rankdeck`: beside this one in a checkout, else the installed one."""
    here = Path(__file__).with_name("as_rankdeck.py")
    return here if here.exists() else here.parents[1] / "rankdeck.py"


def own() -> str:
    """The package name under which the library is loaded in this process."""
    return __name__.partition(".")[0]


def translated(name: str) -> str:
    """The name that a module of the library has in this process; other modules' names are returned as is."""
    head, dot, rest = name.partition(".")
    return f"{own()}{dot}{rest}" if head in (FIRST, SECOND) else name


def add_second_name() -> None:
    """Let `import rankdeck` find these modules from now on."""
    if own() == FIRST:
        sys.meta_path.insert(0, _SecondName())


def give_up_first_name() -> None:
    """Free the name `launcher` for a module of the user's: rename the loaded modules to `rankdeck`."""
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == FIRST}
    for name, module in ours.items():
        del sys.modules[name]
        module.__name__ = SECOND + name.removeprefix(FIRST)
        if module.__spec__ is not None:  # relative imports use it
            module.__spec__.name = module.__name__
            module.__package__ = module.__spec__.parent
        sys.modules[module.__name__] = module


class _SecondName:
    """A finder of `rankdeck` and its modules, in a process that has loaded them as `launcher`."""

    def find_spec(self, name: str, _: object, __: object = None) -> ModuleSpec | None:
        """A spec whose loader returns the module of `launcher`; None for names of other packages."""
        if name.partition(".")[0] != SECOND or own() == SECOND:
            return None
        loader = _Loaded(import_module(translated(name)))
        return ModuleSpec(name, loader, is_package=True)  # type: ignore[arg-type]  # a loader by its methods


class _Loaded:
    """A loader that returns a module which is loaded already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """The module itself."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """Do not execute it again, but restore its own spec, which the import system has replaced."""
        module.__spec__ = self._spec
