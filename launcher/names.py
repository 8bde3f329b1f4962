"""The library's two import names: `launcher`, and `rankdeck`, which clashes with nobody.

Whoever has imported the one has the other too: both are the same modules. Where a `launcher` of the
user's own comes first on the import path, ours is there as `rankdeck` alone (`as_rankdeck.py` loads it).
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

FIRST, SECOND = "launcher", "rankdeck"


def second_module() -> Path:
    """The source of the module `rankdeck`: in a checkout beside this one, else as it was installed."""
    here = Path(__file__).with_name("as_rankdeck.py")
    return here if here.exists() else here.parents[1] / "rankdeck.py"


def own() -> str:
    """The name under which these modules are loaded in this process."""
    return __name__.partition(".")[0]


def translated(name: str) -> str:
    """A module of the library by the name that it has in this process; any other as it is."""
    head, dot, rest = name.partition(".")
    return f"{own()}{dot}{rest}" if head in (FIRST, SECOND) else name


def add_second_name() -> None:
    """Let `import rankdeck` find these modules from now on."""
    if own() == FIRST:
        sys.meta_path.insert(0, _SecondName())


def give_up_first_name() -> None:
    """Leave the name `launcher` to a module of the user's: ours go on as `rankdeck`, as they are."""
    ours = {name: module for name, module in sys.modules.items() if name.partition(".")[0] == FIRST}
    for name, module in ours.items():
        del sys.modules[name]
        module.__name__ = SECOND + name.removeprefix(FIRST)
        if module.__spec__ is not None:  # by which a module finds its neighbours
            module.__spec__.name = module.__name__
            module.__package__ = module.__spec__.parent
        sys.modules[module.__name__] = module


class _SecondName:
    """Finds `rankdeck` and what is in it, in a process that has it as `launcher`."""

    def find_spec(self, name: str, _: object, __: object = None) -> ModuleSpec | None:
        """The module that the name stands for; None for any other name."""
        if name.partition(".")[0] != SECOND or own() == SECOND:
            return None
        loader = _Loaded(import_module(translated(name)))
        return ModuleSpec(name, loader, is_package=True)  # type: ignore[arg-type]  # a loader by its methods


class _Loaded:
    """Gives out a module that is there already."""

    def __init__(self, module: ModuleType) -> None:
        self._module, self._spec = module, module.__spec__

    def create_module(self, _: ModuleSpec) -> ModuleType:
        """The module itself."""
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        """It has been executed; its own spec, by which it imports its neighbours, is given back."""
        module.__spec__ = self._spec
