"""What agents said of themselves, as offers, as a meeting point, and as words for people. Pure.

Agents are on one host if they say the same machine, whatever they call it: names repeat (every container
may be ``localhost``), and Spark's own view of an executor's address can be wrong.
"""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..errors import CannotPlace
from ..spec.job import JobSpec
from ..spec.places import Device, Offer
from ..state.outcome_rules import listed

Reached = Mapping[int, Mapping[str, str]]
_SHOWN = 5


class HelloFields(Protocol):
    """What the rules here need of an agent's hello."""

    @property
    def agent(self) -> int:
        """Its number."""

    @property
    def host(self) -> str:
        """Its host's name, for people."""

    @property
    def machine(self) -> str:
        """What tells its host from all others; empty if it does not know."""

    @property
    def address(self) -> str:
        """Its own address."""

    @property
    def cores(self) -> int:
        """The cores that are its own."""

    @property
    def devices(self) -> tuple[Device, ...]:
        """The GPUs that it may use."""

    @property
    def exclusive(self) -> bool:
        """Whether they are its own alone."""

    @property
    def gpu_reason(self) -> str:
        """Why there are none, or what is wrong."""

    @property
    def python(self) -> str:
        """Its Python's version."""

    @property
    def torch(self) -> str:
        """Its torch's version; empty if there is none."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What the caller has: ``3.11.7``, and ``2.13.0+cpu`` or nothing."""

    python: str
    torch: str = ""


@dataclass(frozen=True, slots=True)
class MeetingPoint:
    """Where the gang meets: rank 0's address, and each agent's network interface on the way there."""

    address: str
    interfaces: Mapping[int, str]


def host_names(said: Sequence[HelloFields]) -> dict[int, str]:
    """A name for every agent's host that no other host has: its own, with an address if that repeats."""
    machines: dict[tuple[str, ...], HelloFields] = {}
    for each in sorted(said, key=lambda s: s.agent):
        machines.setdefault(_machine(each), each)
    repeats = Counter(first.host for first in machines.values())
    names: dict[tuple[str, ...], str] = {}
    given = {host for host, count in repeats.items() if count == 1}
    for machine, first in machines.items():
        name = first.host
        if repeats[name] > 1:
            name = _unused(f"{first.host} ({first.address or first.agent})", given)
            given.add(name)
        names[machine] = name
    return {each.agent: names[_machine(each)] for each in said}


def _machine(said: HelloFields) -> tuple[str, ...]:
    return (said.machine,) if said.machine else (said.host, said.address)


def _unused(name: str, given: set[str]) -> str:
    count, free = 1, name
    while free in given:
        count += 1
        free = f"{name} #{count}"
    return free


