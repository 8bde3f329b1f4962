"""From agents' hellos: their hosts, offers, the gang's rendezvous, and notes for the user. Pure.

Agents are on one host if they report the same machine, whatever its name: names repeat (every container
may be ``localhost``), and Spark's own view of an executor's address can be wrong.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ..channel.network import Way, is_loopback
from ..spec.job import JobSpec
from ..spec.places import Device, Offer
from ..state.outcome_rules import listed
from .refusals import HostsCutOff, VersionsDiffer
from .versions import by_version, minor, rarest_first, release, spread

Reached = Mapping[int, Mapping[str, Way]]
_SHOWN = 5


class HelloFields(Protocol):
    """The fields of an agent's hello that this module needs."""

    @property
    def agent(self) -> int:
        """The agent's number."""

    @property
    def host(self) -> str:
        """Its host's name, for display."""

    @property
    def machine(self) -> str:
        """A unique identifier of its host; empty if unknown."""

    @property
    def address(self) -> str:
        """Its address."""

    @property
    def cores(self) -> int:
        """How many cores it may use."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that it may use."""

    @property
    def exclusive(self) -> bool:
        """Whether no other agent uses its GPUs."""

    @property
    def gpu_reason(self) -> str:
        """Why it has no GPUs, or what is wrong with them."""

    @property
    def python(self) -> str:
        """Its Python's version."""

    @property
    def torch(self) -> str:
        """Its torch's version; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Versions:
    """The caller's versions, such as ``3.11.7`` and ``2.13.0+cpu``; `torch` is empty if there is none."""

    python: str
    torch: str = ""


@dataclass(frozen=True, slots=True)
class MeetingPoint:
    """Where the gang meets: rank 0's address, and each agent's way there; none on a single host."""

    address: str
    ways: Mapping[int, Way] = field(default_factory=dict)


def host_names(hellos: Sequence[HelloFields]) -> dict[int, str]:
    """A unique name for every agent's host: the host's own, with an address if others have that name."""
    machines: dict[tuple[str, ...], HelloFields] = {}
    for each in sorted(hellos, key=lambda s: s.agent):
        machines.setdefault(_machine(each), each)
    repeats = Counter(first.host for first in machines.values())
    names: dict[tuple[str, ...], str] = {}
    used = {host for host, count in repeats.items() if count == 1}
    for machine, first in machines.items():
        name = first.host
        if repeats[name] > 1:
            name = _unused(f"{first.host} ({first.address or first.agent})", used)
            used.add(name)
        names[machine] = name
    return {each.agent: names[_machine(each)] for each in hellos}


def _machine(hello: HelloFields) -> tuple[str, ...]:
    return (hello.machine,) if hello.machine else (hello.host, hello.address)


def _unused(name: str, used: set[str]) -> str:
    count, free = 1, name
    while free in used:
        count += 1
        free = f"{name} #{count}"
    return free


