"""The module `rankdeck`: the library `launcher` under a name that clashes with no other package.

Installed beside the packages as ``rankdeck.py``. If `launcher` is this library, `rankdeck` is that module.
If another module has that name, the library is loaded as `rankdeck`, which works because its imports are
relative.
"""

from __future__ import annotations

import importlib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import PurePath

_MARKS = ("names", "runtime_dir", "serialization")


def _is_ours(spec: ModuleSpec | None) -> bool:
    places = spec.submodule_search_locations if spec else None
    return bool(places) and all(PathFinder.find_spec(name, places) for name in _MARKS)


def _found() -> ModuleSpec:
    """The spec of our `launcher`, even if another one comes before it on the import path."""
    for place in [*sys.path, str(PurePath(__file__).parent)]:
        spec = PathFinder.find_spec("launcher", [place])
        if spec is not None and _is_ours(spec):
            return spec
    raise ImportError("rankdeck's package `launcher` is not installed beside this module")


def _load() -> None:
    loaded = sys.modules.get("launcher")
    first = loaded.__spec__ if loaded is not None else PathFinder.find_spec("launcher")
    if _is_ours(first):
        sys.modules[__name__] = importlib.import_module("launcher")
        return
    spec, module = _found(), sys.modules[__name__]
    module.__path__ = list(spec.submodule_search_locations or ())
    module.__spec__ = ModuleSpec(__name__, spec.loader, origin=spec.origin, is_package=True)
    module.__spec__.submodule_search_locations = module.__path__
    module.__package__, module.__file__ = __name__, spec.origin
    code = spec.loader.get_code("launcher")  # type: ignore[union-attr]  # loaders of packages have it
    exec(code, module.__dict__)


_load()
