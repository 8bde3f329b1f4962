"""DeepSpeed: torchrun's contract, what its own launcher adds to it, and the arguments that scripts take."""

from __future__ import annotations

import glob
from collections.abc import Sequence

from ..spec.places import Assignment
from . import torch
from .base import Call, Framework, Rendezvous, importing


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank: torchrun's, and those that DeepSpeed's own launcher sets besides."""
    own = {
        "LOCAL_SIZE": place.local_world_size,
        "CROSS_RANK": place.node_rank,
        "CROSS_SIZE": place.node_count,
    }
    return {**torch.environ(place, rendezvous), **{name: str(value) for name, value in own.items()}}


def argv(place: Assignment, rendezvous: Rendezvous, call: Call) -> Sequence[str]:
    """The script's arguments, with ``--local_rank`` and the configuration if it takes them and has none yet.

    DeepSpeed's launcher passes the local rank to every script, and many require it.
    """
    del rendezvous
    added = []
    if (name := call.names("--local_rank")) and not call.gives(name):
        added.append(f"{name}={place.local_rank}")
    told = call.gives("--deepspeed")  # its parser may be in another file
    takes = told or _takes("--deepspeed_config", call)
    if call.config and takes and not call.gives("--deepspeed_config"):
        # for a script that takes no --deepspeed, it would be the abbreviation of the other
        switch = ["--deepspeed"] if _takes("--deepspeed", call) and not told else []
        added += [*switch, "--deepspeed_config", call.config]
    return [*call.args, *added]


def _takes(option: str, call: Call) -> bool:
    return "add_config_arguments" in call.source or bool(call.names(option))


def shared_memory(rendezvous: Rendezvous) -> str:
    """The buffers of ranks that reduce on one host's CPUs: 66 MiB each, and DeepSpeed 0.19 removes none."""
    return f"deepspeed_allreduce_buffer_*_{glob.escape(rendezvous.address)}_{rendezvous.port}_*"


DEEPSPEED = Framework(
    "deepspeed",
    matches=importing("deepspeed"),
    environ=environ,
    defaults=torch.defaults,
    argv=argv,
    shared_memory=shared_memory,
    packages=("deepspeed",),
    cure="call deepspeed.initialize(...) or deepspeed.init_distributed() in every rank",
)
