"""Ray, as a cluster of its own for one run: every rank is a Ray node, and the target is rank 0's driver.

A node offers what its rank was given: its share of the cores, and its GPUs. The ports that others must know
are held by the agent; Ray chooses all others itself.
"""

from __future__ import annotations

import ipaddress
import re
import types
from collections.abc import Callable, Mapping
from typing import Any

from ..agent import import_hooks
from ..agent.program import FOLDER, IMPORTS, PYTHON
from ..channel.connecting import endpoint
from ..errors import SpecError
from ..spec.places import Assignment
from . import none, torch
from .base import Framework, Rendezvous, RoleRequest, ServiceCommand, importing

GCS, DASHBOARD, CLIENT = range(3)
JOINS, AT = "address", "node-ip-address"
# what rankdeck decides, or what ends a node's tie to its agent
_OURS = frozenset(
    [
        "block",
        "head",
        "port",
        "dashboard-host",
        "dashboard-port",
        "ray-client-server-port",
        "temp-dir",
        "min-worker-port",
        "max-worker-port",
        "dashboard-agent-listen-port",
        "autoscaling-config",
    ]
)
# what Ray refuses for any node but a head
_OF_HEADS = frozenset(["include-dashboard", "redis-shard-ports", "system-config"])


def require_options(options: Mapping[str, str], nodes: int = 1) -> None:
    """Refuse options of ``ray start`` that the user cannot choose for this many nodes.

    Raises:
        SpecError: one is rankdeck's to choose, or no option.
    """
    for name in options:
        if not re.fullmatch(r"[a-z][a-z-]*", name):
            raise SpecError(
                f"{name!r} is no option of ray start", hint="write object-store-memory=2000000000"
            )
        if name in _OURS:
            raise SpecError(f"--{name} of ray start is for rankdeck to choose")
        if name in _OF_HEADS and JOINS in options:
            raise SpecError(f"--{name} of ray start is for a head node, and this run joins a cluster")
        if name == AT and nodes > 1:
            raise SpecError(f"--{name} of ray start is for one node, not for {nodes}")


def address_of(rendezvous: Rendezvous) -> str:
    """The address of the head's global control service, by which nodes and drivers find the cluster."""
    if joined := rendezvous.options.get(JOINS):
        return joined
    return endpoint(node_address(rendezvous, 0), rendezvous.peers[0].ports[GCS])


def node_address(rendezvous: Rendezvous, rank: int) -> str:
    """A node's address. On one host each has a loopback address of its own.

    Ray takes 127.0.0.1 for the host's address in its network, and leaves the others of 127.0.0.0/8 alone.
    """
    address = rendezvous.options.get(AT) or rendezvous.peers[rank].address
    return str(ipaddress.IPv4Address("127.0.0.2") + rank) if address == "127.0.0.1" else address


def role(rank: int, world_size: int, spec: RoleRequest) -> str:
    """The first node has the services of the whole cluster, and the driver beside it."""
    del world_size
    return "node" if rank or JOINS in spec.ray_options else "head"


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of a node and of the driver; Ray Train gives torchrun's to its own workers."""
    port = rendezvous.peers[0].ports[CLIENT]
    client = "" if JOINS in rendezvous.options else f"ray://{endpoint(node_address(rendezvous, 0), port)}"
    own = {"RAY_ADDRESS": address_of(rendezvous), "RANKDECK_RAY_CLIENT": client}
    return {**none.environ(place, rendezvous), **own}


def defaults(interface: str) -> Mapping[str, str]:
    """The variables that apply unless the user or the host has set them.

    A node's output has all that its workers print, so the driver must not print it too.
    """
    return {
        "RAY_LOG_TO_DRIVER": "0",
        "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
        "RAY_USAGE_STATS_ENABLED": "0",
        **torch.network(interface),
    }


def alike(rendezvous: Rendezvous) -> Mapping[str, str]:
    """Who may use the cluster: those with the attempt's token, as Ray runs whatever it is sent.

    Without them, a head on a host with a token of the user's demands that one, and other nodes have none.
    """
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": rendezvous.token} if rendezvous.token else {}


def service(place: Assignment, rendezvous: Rendezvous) -> ServiceCommand:
    """The node of one rank; the first is the head, unless all join a cluster."""
    own = rendezvous.peers[place.rank]
    is_head = place.rank == 0 and JOINS not in rendezvous.options
    settings: dict[str, Any] = {
        "head": is_head,
        "cluster": address_of(rendezvous),
        "address": node_address(rendezvous, place.rank),
        "ports": list(own.ports),
        "cpus": place.threads,
        "gpus": len(place.devices),
        "python": PYTHON,
        "folder": FOLDER,
        "imports": IMPORTS,
        "options": {
            name: text
            for name, text in rendezvous.options.items()
            if name not in (JOINS, AT) and (is_head or name not in _OF_HEADS)
        },
    }
    return ServiceCommand("Ray's head node" if is_head else "Ray's node", "ray_node", settings)


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Learn from every `ray.init` how many nodes its cluster has."""

    def connected(*_: object) -> None:
        joined(sum(node["Alive"] for node in module.nodes()))

    import_hooks.around(module, "init", after=connected)


RAY = Framework(
    "ray",
    matches=importing("ray"),
    environ=environ,
    defaults=defaults,
    alike=alike,
    packages=("ray",),
    watches=("ray",),
    cure="call ray.init() in the script, which runs beside rank 0",
    ports=3,
    role=role,
    service=service,
    followers=True,
    isolates=True,
    threads=False,
)
