"""Whether this rank meets others, and which frameworks it uses: N trainings must not pass for one.

The engine names the frameworks to watch for in the ranks' program. The file of a framework is imported here
when the rank has imported what it watches, so that ranks which use none pay for none.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import types
from collections.abc import Sequence
from functools import partial
from typing import Any

from . import import_hooks
from .rank_pipe import RankPipe

Watched = Sequence[tuple[str, Sequence[str], Sequence[str]]]
"""Each framework's name, its top-level packages, and the modules that its file wants to see."""


class Membership:
    """This rank's groups with others, as its frameworks make them."""

    def __init__(self, line: RankPipe, watched: Watched) -> None:
        self._line = line
        self._watched = watched
        self._size = 1

    def install(self) -> None:
        """Watch the imports of every framework."""
        for name, _, modules in self._watched:
            for module in modules:
                import_hooks.when_imported(module, partial(self._imported, name))

    def joined(self, world_size: int) -> None:
        """Report a group that is larger than all before it."""
        if world_size > self._size:
            self._size = world_size
            self._line.send_fact("group_joined", {"time": time.time(), "world_size": world_size})

    def report_use(self) -> None:
        """Report the frameworks in use, at the end of a rank that has joined no group."""
        if self._size > 1:
            return
        names = [name for name, packages, _ in self._watched if _in_use(name, packages)]
        if names:
            self._line.send_fact("frameworks_used", {"time": time.time(), "frameworks": names})

    def _imported(self, name: str, module: types.ModuleType) -> None:
        _file_of(name).on_import(module, self.joined)


def _in_use(name: str, packages: Sequence[str]) -> bool:
    if not any(package in sys.modules for package in packages):
        return False
    with contextlib.suppress(Exception):  # another version of the framework may have anything where we look
        in_use = getattr(_file_of(name), "in_use", None)
        return in_use is None or bool(in_use(sys.modules))
    return False


def _file_of(name: str) -> Any:
    return importlib.import_module(f"..frameworks.{name}", __package__)
