"""Where ranks can go and where they go: the GPUs of a host, the offer of an agent, the place of a rank."""

from __future__ import annotations

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
        cores: the cores that are its own.
        devices: the GPUs that it may use.
        slots: how many ranks it can hold; None for any number.
        exclusive: whether `devices` are this agent's alone, because a scheduler granted them to it; else
            they are all that the host has, and the agents of that host divide them.
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
        devices: the GPUs that are this rank's own; empty on CPU.
        visible: what CUDA_VISIBLE_DEVICES says, or None to leave it alone. With one GPU a rank, every GPU
            of the gang on this host is named, in local-rank order, because scripts select
            ``cuda:LOCAL_RANK``; a rank with several GPUs sees its own alone.
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
