"""What an agent finds out about its host before a run, and what it is asked. It starts no rank for that.

An answer comes from another host, so every text and every list in it is bounded (`read_answer`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..serialization import Amount, Index, from_plain

LIMIT_S = 3.0
"""How long a host may take for all its probes."""

TEXT, ITEMS = 4096, 4096


@dataclass(frozen=True, slots=True)
class PeerAddress:
    """Where an agent of another host listens while hosts are checked."""

    agent: Index
    addresses: tuple[str, ...]
    port: int


@dataclass(frozen=True, slots=True)
class HostQuestions:
    """What every host is asked.

    Attributes:
        modules: top-level names of modules; whether each could be imported is looked up, nothing is imported.
        folders: folders from which ranks import too, before their interpreter's own.
        python: the ranks' interpreter; empty for the agent's own.
        paths: paths that options or arguments name.
        nonce: what a listening agent says to those that dial it, so that no other server is taken for it.
        peers: the agents to dial.
        limit_s: how long all probes together may take.
    """

    modules: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    python: str = ""
    paths: tuple[str, ...] = ()
    nonce: str = ""
    peers: tuple[PeerAddress, ...] = ()
    limit_s: float = LIMIT_S


@dataclass(frozen=True, slots=True)
class Installed:
    """What the ranks' interpreter has. A text is empty, and `modules` lacks a name, where it is not known.

    Attributes:
        python: its version.
        torch: the version of torch; empty if there is none.
        cuda: the version of CUDA with which that torch was built; empty for one without CUDA.
        nccl: the version of the installed NCCL.
        modules: whether each module that was asked for can be found.
        trouble: why the interpreter could not be asked.
    """

    python: str = ""
    torch: str = ""
    cuda: str = ""
    nccl: str = ""
    modules: Mapping[str, bool] = field(default_factory=dict)
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """The file system of a folder. Bytes; None is unknown. `trouble` is why nothing can be written there."""

    path: str
    total: Amount | None = None
    free: Amount | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class PathFacts:
    """A path on a host: whether it exists, is a folder, and may be read and written."""

    path: str
    exists: bool = False
    is_folder: bool = False
    readable: bool = False
    writable: bool = False


@dataclass(frozen=True, slots=True)
class GpuHolder:
    """A process that holds memory of a GPU: bytes, its name and its user, empty where unknown."""

    pid: int
    memory: Amount | None = None
    name: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class GpuFacts:
    """A GPU of a host. None is unknown.

    Attributes:
        index, uuid, name: as NVML has them.
        memory, used: its memory, and how much of that is in use, in bytes.
        holders: the processes on it, before any rank was started.
        uncorrected: errors of its memory that were not corrected, since the driver was loaded.
        pending: whether memory waits to be remapped at the next reset.
        broken: whether a remapping has failed.
        throttle: why its clocks are lowered now.
        trouble: why it cannot be read.
    """

    index: Index
    uuid: str = ""
    name: str = ""
    memory: Amount | None = None
    used: Amount | None = None
    holders: tuple[GpuHolder, ...] = ()
    uncorrected: int | None = None
    pending: bool | None = None
    broken: bool | None = None
    throttle: tuple[str, ...] | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class DialFacts:
    """An attempt to reach another agent. `error` is empty if that agent has answered.

    `interface` is this host's own on the way there; `seconds` until it was connected, or that had failed.
    """

    agent: Index
    address: str
    interface: str = ""
    seconds: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class HostFacts:
    """A host at one moment. Bytes; None is unknown.

    Attributes:
        installed: what the ranks' interpreter has.
        driver, driver_cuda: the versions of NVIDIA's driver, and of the newest CUDA that it runs.
        memory, memory_free: its memory, or that of the agent's control group if it is less.
        shm, shm_free: the same of /dev/shm.
        limits: soft limits of a rank, by the names of `ulimit`; None for unlimited.
        infiniband: whether it has InfiniBand or RoCE.
        interfaces: its network interfaces that are up, each with its addresses.
        scratch: the folder in which agents keep their files.
        gpus: its GPUs; `gpu_trouble` is why there are none.
        xids: the Xids in its kernel's log, each once; None if that may not be read.
        dials: how other agents were reached.
        paths: the paths that were asked for.
        unanswered: why probes have no answer, by their name.
    """

    installed: Installed = field(default_factory=Installed)
    driver: str = ""
    driver_cuda: str = ""
    memory: Amount | None = None
    memory_free: Amount | None = None
    shm: Amount | None = None
    shm_free: Amount | None = None
    limits: Mapping[str, int | None] = field(default_factory=dict)
    infiniband: bool = False
    interfaces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    scratch: DiskFacts | None = None
    gpus: tuple[GpuFacts, ...] = ()
    gpu_trouble: str = ""
    xids: tuple[int, ...] | None = None
    dials: tuple[DialFacts, ...] = ()
    paths: tuple[PathFacts, ...] = ()
    unanswered: Mapping[str, str] = field(default_factory=dict)


def read_answer(document: Mapping[str, Any]) -> HostFacts:
    """The facts in an agent's answer.

    Raises:
        ValueError, TypeError: it is no such answer, or larger than one can be.
    """
    require_small(document)
    return from_plain(HostFacts, document)


def require_small(value: Any) -> None:
    """Refuse a JSON value with a text or a list that is too long.

    Raises:
        ValueError: it has one.
    """
    if isinstance(value, str):
        if len(value) > TEXT:
            raise ValueError(f"a text of {len(value):,} characters")
    elif isinstance(value, (Mapping, list, tuple)):
        if len(value) > ITEMS:
            raise ValueError(f"a list of {len(value):,}")
        parts = (*value.keys(), *value.values()) if isinstance(value, Mapping) else value
        for part in parts:
            require_small(part)
