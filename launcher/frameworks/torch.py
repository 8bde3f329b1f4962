"""torchrun's worker contract, complete: any script written for torchrun runs unchanged.

The list of variables is that of torch.distributed.run 2.13; NODE_RANK is added because some frameworks
read it and torchrun does not set it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.spec import Assignment


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where rank 0's store listens, and what the gang is called."""

    address: str
    port: int
    run_id: str
    restart_count: int = 0
    max_restarts: int = 0


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
    env = {name: str(value) for name, value in values.items()}
    if place.visible is not None:
        env["CUDA_VISIBLE_DEVICES"] = place.visible
    return env


def base_environ(caller: Mapping[str, str], extra: Mapping[str, str], *, python: str) -> dict[str, str]:
    """What all ranks of a gang share: the caller's environment, the spec's, and unbuffered output.

    The interpreter's folder goes first on PATH, because frameworks run tools (ninja) that a virtual
    environment holds and that an absolute interpreter path does not lead to.
    """
    env = {**caller, **extra}
    folder = os.path.dirname(python)
    path = env.get("PATH", os.defpath)
    leads = folder in ("", path.split(os.pathsep)[0])  # an empty entry would mean the working directory
    env["PATH"] = path if leads else f"{folder}{os.pathsep}{path}"
    env["PYTHONUNBUFFERED"] = "1"
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    return env
