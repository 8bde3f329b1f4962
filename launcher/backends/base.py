"""The interface of a backend, which starts agents, and the news that it has for the run's loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
    """How many agents will connect, and why the scheduler assigns them no GPUs, if the run demands some."""

    agents: int
    gpu_reason: str = ""


@dataclass(frozen=True, slots=True)
class StageOver:
    """No more agents will connect, and those that did are ending: the stage is done, or failed.

    Attributes:
        error: the error that ends the run; None if the facts before this news are enough.
    """

    error: LauncherError | None = None


News = AgentConnection | Event | AgentsExpected | StageOver


class Backend(Protocol):
    """Where ranks can run, and how agents are started there.

    `launch` may be called again once a `StageOver` was received. Everything that takes time happens on the
    backend's own threads and is reported as news, so the run's loop never waits for it.
    """

    def reserve(self, request: Request, *, whole: bool) -> bool:
        """Reserve what the runs of an engine share, until `close`; only an engine calls this, and first.

        False if the run would have to wait here for other runs of the engine, and need not elsewhere. With
        `whole` there is no elsewhere.
        """
        ...

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """The agents' places for ranks, and the reason if they have no GPUs.

        None if only the agents can find out, after they have been started.
        """
        ...

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the agents: those that the plan uses, or as many as the request needs."""
        ...

    def fileno(self) -> int:
        """Readable while there is news."""
        ...

    def news(self) -> list[News]:
        """The news since the last call: agents' connections, facts, their expected number, the end."""
        ...

    def abort(self) -> None:
        """Cancel what `launch` started, without waiting; this also ends agents that never connected."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Wait for the agents' processes and release all resources; whether all processes are gone."""
        ...

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        """The scheduler's settings of these names, as far as they are set and it tells them."""
        ...

    def complaint(self) -> str:
        """A sentence with the agents' own output to stderr; empty if there is none, as there should be."""
        ...
