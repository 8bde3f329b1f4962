"""Horovod, whose ranks find each other through a store that is made anew for each attempt.

Its variables are those that `horovodrun` sets for gloo (horovod/runner/gloo_run.py, 0.28). Operations on GPUs
use NCCL if Horovod was built with it, and gloo otherwise; both need nothing but these variables.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import types
from collections.abc import Callable, Mapping
from typing import Any

from ..agent import import_hooks
from ..channel.network import is_loopback
from ..spec.places import Assignment
from . import torch
from .base import Framework, Rendezvous, ServiceCommand, importing, imports

ADDRESSES = "RANKDECK_HOST_ADDRESSES"
_ELASTIC = re.compile(r"\b(?:hvd|horovod(?:\.\w+)?)\.elastic\b|\bimport\s+elastic\b")
ELASTIC = "Horovod's elastic mode is not served: the world keeps its size, and --max-restarts starts it again"

UNREACHABLE = (
    "Horovod tells other hosts the address of this host's name, and {name!r} is {address} here: let"
    " /etc/hosts or DNS give the name an address that other hosts reach"
)


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank: torchrun's, for code that asks torch too, and Horovod's."""
    own = {
        "HOROVOD_RANK": place.rank,
        "HOROVOD_SIZE": place.world_size,
        "HOROVOD_LOCAL_RANK": place.local_rank,
        "HOROVOD_LOCAL_SIZE": place.local_world_size,
        **_across(place, rendezvous.node_sizes),
        "HOROVOD_HOSTNAME": _hostname(place.node_rank),
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": rendezvous.address,
        "HOROVOD_GLOO_RENDEZVOUS_PORT": rendezvous.peers[0].ports[0],
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        ADDRESSES: len({peer.address for peer in rendezvous.peers}),
    }
    return {**torch.environ(place, rendezvous), **{name: str(value) for name, value in own.items()}}


def _across(place: Assignment, node_sizes: tuple[int, ...]) -> dict[str, int]:
    """The rank's place among those that have its local rank on other hosts."""
    has_one = [size > place.local_rank for size in node_sizes]
    return {"HOROVOD_CROSS_RANK": sum(has_one[: place.node_rank]), "HOROVOD_CROSS_SIZE": sum(has_one)}


def defaults(interface: str) -> Mapping[str, str]:
    """The variables of a rank that apply unless the user or the host has set them."""
    return {**torch.defaults(interface), **({"HOROVOD_GLOO_IFACE": interface} if interface else {})}


def service(place: Assignment, rendezvous: Rendezvous) -> ServiceCommand | None:
    """The store, beside rank 0."""
    if place.rank:
        return None
    settings = {"port": rendezvous.peers[0].ports[0], "members": members(rendezvous.node_sizes)}
    return ServiceCommand("Horovod's rendezvous server", "horovod_store", settings)


def members(node_sizes: tuple[int, ...]) -> dict[str, int]:
    """How many ranks meet in each scope of the store: all, those of a host, those of a local rank."""
    of_hosts = {f"local_{_hostname(node)}": size for node, size in enumerate(node_sizes)}
    across = {f"cross_{n}": sum(size > n for size in node_sizes) for n in range(max(node_sizes))}
    return {"global": sum(node_sizes), **of_hosts, **across}


def _hostname(node_rank: int) -> str:
    """What stands for a host: ranks with the same one are taken for neighbours."""
    return f"node{node_rank}"


def caution(source: str) -> str:
    """Elastic training is out of scope."""
    return ELASTIC if imports(source, ["horovod"]) and _ELASTIC.search(source) else ""


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Learn the size of its group from every `init`, and refuse one that cannot come about."""

    def before(_: types.FrameType) -> None:
        if why := unreachable(os.environ, socket.gethostname(), own_address):
            raise RuntimeError(why)

    def after(_: object, args: tuple[Any, ...]) -> None:
        joined(args[0].size())

    import_hooks.around(module.HorovodBasics, "init", before=before, after=after)


def own_address(name: str) -> str:
    """The address that gloo takes for a host's name: the first; empty if there is none."""
    with contextlib.suppress(OSError):
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0])
    return ""


def unreachable(environ: Mapping[str, str], name: str, address_of: Callable[[str], str]) -> str:
    """Why ranks on other hosts cannot reach this one; empty if nothing speaks against it.

    Horovod's sets of processes, of which the world is one, listen at the address of the host's name, whatever
    HOROVOD_GLOO_IFACE says (`GlooContext::InitializeForProcessSet`, 0.28). The ranks would wait for each
    other, and abort.
    """
    if int(environ.get(ADDRESSES, "1")) < 2:  # hosts with one address are one machine
        return ""
    address = address_of(name)
    return UNREACHABLE.format(name=name, address=address) if is_loopback(address) else ""


HOROVOD = Framework(
    "horovod",
    matches=importing("horovod"),
    environ=environ,
    defaults=defaults,
    packages=("horovod",),
    watches=("horovod.common.basics",),
    cure="call hvd.init() in every rank",
    caution=caution,
    ports=1,
    service=service,
)
