"""The interface of a framework: how its ranks learn their place, and how rankdeck learns that they met.

A framework is a file of this folder named like it, with its row as a constant. Two functions of that file,
both optional, run inside the ranks:

    on_import(module, joined)   after a module of `Framework.watches` was imported; it calls `joined` with the
                                world size whenever this rank has joined a group
    in_use(modules)             at the rank's end, if a package of `Framework.packages` is loaded: whether it
                                was used

So the files need the standard library only, and none of them imports its framework.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

from ..spec.places import Assignment


@dataclass(frozen=True, slots=True)
class Peer:
    """How others reach a rank: an address of its host, and the ports that its agent holds for it."""

    address: str
    ports: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where rank 0's store listens, and the identity of the gang.

    Attributes:
        address, port: an address of rank 0's host that every rank reaches, and a port that its agent holds.
        run_id: the run's id.
        restart_count: how often the gang has been restarted; 0 for the first attempt.
        max_restarts: how often it may be restarted.
        peers: every rank, in order, if the framework asks for ports; else none.
        node_sizes: how many ranks each host has, by its node rank.
        roles: how many ranks have each role, in the order in which the request names them.
        options: what the request says of the framework's own processes.
        token: a secret of this attempt, by which its processes may know each other.
        hosted: whether rank 0's agent hosts torch's store, and not rank 0 itself.
    """

    address: str
    port: int
    run_id: str
    restart_count: int = 0
    max_restarts: int = 0
    peers: tuple[Peer, ...] = ()
    node_sizes: tuple[int, ...] = ()
    roles: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    token: str = field(default="", repr=False)
    hosted: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """A target's arguments, and what a framework may add to them.

    Attributes:
        args: the arguments of the request; none for a function.
        source: the target's source; empty if it cannot be read.
        config: the path of the framework's own configuration file on the rank's host; empty without one.
    """

    args: Sequence[str] = ()
    source: str = ""
    config: str = ""

    def names(self, option: str) -> str:
        """The option as the source spells it, in quotation marks: ``--local-rank`` or ``--local_rank``."""
        spelt = re.findall(r"""["'](--[\w-]+)["']""", self.source)
        return next((word for word in spelt if _plain(word) == _plain(option)), "")

    def gives(self, option: str) -> bool:
        """Whether the option is among the arguments."""
        return any(_plain(word) == _plain(option) for word in self.args)


def _plain(word: str) -> str:
    """An option's name without its value, and without the difference between dashes and underscores."""
    return word.partition("=")[0].replace("-", "_")


@dataclass(frozen=True, slots=True)
class ServiceCommand:
    """A process of the framework's own that an agent runs beside a rank.

    Attributes:
        name: what people call it, such as ``Horovod's rendezvous server``.
        module: the module of `launcher.agent.services` that runs it.
        settings: what its function `serve` is called with. The words of `launcher.agent.program` in texts
            stand for what only the agent knows.
    """

    name: str
    module: str
    settings: Mapping[str, Any] = field(default_factory=dict)


class RoleRequest(Protocol):
    """What roles follow from in a request: a `JobSpec` is one, which ranks need not load."""

    @property
    def roles(self) -> Mapping[str, int]:
        """How many ranks have another role."""

    @property
    def ray_options(self) -> Mapping[str, str]:
        """Options of ``ray start``."""


def _no_defaults(interface: str) -> Mapping[str, str]:
    del interface
    return {}


def _nothing_alike(rendezvous: Rendezvous) -> Mapping[str, str]:
    del rendezvous
    return {}


def _no_service(place: Assignment, rendezvous: Rendezvous) -> ServiceCommand | None:
    del place, rendezvous
    return None


def _no_role(rank: int, world_size: int, spec: RoleRequest) -> str:
    del rank, world_size, spec
    return ""


def _no_caution(source: str) -> str:
    del source
    return ""


def _nothing_left(rendezvous: Rendezvous) -> str:
    del rendezvous
    return ""


def _unchanged(place: Assignment, rendezvous: Rendezvous, call: Call) -> Sequence[str]:
    del place, rendezvous
    return call.args


@dataclass(frozen=True, slots=True)
class Framework:
    """A row of `launcher.frameworks.registry`. All of it is pure.

    Attributes:
        name: the framework's name, and that of its file.
        matches: whether the text of a target's source uses the framework.
        environ: the variables of one rank.
        defaults: variables of one rank that apply unless the user or the host has set them, from the name of
            the network interface to use, which is empty if unknown.
        alike: variables that must be the same in all ranks, unless the user has set them; what a host has set
            does not count.
        argv: the arguments of one rank, from those of the request.
        shared_memory: a pattern for the names of the segments in shared memory that its ranks leave, however
            they end; empty for none.
        packages: its top-level packages, by which ranks find out that they use it.
        watches: the modules whose import in a rank calls `on_import`.
        cure: what a user must do so that its ranks meet, for the warning that they did not.
        caution: from the target's source, what a user should know before the start; empty for nothing.
        ports: how many ports the agents hold for each rank, besides the one of rank 0's store.
        roles: the roles that a request may give ranks; the first is that of ranks without another one.
        role: what people call a rank's part in the gang, from the rank, the world size and the request; empty
            if all ranks have the same.
        service: what an agent runs beside a rank; None for nothing. Ranks start once all services are ready,
            and a service ends when the ranks that run the target have ended.
        followers: whether the target runs at rank 0 only; every other rank is its service and nothing else.
        isolates: whether a rank sees its own GPUs only, and not those of all ranks on its host.
        threads: whether a rank's share of the cores is told by OMP_NUM_THREADS.
        store: whether its ranks meet at torch's store as torchrun's do, so that an agent may host it.
    """

    name: str
    matches: Callable[[str], bool]
    environ: Callable[[Assignment, Rendezvous], Mapping[str, str]]
    defaults: Callable[[str], Mapping[str, str]] = _no_defaults
    alike: Callable[[Rendezvous], Mapping[str, str]] = _nothing_alike
    argv: Callable[[Assignment, Rendezvous, Call], Sequence[str]] = _unchanged
    shared_memory: Callable[[Rendezvous], str] = _nothing_left
    packages: tuple[str, ...] = ()
    watches: tuple[str, ...] = ()
    cure: str = ""
    caution: Callable[[str], str] = _no_caution
    ports: int = 0
    roles: tuple[str, ...] = ()
    role: Callable[[int, int, RoleRequest], str] = _no_role
    service: Callable[[Assignment, Rendezvous], ServiceCommand | None] = _no_service
    followers: bool = False
    isolates: bool = False
    threads: bool = True
    store: bool = False

    def leads(self, rank: int) -> bool:
        """Whether a rank runs the target."""
        return rank == 0 or not self.followers


def imports(source: str, packages: Sequence[str]) -> bool:
    """Whether a line of the source imports one of the packages or a part of it."""
    if not any(package in source for package in packages):  # most sources: searching is quick
        return False
    names = "|".join(map(re.escape, packages))
    others = r"(?:[\w.]+(?:\s+as\s+\w+)?\s*,\s*)*"
    pattern = rf"(?:^|;)[ \t]*(?:from[ \t]+|import[ \t]+{others})(?:{names})\b"
    return re.search(pattern, source, re.MULTILINE) is not None


def importing(*packages: str) -> Callable[[str], bool]:
    """The rule that a source uses a framework if it imports one of these packages."""
    return partial(imports, packages=packages)
