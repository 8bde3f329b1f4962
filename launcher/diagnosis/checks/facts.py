"""What the checks judge: the launch, this machine, and what the hosts have answered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ...errors import LauncherError
from ...placement.refusals import PLACEMENT
from ...placement.topology import host_names
from ...serialization import Index
from ...spec.job import JobSpec
from ...spec.places import Device
from ...state.host_facts import DiskFacts, HostFacts


@dataclass(frozen=True, slots=True)
class RefusedLaunch:
    """An error, as a record that travels: the name of its class, its sentence and its hint."""

    kind: str
    message: str
    hint: str = ""

    @classmethod
    def of(cls, error: LauncherError) -> RefusedLaunch:
        """The record of an error."""
        return cls(type(error).__name__, error.message, error.hint or "")

    @property
    def is_placement(self) -> bool:
        """Whether the ranks cannot be given places."""
        return any(self.kind == kind.__name__ for kind in PLACEMENT)


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """One agent that came: what its hello says, its facts, and why it has none. See `handshake.Hello`."""

    agent: Index
    host: str
    python: str = ""
    torch: str = ""
    machine: str = ""
    address: str = ""
    cores: int = 1
    devices: tuple[Device, ...] = ()
    exclusive: bool = True
    gpu_reason: str = ""
    clock_offset: float = 0.0
    facts: HostFacts | None = None
    trouble: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What came of asking the hosts.

    Attributes:
        expected: how many agents were to come; None if none was started.
        hosts: those that came.
        waiting: what the slots were waited for, in a sentence; empty if they were there.
        error: why no agent was started, or why they ended.
        notes: what else was told while agents were started, such as that free slots are not known.
        settings: settings of the session, as far as it tells them.
        way: how the agents have reached the engine, in a sentence.
        seconds: how long it took.
    """

    expected: int | None = None
    hosts: tuple[HostAnswer, ...] = ()
    waiting: str = ""
    error: RefusedLaunch | None = None
    notes: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    way: str = ""
    seconds: float = 0.0

    @property
    def lacking(self) -> int:
        """How many agents were to come and did not."""
        return max((self.expected or 0) - len(self.hosts), 0)


@dataclass(frozen=True, slots=True)
class CapturedValue:
    """A value that a function takes along: its name, its type, and its size as a pickle in bytes."""

    name: str
    kind: str
    size: int


@dataclass(frozen=True, slots=True)
class CallerFacts:
    """This machine, and the launch as seen from it.

    Attributes:
        python, torch: the caller's own versions.
        java: why there is no Java; empty if there is one, None if none is needed.
        runs: the file system of the run folders.
        placement: why the ranks have no place here, where that is known beforehand.
        target: why the target cannot be sent.
        needed: the top-level modules that the target imports, of which each host must have one of its own.
        lazy: those that it imports only within functions.
        parsed: whether the target's source could be read; None if it is no Python.
        pickle: the size of the pickled function in bytes; None without one.
        captured: the largest values that it takes along.
        option_paths: the paths that options name, each with the option.
        argument_paths: the paths among the target's arguments that exist here.
        workdir: the working folder, and whether it can be used.
        sent: how the files travel, in a few words; empty if ranks have the caller's own.
    """

    python: str = ""
    torch: str = ""
    java: str | None = None
    runs: DiskFacts | None = None
    placement: RefusedLaunch | None = None
    target: RefusedLaunch | None = None
    needed: tuple[str, ...] = ()
    lazy: tuple[str, ...] = ()
    parsed: bool | None = None
    pickle: int | None = None
    captured: tuple[CapturedValue, ...] = ()
    option_paths: Mapping[str, str] = field(default_factory=dict)
    argument_paths: tuple[str, ...] = ()
    workdir: DiskFacts | None = None
    sent: str = ""


@dataclass(frozen=True)
class CheckedLaunch:
    """A launch to be checked: what is asked for, and all that is known."""

    spec: JobSpec
    caller: CallerFacts = field(default_factory=CallerFacts)
    examined: Examined = field(default_factory=Examined)

    @cached_property
    def names(self) -> Mapping[int, str]:
        """The name of each agent's host."""
        return host_names(self.examined.hosts)

    @cached_property
    def hosts(self) -> tuple[tuple[str, HostFacts], ...]:
        """Every host once, with the facts that its first agent has found."""
        found: dict[str, HostFacts] = {}
        for each in self.examined.hosts:
            if each.facts is not None:
                found.setdefault(self.names[each.agent], each.facts)
        return tuple(found.items())

    @cached_property
    def ranks_on(self) -> Mapping[str, int]:
        """How many ranks each host would have at most."""
        counts: dict[str, int] = {}
        agents = max(1, len(self.examined.hosts))
        for each in self.examined.hosts:
            name = self.names[each.agent]
            counts[name] = counts.get(name, 0) + -(-self.spec.num_processes // agents)
        return counts

    @property
    def wants_gpus(self) -> bool:
        """Whether ranks would use GPUs: they are demanded, or allowed and there are some."""
        return self.spec.gpu is True or (self.spec.gpu is None and any(f.gpus for _, f in self.hosts))

    def why_unknown(self, probe: str) -> Iterator[tuple[str, str]]:
        """The hosts of which a probe has no answer, each with the reason."""
        for name, facts in self.hosts:
            if probe in facts.unanswered:
                yield name, facts.unanswered[probe]
