"""torchrun's worker contract, complete: any script written for torchrun runs unchanged.

The list of variables is that of torch.distributed.run 2.13; NODE_RANK is added because some frameworks
read it and torchrun does not set it.
"""

from __future__ import annotations

from functools import partial

from ..spec.places import Assignment
from .base import Framework, Rendezvous, imports


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank."""
    values = {
        "RANK": place.rank,
        "WORLD_SIZE": place.world_size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_world_size,
        "GROUP_RANK": place.node_rank,
        "GROUP_WORLD_SIZE": place.node_count,
        "NODE_RANK": place.node_rank,
        "ROLE_NAME": "default",
        "ROLE_RANK": place.rank,
        "ROLE_WORLD_SIZE": place.world_size,
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": rendezvous.port,
        "TORCHELASTIC_RUN_ID": rendezvous.run_id,
        "TORCHELASTIC_RESTART_COUNT": rendezvous.restart_count,
        "TORCHELASTIC_MAX_RESTARTS": rendezvous.max_restarts,
        # rank 0 hosts the store itself: agents must not import torch
        "TORCHELASTIC_USE_AGENT_STORE": False,
        "TORCHELASTIC_ERROR_FILE": "",
    }
    return {name: str(value) for name, value in values.items()}


def network(interface: str) -> dict[str, str]:
    """The variables that make gloo and NCCL use a network interface; none if it is unknown.

    Gloo otherwise uses the address of the host's name, which is often loopback. NCCL reads a bare name as
    a prefix, so that ``eth1`` would match ``eth10`` too.
    """
    if not interface:
        return {}
    return {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": f"={interface}"}


def defaults(interface: str) -> dict[str, str]:
    """The variables of a rank that apply unless the user or the host has set them."""
    return {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", **network(interface)}


TORCH = Framework("torch", matches=partial(imports, package="torch"), environ=environ, defaults=defaults)
