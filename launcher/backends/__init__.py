"""Ways of getting agents started. Each is a `Backend`; the rest of the path is the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from launcher.channel.link import Link
from launcher.plan import Plan
from launcher.request import Request
from launcher.spec import Offer


class Backend(Protocol):
    """Where ranks can be, and how an agent gets there."""

    def offers(self, request: Request) -> tuple[Sequence[Offer], str]:
        """What there is to place ranks on, and why there are no GPUs if there are none."""
        ...

    def launch(self, request: Request, plan: Plan, folder: Path) -> Sequence[Link]:
        """Start an agent for each offer that the plan uses; their links are not yet joined."""
        ...

    def rendezvous_host(self, plan: Plan) -> str:
        """The address at which rank 0's store can be reached by all ranks."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Wait for the agents' processes; whether all are gone."""
        ...

    def complaint(self) -> str:
        """What agents wrote to their own stderr, in a sentence; empty if nothing, as it should be."""
        ...
