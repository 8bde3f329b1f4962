"""Where ranks can go and where they go: a host's GPUs, an agent's offer, a rank's place, hosts' labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..serialization import Index


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a host, as NVML names it."""

    index: Index
    uuid: str
    name: str = ""
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one agent can hold.

    Attributes:
        agent: its number.
        host: which host it is on; agents that name the same host share it.
        cores: how many cores its ranks may use.
        devices: the GPUs that it may use.
        slots: how many ranks it can hold; None for any number.
        exclusive: whether a scheduler granted `devices` to this agent alone; else they are all devices of
            the host, and the agents of that host divide them.
    """

    agent: int
    host: str
    cores: int
    devices: tuple[Device, ...] = ()
    slots: int | None = None
    exclusive: bool = True


@dataclass(frozen=True, slots=True)
class Assignment:
    """One rank's place. Local ranks are counted by host, and ranks of one host are contiguous.

    Attributes:
        rank, world_size: place in the gang.
        local_rank, local_world_size: place on the host.
        node_rank, node_count: place of the host.
        agent: the agent that supervises it.
        devices: this rank's own GPUs; empty on CPU.
        visible: the value of CUDA_VISIBLE_DEVICES, or None to leave it as it is. With one GPU for each rank,
            it names all GPUs of the gang on this host, in the order of local ranks, because scripts select
            ``cuda:LOCAL_RANK``; a rank with several GPUs sees only its own. Where ranks share GPUs, a rank's
            own is at its local rank modulo their number.
        threads: the rank's share of the host's cores.
    """

    rank: Index
    world_size: Index
    local_rank: Index
    local_world_size: Index
    node_rank: Index
    node_count: Index
    agent: Index
    host: str
    devices: tuple[Device, ...] = ()
    visible: str | None = None
    threads: int = 1


def host_labels(hosts: Iterable[str], width: int) -> dict[str, str]:
    """Each host's name in at most `width` characters: without a domain that all share, its start cut off.

    The end of a name is kept because the names of a cluster's machines differ there.
    """
    hosts = set(hosts)
    domains = {host.partition(".")[2] for host in hosts}
    short = len(domains) == 1 and not any(host.replace(".", "").isdecimal() for host in hosts)
    names = {host: host.partition(".")[0] if short else host for host in hosts}
    return {
        host: name if len(name) <= width else f"…{name[1 - width :]}" for host, name in names.items() if name
    }
