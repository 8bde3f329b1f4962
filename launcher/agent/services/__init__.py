"""The frameworks' own processes beside ranks: how one is run, and how it speaks with its agent.

A service is a module of this folder with a function `serve(line, **settings)`, which returns once it is
released.
"""

from __future__ import annotations

import importlib
import select
import sys
from collections.abc import Mapping
from typing import Any, Protocol

from .. import rank_pipe
from ..rank_pipe import RankPipe


class AgentLine(Protocol):
    """A service's line to its agent."""

    def fileno(self) -> int:
        """Readable once the service is released, or its agent is gone."""

    def ready(self, url: str = "") -> None:
        """Say that the service can be used; `url` is its page for browsers, if it has one."""

    def lost(self, reason: str) -> None:
        """Say why the service will end although nobody has released it."""


class ServiceLine:
    """The line over a rank's pipe."""

    def __init__(self, pipe: RankPipe) -> None:
        self._pipe = pipe

    def fileno(self) -> int:
        """Readable once the service is released, or its agent is gone: the agent sends nothing."""
        return self._pipe.sock.fileno()

    def ready(self, url: str = "") -> None:
        """Say that the service can be used."""
        self._pipe.send_document(rank_pipe.READY, {"url": url})

    def lost(self, reason: str) -> None:
        """Say why the service will end."""
        self._pipe.send_document(rank_pipe.LOST, {"reason": reason})


def released(line: AgentLine, timeout_s: float | None = None) -> bool:
    """Whether the service is released, or becomes so within a time; None waits without a limit."""
    return bool(select.select([line], [], [], timeout_s)[0])


def serve(pipe: RankPipe, order: Mapping[str, Any]) -> None:
    """Run a service to its end, and exit: with 1 if it ended before it was released."""
    module = importlib.import_module(f".{order['module']}", __package__)
    line = ServiceLine(pipe)
    module.serve(line, **order["settings"])
    sys.exit(0 if released(line, 0) else 1)
