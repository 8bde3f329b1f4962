"""No framework: ranks that are not meant to meet, such as the trials of a search.

They get their place under names that no framework reads. Under torchrun's names, accelerate and Lightning
would wait for the others.
"""

from __future__ import annotations

from ..spec.places import Assignment
from .base import Framework, Rendezvous


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank."""
    values = {
        "RANKDECK_RANK": place.rank,
        "RANKDECK_WORLD_SIZE": place.world_size,
        "RANKDECK_LOCAL_RANK": place.local_rank,
        "RANKDECK_LOCAL_WORLD_SIZE": place.local_world_size,
        "RANKDECK_NODE_RANK": place.node_rank,
        "RANKDECK_RUN_ID": rendezvous.run_id,
        "RANKDECK_RESTART_COUNT": rendezvous.restart_count,
    }
    return {name: str(value) for name, value in values.items()}


def never(source: str) -> bool:
    """It is chosen by name only."""
    del source
    return False


NONE = Framework("none", matches=never, environ=environ)
