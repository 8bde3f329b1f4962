"""What every backend is: how agents get started, and the news that it has for the run's loop."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ..channel.connection import AgentConnection
from ..errors import LauncherError
from ..placement.plan import Plan
from ..spec.places import Offer
from ..spec.request import Request
from ..state.events import Event


@dataclass(frozen=True, slots=True)
class AgentsExpected:
    """How many agents will come."""

    agents: int


@dataclass(frozen=True, slots=True)
class StageOver:
    """No agent will come any more, and those that came end: the stage is done, or broke.

    Attributes:
        error: what the run ends with; None if the facts told before this say all there is to say.
    """

    error: LauncherError | None = None


News = AgentConnection | Event | AgentsExpected | StageOver


class Backend(Protocol):
    """Where ranks can be, and how an agent gets there.

    `launch` may be called again once a `StageOver` was taken. Everything that takes time happens on the
    backend's own threads and is told as news, so the run's loop never waits for it.
    """

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """What there is to place ranks on, and why there are no GPUs if there are none.

        None where agents themselves find out when they have been started.
        """
        ...

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the agents: those that the plan uses, or as many as the request needs."""
        ...

    def fileno(self) -> int:
        """Readable while there is news."""
        ...

    def news(self) -> list[News]:
        """What has happened since the last time: agents' links, facts, numbers, the end."""
        ...

    def abort(self) -> None:
        """Take back what `launch` started, without waiting: agents that were not reached end by it."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Wait for the agents' processes and let go of everything; whether all are gone."""
        ...

    def complaint(self) -> str:
        """What agents wrote to their own stderr, in a sentence; empty if nothing, as it should be."""
        ...
