"""Horovod, which meets through a rendezvous server of its own: recognised, and not served."""

from __future__ import annotations

import types
from collections.abc import Callable

from ..agent import import_hooks
from .base import Framework, importing
from .torch import CONTRACT


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Learn the size of its group from every `init`."""
    import_hooks.around(module.HorovodBasics, "init", after=lambda _, args: joined(args[0].size()))


HOROVOD = Framework(
    "horovod",
    matches=importing("horovod"),
    **CONTRACT,
    packages=("horovod",),
    watches=("horovod.common.basics",),
    cure="give the ranks the address of a Horovod rendezvous (HOROVOD_*), or train with torch",
    apart="rankdeck starts no rendezvous for Horovod: without HOROVOD_* variables each rank trains by itself",
)
