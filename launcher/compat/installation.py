"""The originals' names, and putting rankdeck behind them for a while."""

from __future__ import annotations

import importlib.util
import sys
import threading
import types
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from typing import Any

from ..agent import import_hooks


@dataclass(frozen=True, slots=True)
class ServedName:
    """A name that rankdeck stands behind.

    Attributes:
        module: the original's module.
        name: its name there.
        ours: the module of this package that has the same name.
        also: other modules that have it from there; those of the original's own package, and known users.
        before: modules that build on the original, and are loaded before it is changed.
    """

    module: str
    name: str
    ours: str
    also: tuple[str, ...] = ()
    before: tuple[str, ...] = ()

    def replacement(self) -> Any:
        """What stands in its place."""
        return getattr(import_module(f".{self.ours}", __package__), self.name)


_DEEPSPEED = "pyspark.ml.deepspeed.deepspeed_distributor"
_RAY = "ray.util.spark"
_MIRRORED = "spark_tensorflow_distributor"
ORIGINALS: Sequence[ServedName] = (
    ServedName(
        "pyspark.ml.torch.distributor",
        "TorchDistributor",
        "torch_distributor",
        also=("pyspark.ml", "pyspark.ml.connect.classification"),
        before=(_DEEPSPEED,),  # its class is a subclass of this one
    ),
    ServedName(_DEEPSPEED, "DeepspeedTorchDistributor", "deepspeed_distributor"),
    ServedName("sparkdl", "HorovodRunner", "horovod_runner"),
    ServedName("sparkdl.horovod", "log_to_driver", "horovod_callbacks"),
    ServedName("sparkdl.horovod.tensorflow.keras", "LogCallback", "horovod_callbacks"),
    ServedName("horovod.spark.runner", "run", "horovod_on_spark", also=("horovod.spark",)),
    ServedName(
        f"{_MIRRORED}.mirrored_strategy_runner",
        "MirroredStrategyRunner",
        "mirrored_strategy_runner",
        also=(_MIRRORED,),
    ),
    ServedName(f"{_RAY}.cluster_init", "setup_ray_cluster", "ray_on_spark", also=(_RAY,)),
    ServedName(f"{_RAY}.cluster_init", "shutdown_ray_cluster", "ray_on_spark", also=(_RAY,)),
)
_REPLACEABLE = ("sparkdl", _MIRRORED)
"""Packages that are made where they are not installed: they are nothing but these names."""


class Installation:
    """The change of the names in this process. Those who want it may begin and end in any order."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._wanted = 0
        self._changed: list[tuple[types.ModuleType, str, Any]] = []
        self._first: dict[ServedName, Any] = {}
        self._made: dict[str, types.ModuleType] = {}
        self._hooked: set[tuple[ServedName, str]] = set()

    def begin(self) -> None:
        """Change what is imported, and what will be, unless it is changed already."""
        with self._lock:
            self._wanted += 1
            if self._wanted == 1:
                self._install()

    def end(self) -> None:
        """Give all modules their own names again, once nobody wants the change any more."""
        with self._lock:
            self._wanted -= 1
            if self._wanted:
                return
            for module, name, value in reversed(self._changed):
                setattr(module, name, value)
            for name in self._made:
                sys.modules.pop(name, None)
            self._changed.clear()
            self._first.clear()
            self._made.clear()

    def _install(self) -> None:
        missing = {name for name in _REPLACEABLE if not _is_installed(name)}
        for original in ORIGINALS:
            if original.module.partition(".")[0] in missing:
                self._make(original)
                continue
            for place in (original.module, *original.also):
                if (module := sys.modules.get(place)) is not None:
                    self._change(original, module)
                elif (original, place) not in self._hooked:  # a hook cannot be withdrawn
                    self._hooked.add((original, place))
                    import_hooks.when_imported(place, partial(self._on_import, original))

    def _on_import(self, original: ServedName, module: types.ModuleType) -> None:
        with self._lock:
            self._hooked.discard((original, module.__name__))
            if self._wanted:
                self._change(original, module)

    def _change(self, original: ServedName, module: types.ModuleType) -> None:
        if module.__name__ in original.also and not hasattr(module, original.name):
            return  # another version of it does without
        try:
            for name in original.before:
                import_module(name)
            value, ours = getattr(module, original.name), original.replacement()
        except (AttributeError, ImportError) as error:
            warnings.warn(f"{original.module}.{original.name} stays the original: {error}", stacklevel=2)
            return
        # a module that was imported after the original's was changed has ours, and is to have the original
        self._changed.append((module, original.name, self._first.setdefault(original, value)))
        setattr(module, original.name, ours)

    def _make(self, original: ServedName) -> None:
        """Make the modules of a package that is not installed, and give them the name."""
        for place in (original.module, *original.also):
            module = self._made_module(place)
            vars(module)[_NAMES][original.name] = original
            vars(module)["__all__"] = sorted(vars(module)[_NAMES])

    def _made_module(self, name: str) -> types.ModuleType:
        if (known := self._made.get(name)) is not None:
            return known
        module = types.ModuleType(name, "Made by rankdeck, which stands behind the names in it.")
        module.__spec__ = ModuleSpec(name, None, is_package=True)
        module.__path__ = []
        vars(module).update(
            {_NAMES: {}, "__getattr__": partial(_attribute, module), "__dir__": partial(_names, module)}
        )
        sys.modules[name] = self._made[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(self._made_module(parent), child, module)
        return module


_NAMES = "_rankdeck_names"
"""Where a made module has the originals of its names."""


def _attribute(module: types.ModuleType, name: str) -> Any:
    """What a made module has by a name."""
    original = vars(module)[_NAMES].get(name)
    if original is None:
        raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
    return original.replacement()


def _is_installed(package: str) -> bool:
    return package in sys.modules or importlib.util.find_spec(package) is not None


def _names(module: types.ModuleType) -> list[str]:
    return sorted({*vars(module), *vars(module)[_NAMES]})


INSTALLATION = Installation()
"""The one of this process."""
