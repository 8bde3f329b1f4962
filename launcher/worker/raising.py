"""Tells the agent of an exception that is on its way through a rank, before it has ended the rank.

A rank that raises may need long to leave: a `finally` saves a checkpoint or destroys the process group, and
its peers fail at once. Three look for an exception in flight: the agent's question, which is a signal, a
process group that is destroyed or made, and a report. It is evidence: whether it ends the rank is not known
before the rank ends, and what was swallowed is taken back at the next look.
"""

from __future__ import annotations

import functools
import importlib.util
import signal
import sys
import types
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from typing import Any

from launcher.worker import rankline
from launcher.worker.in_flight import exception_in_flight
from launcher.worker.rankline import RankLine

# Beside that for stacks, and as far from those that scripts and virtual machines take for themselves.
QUESTION_SIGNAL = signal.SIGRTMAX - 6
_MODULE = "torch.distributed.distributed_c10d"
_HOOKED = ("destroy_process_group", "init_process_group")

Describe = Callable[[BaseException, types.TracebackType | None], dict[str, Any]]


class Raising:
    """What the agent was told last.

    Args:
        line: to the agent.
        describe: the fields by which an exception is told.
    """

    def __init__(self, line: RankLine, describe: Describe) -> None:
        self._line = line
        self._describe = describe
        self._told: int | None = None

    def install(self) -> None:
        """Answer the agent's question, and look where process groups come and go."""
        signal.signal(QUESTION_SIGNAL, lambda _, frame: self.look(frame))
        sys.meta_path.insert(0, _Finder(self.look))

    def look(self, frame: types.FrameType | None) -> None:
        """Tell what is in flight above a frame, once, or that what was told has ended nothing."""
        if not self._line.mine:
            return
        try:
            found = exception_in_flight(frame)
            if found is None:
                self.take_back()
            elif id(found[0]) != self._told:
                self._told = id(found[0])
                self._line.send_document(rankline.RAISING, self._describe(*found))
        except Exception:  # noqa: BLE001  whatever the stack looks like, looking at it must not end a training
            return

    def look_again(self) -> None:
        """See whether what was told is still in flight; costs nothing where nothing was."""
        if self._told is not None:
            self.look(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller

    def take_back(self) -> None:
        """Say that the exception which was told did not end the rank."""
        if self._told is not None:
            self._told = None
            self._line.send_document(rankline.RECOVERED, {})


class _Finder:
    """Finds torch's module of process groups as everybody else would, once, and hooks it as it is loaded."""

    def __init__(self, look: Callable[[types.FrameType | None], None]) -> None:
        self._look = look

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that hooks it."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _load_hooked(spec.loader, self._look)
        return spec


def _load_hooked(loader: Any, look: Callable[[types.FrameType | None], None]) -> None:
    load = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        load(module)
        for name in _HOOKED:
            if callable(function := getattr(module, name, None)):
                setattr(module, name, _looking(function, look))

    loader.exec_module = exec_module


def _looking(
    function: Callable[..., Any], look: Callable[[types.FrameType | None], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        look(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller
        return function(*args, **kwargs)

    return hooked
