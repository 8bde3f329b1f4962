"""Drop-ins: rankdeck behind the names of other distributors.

with launcher.compat.installed():
    from ray.util.spark import setup_ray_cluster, shutdown_ray_cluster
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..agent import import_hooks

_RAY = "ray.util.spark"
_RAY_NAMES = ("setup_ray_cluster", "shutdown_ray_cluster")


@contextlib.contextmanager
def installed() -> Iterator[None]:
    """Put rankdeck behind the originals' names, for code that imports them inside this context.

    Served: `setup_ray_cluster` and `shutdown_ray_cluster` of `ray.util.spark`. Modules that are imported
    later are changed when they are; at the end all have their own names again.
    """
    from . import ray_on_spark  # a program that installs nothing needs no distributor

    changed: list[tuple[types.ModuleType, str, Any]] = []
    is_active = True

    def change(package: types.ModuleType) -> None:
        """Change the package and the module of it that has the functions, which it has imported by now."""
        for module in (package, sys.modules[f"{_RAY}.cluster_init"]) if is_active else ():
            for name in _RAY_NAMES:
                changed.append((module, name, getattr(module, name)))
                setattr(module, name, getattr(ray_on_spark, name))

    import_hooks.when_imported(_RAY, change)
    try:
        yield
    finally:
        is_active = False
        for module, name, original in reversed(changed):
            setattr(module, name, original)