def offers_of(said: Sequence[HelloFields], spec: JobSpec) -> list[Offer]:
    """What the agents of a cluster can hold.

    An agent stands for a Spark task and holds the ranks of one, but no more than its share of the gang:
    where more tasks came than the gang needs (one a rank, on the CPU), ranks would otherwise crowd on the
    first agents and leave the cores of the others idle.
    """
    names = host_names(said)
    share = -(-spec.num_processes // max(1, len(said)))
    return [
        Offer(
            agent=each.agent,
            host=names[each.agent],
            cores=each.cores,
            devices=each.devices,
            slots=min(spec.ranks_per_task, share),
            exclusive=each.exclusive,
        )
        for each in said
    ]


def gpu_reason(said: Sequence[HelloFields]) -> str:
    """Why GPUs are missing, each reason once with the hosts that gave it; empty if none did."""
    names = host_names(said)
    hosts: dict[str, dict[str, None]] = {}
    for each in said:
        if each.gpu_reason:
            hosts.setdefault(each.gpu_reason, {})[names[each.agent]] = None
    if len(hosts) == 1 and all(each.gpu_reason for each in said):
        return next(iter(hosts))
    given = [f"{_those(on)}: {reason}" for reason, on in hosts.items()]
    return listed(given, most=3, joint="; ", last="; ")


def _those(names: Mapping[str, None]) -> str:
    return listed(list(names), most=_SHOWN)


def choose_address(
    candidates: Sequence[str],
    reached: Reached,
    hosts: Mapping[int, str],
    *,
    first: int,
) -> MeetingPoint:
    """The address of rank 0's host that all agents can use, and by which interface each does.

    Args:
        candidates: addresses of rank 0's host, the best first.
        reached: for every agent, the candidates that it reached, each with its own interface on that way.
        hosts: the host of every agent that has ranks, as in `host_names`.
        first: rank 0's agent.

    Raises:
        CannotPlace: there is none; it says who cannot reach whom.
    """
    alone = len(set(hosts.values())) == 1
    usable = [address for address in candidates if alone or not is_loopback(address)]
    for address in usable:
        if all(address in reached.get(agent, ()) for agent in hosts):
            return MeetingPoint(address, {agent: reached[agent][address] for agent in hosts})
    raise CannotPlace(
        _unreached(usable, reached, hosts, hosts[first]),
        hint="the executors' hosts have to reach each other: look at routes and firewalls between them",
    )


def is_loopback(address: str) -> bool:
    """Whether an address means each host itself: a number or the name ``localhost``."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return address.lower() in ("localhost", "localhost.localdomain", "ip6-localhost")
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    return (mapped or number).is_loopback


def _unreached(usable: Sequence[str], reached: Reached, hosts: Mapping[int, str], first: str) -> str:
    where = f"{first}, where rank 0 would listen"
    if not usable:
        return f"{where}, has no address that other hosts could reach"
    cut_off = _without(usable, reached, hosts)
    if cut_off:
        return f"{_those(cut_off)} cannot reach {where}, at {listed(usable, most=_SHOWN, last=' or ')}"
    lacking = [f"{address} not from {_those(_without([address], reached, hosts))}" for address in usable]
    return f"no address of {where}, is reached by all: {listed(lacking, most=3, joint='; ', last='; ')}"


def _without(addresses: Sequence[str], reached: Reached, hosts: Mapping[int, str]) -> dict[str, None]:
    """The hosts whose agents reached none of these addresses."""
    lacking = (host for agent, host in hosts.items() if not reached.get(agent, {}).keys() & set(addresses))
    return dict.fromkeys(lacking)


def version_notes(said: Sequence[HelloFields], ours: Versions, *, pickled: bool) -> tuple[str, ...]:
    """What to say of Python and torch versions that differ among the hosts, or from the caller's.

    Args:
        said: the agents.
        ours: the caller's own versions.
        pickled: whether the target travels as a pickle, which another Python cannot always read.

    Raises:
        CannotPlace: it does, and a host has another Python than the caller.
    """
    names = host_names(said)
    here = _minor(ours.python)
    pythons = _by_version((names[s.agent], _minor(s.python)) for s in said)
    if pickled and (wrong := {v: hosts for v, hosts in pythons.items() if v != here}):
        raise CannotPlace(
            f"the function was pickled by Python {here}, and there is {_spread('Python', wrong)}",
            hint=f"set PYSPARK_PYTHON to a Python {here} that every host has, or run a script",
        )
    torches = _by_version((names[s.agent], s.torch) for s in said)
    without = torches.pop("", {})
    public = {version.partition("+")[0] for version in torches}
    notes = []
    if set(pythons) - {here}:
        notes.append(f"{_spread('Python', pythons)}; the caller has {here}")
    if len(torches) > 1 or (ours.torch and public - {ours.torch.partition("+")[0]}):
        notes.append(_spread("torch", torches) + (f"; the caller has {ours.torch}" if ours.torch else ""))
    if without:
        notes.append(f"torch is not installed on {_those(without)}")
    return tuple(notes)


def _minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def _by_version(pairs: Iterable[tuple[str, str]]) -> dict[str, dict[str, None]]:
    """The hosts of every version, those of the rarest first: they are the odd ones out."""
    hosts: dict[str, dict[str, None]] = {}
    for host, version in pairs:
        hosts.setdefault(version, {})[host] = None
    return dict(sorted(hosts.items(), key=lambda item: (len(item[1]), item[0])))


def _spread(what: str, versions: Mapping[str, Mapping[str, None]]) -> str:
    each = [f"{version} on {_those(hosts)}" for version, hosts in versions.items()]
    return f"{what} {listed(each, most=_SHOWN, last=', ')}"
