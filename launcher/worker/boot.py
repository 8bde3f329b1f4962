"""What an agent is born with, and how it gets it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher import codec
from launcher.inherited import Inherited
from launcher.spec import Device

STDIN = 0
_LIMIT = 64 << 20


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where an engine listens."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Boot:
    """One JSON line on the agent's standard input, so that no secret is on a command line or in a file.

    Attributes:
        agent: the agent's number; in Spark, its task's partition.
        token: what proves that both ends belong to one run.
        descriptor: an inherited socket to the engine, or -1 for one that must be dialled.
        endpoints: the engine's addresses, where there is no such socket.
        credentials: the channel's certificates and key as PEM texts (`launcher.worker.secure`).
        lost_after_s: seconds of silence after which the other end counts as gone; None: never.
        dial_s: seconds for reaching the engine.
        watch: a process whose end is the engine's end (its socket may live on in forked children).
        lifeline: whether standard input stays open, and its end means that Spark ended the task.
        sample_s: seconds between samples.
        host: the host's name for people.
        address: the agent's address for other agents; empty to take that of the channel.
        cores: the cores that are the agent's.
        devices: the GPUs that it has been given by the engine.
        gpus: the addresses of the GPUs that Spark has granted to the task; None: it grants none.
        find_gpus: whether the agent has to find out what its GPUs are.
        spool: the folder of this launch on storage that may be shared, for an agent that no address of the
            engine lets in; empty for none. `marker`: what it then holds.
        inherited: what the run's caller had from its shell; nothing to take on where Spark starts the agent.
    """

    agent: int
    token: str
    descriptor: int = -1
    endpoints: tuple[Endpoint, ...] = ()
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)
    lost_after_s: float | None = None
    dial_s: float = 10.0
    watch: int = 0
    lifeline: bool = False
    sample_s: float = 1.0
    host: str = field(default_factory=socket.gethostname)
    address: str = ""
    cores: int = 1
    devices: tuple[Device, ...] = ()
    gpus: tuple[str, ...] | None = None
    find_gpus: bool = False
    spool: str = ""
    marker: str = field(default="", repr=False)
    inherited: Inherited | None = None


def read_boot() -> Boot:
    """Take the line from standard input, and not a byte more: what follows is the lifeline's."""
    boot = codec.from_plain(Boot, json.loads(_line(STDIN)))
    if not boot.lifeline:
        os.close(STDIN)
        os.open(os.devnull, os.O_RDONLY)
    return boot


def _line(descriptor: int) -> bytes:
    data = bytearray()
    while not data.endswith(b"\n"):
        piece = os.read(descriptor, 1)
        if not piece or len(data) > _LIMIT:
            raise ValueError("no boot line on standard input")
        data += piece
    return bytes(data)