def offers_of(hellos: Sequence[HelloFields], spec: JobSpec) -> list[Offer]:
    """The offers of a cluster's agents.

    An agent stands for a Spark task and holds the ranks of one, but no more than its share of the gang:
    if more tasks came than the gang needs (one per rank, on the CPU), ranks would otherwise fill the first
    agents and leave the cores of the others idle.
    """
    names = host_names(hellos)
    share = -(-spec.num_processes // max(1, len(hellos)))
    return [
        Offer(
            agent=each.agent,
            host=names[each.agent],
            cores=each.cores,
            devices=each.devices,
            slots=min(spec.ranks_per_task, share),
            exclusive=each.exclusive,
        )
        for each in hellos
    ]


def gpu_reason(hellos: Sequence[HelloFields], scheduler: str = "") -> str:
    """Why GPUs are missing: each reason once, with the hosts that reported it, and the scheduler's.

    Empty if no host reported any.
    """
    reason = _reported(hellos)
    return f"{reason}, and {scheduler}" if reason and scheduler else reason


def _reported(hellos: Sequence[HelloFields]) -> str:
    names = host_names(hellos)
    hosts: dict[str, dict[str, None]] = {}
    for each in hellos:
        if each.gpu_reason:
            hosts.setdefault(each.gpu_reason, {})[names[each.agent]] = None
    if len(hosts) == 1 and all(each.gpu_reason for each in hellos):
        return next(iter(hosts))
    reasons = [f"{_list_hosts(on)}: {reason}" for reason, on in hosts.items()]
    return listed(reasons, most=3, joint="; ", last="; ")


def _list_hosts(names: Mapping[str, None]) -> str:
    return listed(list(names), most=_SHOWN)


def choose_address(
    candidates: Sequence[str],
    reached: Reached,
    hosts: Mapping[int, str],
    *,
    first: int,
) -> MeetingPoint:
    """The best address of rank 0's host that all agents reach, with each agent's way there.

    Args:
        candidates: addresses of rank 0's host, the best first.
        reached: for every agent, the candidates that it reached, each with the agent's way there.
        hosts: the host of every agent that has ranks, as in `host_names`.
        first: rank 0's agent.

    Raises:
        HostsCutOff: there is none; the message names the hosts that cannot reach each other.
    """
    alone = len(set(hosts.values())) == 1
    usable = [address for address in candidates if alone or not is_loopback(address)]
    for address in usable:
        if all(address in reached.get(agent, ()) for agent in hosts):
            return MeetingPoint(address, {agent: reached[agent][address] for agent in hosts})
    raise HostsCutOff(
        _unreachable_text(usable, reached, hosts, hosts[first]),
        hint="the executors' hosts have to reach each other: look at routes and firewalls between them",
    )


def _unreachable_text(usable: Sequence[str], reached: Reached, hosts: Mapping[int, str], first: str) -> str:
    where = f"{first}, where rank 0 would listen"
    if not usable:
        return f"{where}, has no address that other hosts could reach"
    cut_off = _cut_off(usable, reached, hosts)
    if cut_off:
        return f"{_list_hosts(cut_off)} cannot reach {where}, at {listed(usable, most=_SHOWN, last=' or ')}"
    lacking = [f"{address} not from {_list_hosts(_cut_off([address], reached, hosts))}" for address in usable]
    return f"no address of {where}, is reached by all: {listed(lacking, most=3, joint='; ', last='; ')}"


def _cut_off(addresses: Sequence[str], reached: Reached, hosts: Mapping[int, str]) -> dict[str, None]:
    """The hosts whose agents reached none of these addresses."""
    lacking = (host for agent, host in hosts.items() if not reached.get(agent, {}).keys() & set(addresses))
    return dict.fromkeys(lacking)


def version_notes(hellos: Sequence[HelloFields], ours: Versions, *, pickled: bool) -> tuple[str, ...]:
    """Notes about Python and torch versions that differ among the hosts, or from the caller's.

    Args:
        hellos: the agents' hellos.
        ours: the caller's own versions.
        pickled: whether the target travels as a pickle, which another Python cannot always read.

    Raises:
        VersionsDiffer: the target is a pickle, and a host has another Python than the caller.
    """
    names = host_names(hellos)
    here = minor(ours.python)
    pythons = rarest_first(by_version((names[s.agent], minor(s.python)) for s in hellos))
    if pickled and (wrong := {v: hosts for v, hosts in pythons.items() if v != here}):
        raise VersionsDiffer(
            f"the function was pickled by Python {here}, and there is {spread('Python', wrong)}",
            hint=f"set PYSPARK_PYTHON to a Python {here} that every host has, or run a script",
        )
    torches = rarest_first(by_version((names[s.agent], s.torch) for s in hellos))
    without = torches.pop("", [])
    public = set(map(release, torches))
    notes = []
    if set(pythons) - {here}:
        notes.append(f"{spread('Python', pythons)}; the caller has {here}")
    if len(torches) > 1 or (ours.torch and public - {release(ours.torch)}):
        notes.append(spread("torch", torches) + (f"; the caller has {ours.torch}" if ours.torch else ""))
    if without:
        notes.append(f"torch is not installed on {listed(without)}")
    return tuple(notes)
